import Foundation
package import SQL

/// The database as start checks and `doctor` look at it: opened when it is first asked for, and once.
package actor DatabaseVisit {
  private let url: DatabaseURL
  private var opening: Task<any Database, any Error>?

  /// A look at the database of this URL.
  package init(_ url: DatabaseURL) { self.url = url }

  /// Whether there may be one: SQLite would make a file that is not there.
  nonisolated var mayExist: Bool { url.sqlitePath.map(FileManager.default.fileExists) ?? true }

  /// The database, which stays open until ``end()``.
  ///
  /// - Throws: why it cannot be opened.
  func database() async throws -> any Database {
    let task = opening ?? Task { [url] in try await openDatabase(url: url) }
    opening = task
    return try await task.value
  }

  /// The database, if it is there and can be opened.
  func existing() async -> (any Database)? {
    mayExist ? try? await database() : nil
  }

  package func end() async {
    let task = opening
    opening = nil
    if let database = try? await task?.value { await database.close() }
  }
}
