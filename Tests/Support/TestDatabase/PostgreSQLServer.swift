import Foundation
import SQL
import TestSupport
package import Testing

extension Trait where Self == ConditionTrait {
  /// Skips a test if there is no PostgreSQL server. If the tests were given one, its programs to start
  /// another are installed too.
  package static var needsPostgreSQL: Self {
    .enabled(
      if: DatabaseEngine.available.contains(.postgreSQL),
      "TEST_POSTGRESQL_URL is not set: Scripts/proof/postgresql starts a server and prints its URL")
  }
}

/// A PostgreSQL server for one test, which may stop it at any time.
package struct PostgreSQLServer: Sendable {
  /// The folder of its data and its socket.
  package let folder: String
  package let url: String

  /// Runs a test with an empty server.
  ///
  /// - Parameter settings: `name=value`, as in postgresql.conf.
  package static func test(_ settings: String..., body: (PostgreSQLServer) async throws -> Void) async throws
  {
    let folder = newFolder()
    let url = try script("start", [folder] + settings)
    do {
      try await body(PostgreSQLServer(folder: folder, url: url))
    } catch {
      _ = try? script("stop", [folder])
      throw error
    }
    _ = try script("stop", [folder])
  }

  /// Runs a test with an empty server and a standby that streams from it.
  ///
  /// - Parameter isSynchronous: whether the primary answers a commit only when the standby has it, too.
  package static func testWithStandby(
    isSynchronous: Bool = true, body: (_ primary: Self, _ standby: Self) async throws -> Void
  ) async throws {
    try await test { primary in
      let folder = newFolder()
      defer { _ = try? script("stop", [folder]) }
      let standby = PostgreSQLServer(
        folder: folder, url: try script("follow", [folder, primary.folder]))
      try await primary.awaitStandby(isSynchronous: isSynchronous)
      try await body(primary, standby)
    }
  }

  /// One URL of several servers.
  package static func url(of servers: PostgreSQLServer...) -> String {
    "postgres:///postgres?user=postgres&host=\(servers.map(\.folder).joined(separator: ","))"
  }

  /// Runs a statement as its superuser.
  package func run(_ sql: String) async throws { try await PostgreSQLDatabase.runAlone(sql, url: url) }

  /// Changes a setting for all sessions.
  package func set(_ setting: String, to value: String) async throws {
    try await PostgreSQLDatabase.runAlone("ALTER SYSTEM SET \(setting) = '\(value)'", url: url)
    try await PostgreSQLDatabase.runAlone("SELECT pg_reload_conf()", url: url)
  }

  /// Waits until no transaction is under way: then its standby has all that was committed.
  package func awaitIdle() async throws {
    try await untilRow(
      of:
        """
        SELECT 1 WHERE NOT EXISTS (
          SELECT 1 FROM pg_stat_activity
          WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid())
        """)
  }

  /// Waits until a standby streams from it. If that is synchronous, from then on each commit waits for it.
  package func awaitStandby(isSynchronous: Bool) async throws {
    if isSynchronous { try await set("synchronous_standby_names", to: "*") }
    let state = isSynchronous ? "sync" : "async"
    try await untilRow(
      of:
        "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '\(state)'")
  }

  /// Waits until a query returns a row.
  package func untilRow(of query: String) async throws {
    try await eventually("a row of \(query)") {
      try await ForeignPostgreSQL.snapshot(of: DatabaseURL(url)) { try await $0.query(Statement(query)) }
        .isEmpty == false
    }
  }

  /// Makes a standby a primary.
  package func promote() throws { _ = try Self.script("promote", [folder]) }

  /// Makes it a new standby of another server, whatever it was.
  package func follow(_ primary: PostgreSQLServer) throws {
    _ = try Self.script("stop", [folder])
    _ = try Self.script("follow", [folder, primary.folder])
  }

  /// Ends it when its standby has all that it has.
  package func shutDown() throws { _ = try Self.script("end", [folder]) }

  /// Stops it as a crash would.
  package func kill() throws { _ = try Self.script("kill", [folder]) }

  /// Stops its processes until they are thawed: connections are accepted, but nothing answers.
  package func freeze() throws { _ = try Self.script("freeze", [folder]) }
  package func thaw() throws { _ = try Self.script("thaw", [folder]) }

  /// Starts it again.
  package func start() throws { _ = try Self.script("start", [folder]) }

  /// Short, for a socket's path has 107 bytes at most.
  private static func newFolder() -> String {
    FileManager.default.temporaryDirectory.appending(path: "postgresql-\(UUID().uuidString.prefix(8))").path
  }

  private static func script(_ command: String, _ arguments: [String]) throws -> String {
    let root = URL(filePath: #filePath).appending(path: "../../../..").standardizedFileURL
    let process = Process()
    process.executableURL = root.appending(path: "Scripts/proof/postgresql")
    process.arguments = [command] + arguments
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw CocoaError(.executableLoad) }
    return text.trimmingCharacters(in: .whitespacesAndNewlines)
  }
}
