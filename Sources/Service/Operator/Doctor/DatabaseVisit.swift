import Foundation
package import SQL

/// The database for start checks and `doctor`: opened once, at the first use.
package actor DatabaseVisit {
  private let url: DatabaseURL
  private var opening: Task<any Database, any Error>?

  package init(_ url: DatabaseURL) { self.url = url }

  /// Whether the database may exist. Opening SQLite would create a missing file.
  nonisolated var mayExist: Bool { url.sqlitePath.map(FileManager.default.fileExists) ?? true }

  /// The open database; it stays open until ``close()``.
  ///
  /// - Throws: the error from opening it.
  func database() async throws -> any Database {
    let task = opening ?? Task { [url] in try await openDatabase(url: url) }
    opening = task
    return try await task.value
  }

  /// The database; nil if it does not exist or cannot be opened.
  func existing() async -> (any Database)? {
    mayExist ? try? await database() : nil
  }

  package func close() async {
    let task = opening
    opening = nil
    if let database = try? await task?.value { await database.close() }
  }
}
