import Foundation
import SQL
import TestDatabase
import TestSupport

extension URL {
  /// The file that ``withDatabase(options:observer:script:_:)`` makes in a folder.
  var databasePath: String { appending(path: "test.sqlite").path }
}

/// Runs `body` with a database in a new file, and closes it.
func withDatabase<Result>(
  options: SQLiteDatabase.Options = .init(), observer: DatabaseObserver? = nil,
  script: String = "",
  _ body: (SQLiteDatabase, URL) async throws -> Result
) async throws -> Result {
  try await withTemporaryFolder { folder in
    let database = try await SQLiteDatabase.open(
      path: folder.databasePath, options: options, observer: observer)
    return try await database.closing(after: script) { try await body(database, folder) }
  }
}

/// Runs `body` with an empty database of either engine, and closes it. `script` has what both understand.
func withDatabase<Result>(
  _ engine: DatabaseEngine, observer: DatabaseObserver? = nil, script: String = "",
  _ body: (any Database) async throws -> Result
) async throws -> Result {
  try await TestDatabase.with(engine, migrated: false, observer: observer) { database in
    if !script.isEmpty { try await database.write { try $0.runScript(script) } }
    return try await body(database)
  }
}

extension Database {
  /// Runs `script` and `body`, and closes the database.
  func closing<Result>(after script: String, _ body: () async throws -> Result) async throws -> Result {
    do {
      if !script.isEmpty { try await write { try $0.runScript(script) } }
      let result = try await body()
      await close()
      return result
    } catch {
      await close()
      throw error
    }
  }

  /// The integer that one query gives.
  func integer(_ sql: String, _ arguments: Value...) async throws -> Int64 {
    try await query(Statement(sql, arguments: arguments)).integer
  }
}

/// The ``DatabaseError`` that `body` throws, or nil.
func databaseError<Result>(_ body: () async throws -> Result) async throws -> DatabaseError? {
  do {
    _ = try await body()
    return nil
  } catch let error as DatabaseError {
    return error
  }
}
