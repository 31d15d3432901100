import Foundation
import Logging
import Operations
import ServiceLifecycle

@testable import Server

/// Runs the service as `serve` builds it, in this process and in a folder of its own, for as long as `test` lasts.
///
/// - Parameter settings: by the configuration's keys; it listens on free ports.
func withService(
  _ settings: [String: String] = [:],
  _ test: (_ service: BouncerService, _ configuration: Configuration) async throws -> Void
) async throws {
  let folder = FileManager.default.temporaryDirectory.appending(path: "service-\(UUID().uuidString)")
  try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(at: folder) }
  let defaults = [
    "http.port": "0", "admin.port": "0", "keys.directory": folder.appending(path: "Keys").path,
    "database.url": "sqlite:\(folder.appending(path: "push-bouncer.sqlite").path)",
  ]
  let (configuration, _) = try Configuration.load(
    file: nil, environment: [:], overrides: defaults.merging(settings) { $1 }, workingDirectory: folder.path)
  _ = try KeyFolder.storageKey(in: configuration.keys.directory)
  _ = try BouncerKeyFiles(directory: configuration.keys.directory).generate()
  var logger = Logger(label: "test")
  logger.logLevel = .critical
  let service = try await BouncerService.build(configuration, logger: logger)
  let group = ServiceGroup(configuration: .init(services: service.services, logger: logger))
  try await withThrowingTaskGroup(of: Void.self) { tasks in
    tasks.addTask { try await group.run() }
    let result: Result<Void, any Error>
    do { result = .success(try await test(service, configuration)) } catch { result = .failure(error) }
    await group.triggerGracefulShutdown()
    try await tasks.waitForAll()
    try result.get()
  }
}
