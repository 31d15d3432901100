import Foundation
import SQL
package import Testing

extension Trait where Self == ConditionTrait {
  /// Skips a test if there is no PostgreSQL server. If the tests were given one, its programs to start
  /// another are installed too.
  package static var needsPostgreSQL: Self {
    .enabled(
      if: DatabaseEngine.available.contains(.postgreSQL),
      "TEST_POSTGRESQL_URL is not set: Scripts/postgresql starts a server and prints its URL")
  }
}

/// A PostgreSQL server for one test, which may stop it at any time.
package struct PostgreSQLServer: Sendable {
  private let folder: String
  package let url: String

  /// Runs a test with an empty server.
  ///
  /// - Parameter settings: `name=value`, as in postgresql.conf.
  package static func test(_ settings: String..., body: (PostgreSQLServer) async throws -> Void) async throws
  {
    // Short, for a socket's path has 107 bytes at most.
    let folder = FileManager.default.temporaryDirectory.appending(
      path: "postgresql-\(UUID().uuidString.prefix(8))"
    ).path
    let url = try script("start", folder, settings)
    do {
      try await body(PostgreSQLServer(folder: folder, url: url))
    } catch {
      _ = try? script("stop", folder)
      throw error
    }
    _ = try script("stop", folder)
  }

  /// Stops it as a crash would.
  package func kill() throws { _ = try Self.script("kill", folder) }

  /// Stops its processes until they are thawed: connections are accepted, but nothing answers.
  package func freeze() throws { _ = try Self.script("freeze", folder) }
  package func thaw() throws { _ = try Self.script("thaw", folder) }

  /// Starts it again.
  package func start() throws { _ = try Self.script("start", folder) }

  private static func script(_ command: String, _ folder: String, _ settings: [String] = []) throws -> String
  {
    let root = URL(filePath: #filePath).appending(path: "../../../..").standardizedFileURL
    let process = Process()
    process.executableURL = root.appending(path: "Scripts/postgresql")
    process.arguments = [command, folder] + settings
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw CocoaError(.executableLoad) }
    return text.trimmingCharacters(in: .whitespacesAndNewlines)
  }
}
