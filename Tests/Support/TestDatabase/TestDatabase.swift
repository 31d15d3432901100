package import Foundation
import Migrations
package import SQL

extension DatabaseEngine {
  /// The engines that tests can use: PostgreSQL if `TEST_POSTGRESQL_URL` names a server
  /// (`Scripts/proof/postgresql`).
  package static let available: [DatabaseEngine] =
    TestServer.url == nil ? [.sqlite] : [.sqlite, .postgreSQL]
}

extension DatabaseEngine {
  /// The engine of tests that do not choose one themselves: `TEST_ENGINE`, SQLite without it. The whole
  /// program's tests run once with each.
  package static let chosen =
    ProcessInfo.processInfo.environment["TEST_ENGINE"].flatMap(DatabaseEngine.init(rawValue:)) ?? .sqlite
}

/// An open database of a test's own, removed with the last reference.
package final class TestDatabase: Sendable {
  /// The database.
  package let database: any Database

  /// Where it is.
  package let url: DatabaseURL

  /// The connection URL for other programs; nil for SQLite.
  package let postgreSQLURL: String?

  /// The value for the setting `database.url`.
  package var setting: String {
    postgreSQLURL ?? "sqlite:\(folder.appending(path: "test.sqlite").path(percentEncoded: false))"
  }

  /// A folder of the test's own, which holds the files of an SQLite database.
  package let folder: URL

  private let remove: @Sendable () async -> Void

  /// Makes a database, with the program's tables or empty.
  package init(
    _ engine: DatabaseEngine = .chosen, migrated: Bool = true, observer: DatabaseObserver? = nil
  ) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "database-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    self.folder = folder
    let database: any Database
    switch engine {
    case .sqlite:
      url = DatabaseURL(sqlitePath: folder.appending(path: "test.sqlite").path(percentEncoded: false))
      postgreSQLURL = nil
      database = try await openDatabase(url: url, observer: observer)
      if migrated { try await migrate(database) }
      remove = { try? FileManager.default.removeItem(at: folder) }
    case .postgreSQL:
      guard let server = TestServer.url.map(TestServer.init) else {
        throw DatabaseError(.invalidURL, "\(TestServer.variable) is not set")
      }
      let name = try await server.makeDatabase(migrated: migrated)
      let text = server.url(of: name)
      (url, postgreSQLURL) = (try DatabaseURL(text), text)
      database = try await openDatabase(url: url, observer: observer)
      remove = {
        await database.close()
        try? await server.drop(name)
        try? FileManager.default.removeItem(at: folder)
      }
    }
    self.database = database
  }

  /// The stored bytes of the whole database, to search for text that must not be stored in clear. Pass as
  /// `other` another open connection to the same database if this one is closed.
  package func contents(through other: (any Database)? = nil) async throws -> Data {
    let database = other ?? self.database
    guard database.engine == .postgreSQL else {
      return try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        .reduce(into: Data()) { $0 += try Data(contentsOf: $1) }
    }
    return try await database.read { connection in
      let tables = try connection.query(
        Statement("SELECT tablename::text AS name FROM pg_tables WHERE schemaname = 'public'"))
      return try tables.reduce(into: Data()) { data, table in
        let name = try table.text("name")
        // Bytes are decoded as one character each, so that a text among them is found.
        for row in try connection.query(Statement("SELECT row_to_json(t)::text AS json FROM \(name) t")) {
          data += Data(try row.text("json").utf8)
        }
        for column in try connection.query(
          Statement(
            """
            SELECT column_name::text AS name FROM information_schema.columns
            WHERE table_name = $1 AND data_type = 'bytea'
            """, .text(name)))
        {
          for row in try connection.query(
            Statement("SELECT \(try column.text("name")) AS bytes FROM \(name)"))
          {
            if let bytes = try row.optionalBytes("bytes") { data += Data(bytes) }
          }
        }
      }
    }
  }

  deinit {
    Task.detached { [remove] in await remove() }
  }

  /// Runs `body` with a database, and closes and removes it.
  package static func with<Result>(
    _ engine: DatabaseEngine, migrated: Bool = true, observer: DatabaseObserver? = nil,
    _ body: (any Database) async throws -> Result
  ) async throws -> Result {
    let test = try await TestDatabase(engine, migrated: migrated, observer: observer)
    do {
      let result = try await body(test.database)
      await test.database.close()
      return result
    } catch {
      await test.database.close()
      throw error
    }
  }
}

extension [Row] {
  /// The integer in the one column of the one row of a result.
  package var integer: Int64 {
    get throws(DatabaseError) {
      guard case .integer(let integer)? = first?.values.first else {
        throw DatabaseError(.typeMismatch, "a result that is no integer")
      }
      return integer
    }
  }
}

/// Gives a database the program's tables.
func migrate(_ database: any Database) async throws { try await Schema.migrate(database) }
