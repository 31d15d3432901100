import Foundation
import TestDatabase
import Testing

@testable import SQL

extension Trait where Self == ConditionTrait {
  /// Skips what needs a PostgreSQL server where there is none.
  static var needsPostgreSQL: Self {
    .enabled(
      if: DatabaseEngine.available.contains(.postgreSQL),
      "TEST_POSTGRESQL_URL is not set: Scripts/postgresql starts a server and prints its URL")
  }
}

/// Runs `body` with a new PostgreSQL database and closes it.
func withPostgreSQL<Result>(
  options: PostgreSQLDatabase.Options = .init(), observer: DatabaseObserver? = nil, script: String = "",
  _ body: (PostgreSQLDatabase, TestDatabase) async throws -> Result
) async throws -> Result {
  let test = try await TestDatabase(.postgreSQL, migrated: false)
  let database = try await PostgreSQLDatabase.open(
    url: try test.serverURL(), options: options, observer: observer)
  if !script.isEmpty { try await database.write { try $0.runScript(script) } }
  do {
    let result = try await body(database, test)
    await database.close()
    return result
  } catch {
    await database.close()
    throw error
  }
}

extension TestDatabase {
  /// What libpq is given.
  func serverURL() throws -> String {
    guard case .postgreSQL(let url) = url.target else { throw DatabaseError(.invalidURL, "no server") }
    return url
  }

  /// Ends all connections of `database`, but for this one's own.
  func terminateOthers() async throws -> Int64 {
    let ended = try await database.write { connection in
      try connection.query(
        Statement(
          """
          SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid()
          """))
    }
    return try ended[0].int64(0)
  }
}

/// A server of a test's own, which the test may kill.
final class OwnServer: Sendable {
  let url: String
  private let folder: String

  init() throws {
    // Short, for a socket's path has 107 bytes at most.
    folder = "/tmp/push-bouncer-\(UUID().uuidString.prefix(8))"
    url = try Self.run("start", folder)
  }

  deinit { _ = try? Self.run("stop", folder) }

  func kill() throws { _ = try Self.run("kill", folder) }

  func freeze() throws { _ = try Self.run("freeze", folder) }

  func thaw() throws { _ = try Self.run("thaw", folder) }

  func start() throws { _ = try Self.run("start", folder) }

  private static func run(_ command: String, _ folder: String) throws -> String {
    let root = URL(fileURLWithPath: #filePath).appending(path: "../../../..").standardizedFileURL
    let process = Process()
    process.executableURL = root.appending(path: "Scripts/postgresql")
    process.arguments = [command, folder]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let text = try output.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw CocoaError(.executableLoad) }
    return String(decoding: text, as: UTF8.self).trimmingCharacters(in: .newlines)
  }
}
