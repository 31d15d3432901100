import Foundation
import SQL
import Synchronization

/// The PostgreSQL server that tests may fill with databases of their own, named by the environment
/// variable `TEST_POSTGRESQL_URL`: `Scripts/proof/postgresql` starts one.
struct TestServer: Sendable {
  static let variable = "TEST_POSTGRESQL_URL"

  static let url = ProcessInfo.processInfo.environment[variable]

  let url: String

  /// A database with the program's tables, which others are copies of.
  private static let template = Mutex<Task<String, any Error>?>(nil)

  /// The URL of another database on the server.
  func url(of name: String) -> String {
    guard var parts = URLComponents(string: url) else { return url }
    parts.path = "/\(name)"
    return parts.string ?? url
  }

  /// Makes a database, with the program's tables or empty, and returns its name.
  func makeDatabase(migrated: Bool) async throws -> String {
    let name = Self.newName()
    let template = migrated ? try await template() : "template1"
    try await run("CREATE DATABASE \(name) TEMPLATE \(template)")
    return name
  }

  /// Removes a database and ends its connections.
  func drop(_ name: String) async throws {
    try await run("DROP DATABASE IF EXISTS \(name) WITH (FORCE)")
  }

  /// Runs one statement outside of a transaction, as an operator would.
  func run(_ sql: String) async throws {
    try await PostgreSQLDatabase.runAlone(sql, url: url)
  }

  private func template() async throws -> String {
    try await Self.template.withLock { task in
      let made = task ?? Task { try await makeTemplate() }
      task = made
      return made
    }.value
  }

  private func makeTemplate() async throws -> String {
    let name = Self.newName()
    try await run("CREATE DATABASE \(name)")
    let database = try await PostgreSQLDatabase.open(url: url(of: name))
    try await migrate(database)
    await database.close()
    return name
  }

  private static func newName() -> String {
    "test_" + UUID().uuidString.lowercased().filter { $0 != "-" }
  }
}
