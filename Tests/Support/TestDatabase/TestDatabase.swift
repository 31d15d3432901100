public import Foundation
import Migrations
public import SQL

extension DatabaseEngine {
  /// The engines that tests can use: PostgreSQL if `TEST_POSTGRESQL_URL` names a server
  /// (`Scripts/postgresql`).
  public static let available: [DatabaseEngine] =
    TestServer.url == nil ? [.sqlite] : [.sqlite, .postgreSQL]
}

/// An open database of a test's own, removed with the last reference.
public final class TestDatabase: Sendable {
  /// The database.
  public let database: any Database

  /// Where it is.
  public let url: DatabaseURL

  /// A folder of the test's own, which holds the files of an SQLite database.
  public let folder: URL

  private let remove: @Sendable () async -> Void

  /// Makes a database, with the program's tables or empty.
  public init(
    _ engine: DatabaseEngine = TestDatabase.engine, migrated: Bool = true, observer: DatabaseObserver? = nil
  ) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "database-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    self.folder = folder
    let database: any Database
    switch engine {
    case .sqlite:
      url = DatabaseURL(sqlitePath: folder.appending(path: "test.sqlite").path(percentEncoded: false))
      database = try await openDatabase(url: url, observer: observer)
      if migrated { try await migrate(database) }
      remove = { try? FileManager.default.removeItem(at: folder) }
    case .postgreSQL:
      guard let server = TestServer.url.map(TestServer.init) else {
        throw DatabaseError(.invalidURL, "\(TestServer.variable) is not set")
      }
      let name = try await server.makeDatabase(migrated: migrated)
      url = try DatabaseURL(server.url(of: name))
      database = try await openDatabase(url: url, observer: observer)
      remove = {
        await database.close()
        try? await server.drop(name)
        try? FileManager.default.removeItem(at: folder)
      }
    }
    self.database = database
  }

  /// Everything that is kept, in no particular order: to look for what must not be kept.
  public func contents() async throws -> Data {
    var contents = Data()
    switch database.engine {
    case .sqlite:
      // The files, which hold more than the rows.
      for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
        contents += try Data(contentsOf: file)
      }
    case .postgreSQL:
      let tables = Statement(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
      let rows = try await database.read { connection in
        try connection.query(tables).flatMap {
          try connection.query(Statement("SELECT * FROM \($0.text(0))"))
        }
      }
      for value in rows.flatMap(\.values) {
        switch value {
        case .text(let text): contents += Data(text.utf8)
        case .bytes(let bytes): contents += Data(bytes)
        case .integer, .null: continue
        }
      }
    }
    return contents
  }

  deinit {
    Task.detached { [remove] in await remove() }
  }

  /// Runs `body` with a database, and closes and removes it.
  public static func with<Result>(
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

/// Gives a database the program's tables.
func migrate(_ database: any Database) async throws { try await Schema.migrate(database) }
