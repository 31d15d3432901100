package import Foundation
package import HTTP
package import HTTPTypes
import Hummingbird
import HummingbirdTesting
package import Logging
import NIOCore
package import Operator
import Platform
package import SQL
package import Server
import ServiceLifecycle
import TestDatabase
package import TestSupport
package import ZulipBouncer
package import ZulipServer

/// The service as `serve` builds it, on a database and in a folder of its own, by a clock that the test sets.
package struct TestService: Sendable {
  package let service: BouncerService
  package let configuration: Configuration
  package let clock: TestClock
  private let time: ServiceTime
  private let database: TestDatabase
  private let client: any TestClientProtocol

  /// Settings that switch on every wire, so that a test of all endpoints leaves none out.
  package static func everything(_ backendToken: String, _ others: [String: String] = [:]) -> [String: String]
  {
    let switches = Configuration.settings.map(\.key).filter { $0.hasSuffix(".enabled") }
    return Dictionary(uniqueKeysWithValues: switches.map { ($0, "true") })
      .merging(["backend.token": backendToken]) { $1 }.merging(others) { $1 }
  }

  /// Runs a test.
  ///
  /// - Parameters:
  ///   - settings: by the configuration's keys; who names no ports listens on free ones.
  ///   - isWorking: whether it listens and works in the background; else it only answers.
  ///   - isLive: whether it is called over TCP.
  ///   - keys: writes into its key folder, which has a bouncer key.
  ///   - remoteBouncer: what is called where `server.bouncer` is a URL.
  ///   - adjust: what no setting says.
  package static func run(
    _ settings: [String: String] = [:], clock: TestClock = TestClock(), isWorking: Bool = false,
    isLive: Bool = false, logger: Logger = .quiet, keys: (_ folder: URL) throws -> Void = { _ in },
    bodies: BodyBudget? = nil, remoteBouncer: (any BouncerCalls)? = nil,
    adjust: (inout Bouncer) -> Void = { _ in },
    _ test: @escaping @Sendable (TestService) async throws -> Void
  ) async throws {
    let database = try await TestDatabase()
    defer { withExtendedLifetime(database) {} }
    // The service opens it by itself.
    await database.database.close()
    try await withTemporaryFolder { folder in
      let keyFolder = folder.appending(path: "Keys")
      _ = try BouncerKeyFiles(directory: keyFolder.path).generate()
      try keys(keyFolder)
      let defaults = [
        "http.port": "0", "admin.port": "0", "keys.directory": keyFolder.path,
        "database.url": database.setting, "http.trusted_proxies": "127.0.0.1",
      ]
      let (configuration, _) = try Configuration.load(
        file: nil, environment: [:], overrides: defaults.merging(settings) { $1 },
        workingDirectory: folder.path)
      let time = ServiceTime(wall: { clock.now }, monotonic: { clock.monotonic })
      let service = try await BouncerService.build(
        configuration, time: time, metrics: PrometheusRegistry(), bodies: bodies,
        remoteBouncer: remoteBouncer, adjust: adjust,
        logger: logger)
      let application = Application(responder: service.endpoints.responder, logger: logger)
      try await working(service, isWorking: isWorking, logger: logger) {
        try await application.test(isLive ? .live : .router) { client in
          try await test(
            TestService(
              service: service, configuration: configuration, clock: clock, time: time, database: database,
              client: client))
        }
      }
    }
  }

  private static func working(
    _ service: BouncerService, isWorking: Bool, logger: Logger, _ test: () async throws -> Void
  ) async throws {
    guard isWorking else {
      let result = await result(of: test)
      await service.close()
      return try result.get()
    }
    let group = ServiceGroup(configuration: .init(services: service.services, logger: logger))
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await group.run() }
      _ = await service.publicPort.wait()
      let result = await result(of: test)
      await group.triggerGracefulShutdown()
      try await tasks.waitForAll()
      try result.get()
    }
  }

  private static func result(of test: () async throws -> Void) async -> Result<Void, any Error> {
    do { return .success(try await test()) } catch { return .failure(error) }
  }

  /// Calls it.
  package func call(
    _ method: HTTPRequest.Method, _ uri: String, headers: HTTPFields = [:], body: some Sequence<UInt8> = []
  ) async throws -> Answer {
    let response = try await client.executeRequest(
      uri: uri, method: method, headers: headers, body: ByteBuffer(bytes: body))
    return Answer(
      status: Int(response.status.code), headers: response.headers, text: String(buffer: response.body),
      bytes: Array(response.body.readableBytesView))
  }

  /// Confirms the clock, as the operator does.
  package func trustClock() async throws {
    let record = ClockRecord(database: service.store.database)
    try await record.write(clock.now)
    try await ClockWatch(time, record: record, queues: [], logger: .quiet).compareWithDatabase()
  }

  /// The rows of a query.
  package func rows(_ sql: String) async throws -> [[Value]] {
    try await service.store.database.read { try $0.query(Statement(sql)).map(\.values) }
  }

  /// Everything in the database as it is kept.
  package func contents() async throws -> Data {
    try await database.contents(through: service.store.database)
  }
}

/// An answer as a caller receives it.
package struct Answer: Sendable {
  package let status: Int
  package let headers: HTTPFields
  package let text: String
  /// The body, where it may be other than text.
  package let bytes: [UInt8]

  package init(status: Int, headers: HTTPFields, text: String, bytes: [UInt8] = []) {
    self.status = status
    self.headers = headers
    self.text = text
    self.bytes = bytes
  }

  package var json: JSON { (try? JSON.parse(text)) ?? .null }
  package var message: String? { json["msg"]?.string }
  package var code: String? { json["code"]?.string }
  package var isSuccess: Bool { status == 200 && json["result"]?.string == "success" }
}

extension Logger {
  /// A logger that discards everything.
  package static var quiet: Logger {
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    return logger
  }
}
