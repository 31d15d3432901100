import Foundation
import SQL
package import Testing

extension Trait where Self == ConditionTrait {
  /// Skips what needs a PostgreSQL server where there is none: where the tests were given one, there is the
  /// program to start another, too.
  package static var needsPostgreSQL: Self {
    .enabled(
      if: DatabaseEngine.available.contains(.postgreSQL),
      "TEST_POSTGRESQL_URL is not set: Scripts/postgresql starts a server and prints its URL")
  }
}

/// A PostgreSQL server of a test's own, which may be ended at any moment.
package struct PostgreSQLServer: Sendable {
  private let folder: String
  package let url: String

  /// Runs a test with a server that has nothing in it.
  ///
  /// - Parameter settings: `name=value`, as in postgresql.conf.
  package static func test(_ settings: String..., body: (PostgreSQLServer) async throws -> Void) async throws
  {
    // Short, for a socket's path has 107 bytes at most.
    let folder = "/tmp/push-bouncer-\(UUID().uuidString.prefix(8))"
    let url = try script("start", folder, settings)
    do {
      try await body(PostgreSQLServer(folder: folder, url: url))
    } catch {
      _ = try? script("stop", folder)
      throw error
    }
    _ = try script("stop", folder)
  }

  /// Ends it as a crash would.
  package func kill() throws { _ = try Self.script("kill", folder) }

  /// Has it say nothing until it is thawed: connections are taken, and nobody answers.
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
