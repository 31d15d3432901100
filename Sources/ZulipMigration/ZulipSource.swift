internal import Foundation
package import SQL

/// Where a migration reads from.
package enum ZulipSource: Sendable {
  /// The database of a Zulip server.
  case database(DatabaseURL)
  /// A folder of CSV files named after the tables, with headers.
  case folder(ZulipFolder)

  /// A `postgres://` URL, or else the path of a folder.
  ///
  /// The files of a folder are opened at once, with the rights that the process has now.
  ///
  /// - Throws: ``ZulipSourceError`` if it is neither, or a file is missing that every version has.
  package init(_ text: String) throws(ZulipSourceError) {
    guard text.contains("://") else {
      var isFolder: ObjCBool = false
      guard FileManager.default.fileExists(atPath: text, isDirectory: &isFolder), isFolder.boolValue else {
        throw ZulipSourceError("there is no folder \(text)")
      }
      self = try .folder(path: text)
      return
    }
    // The text may hold a password, so it is not repeated.
    guard let url = try? DatabaseURL(text), url.sqlitePath == nil else {
      throw ZulipSourceError("a source is postgres://USER:PASSWORD@HOST:PORT/NAME, or a folder of CSV files")
    }
    self = .database(url)
  }

  package static func folder(path: String) throws(ZulipSourceError) -> ZulipSource {
    .folder(try ZulipFolder(path: path))
  }

  func open<Result>(_ body: (any ZulipOrigin) async throws -> Result) async throws -> Result {
    switch self {
    case .folder(let folder):
      try await body(folder)
    case .database(let url):
      try await ForeignPostgreSQL.snapshot(of: url) { snapshot in
        try await body(ZulipDatabase(snapshot, url: url))
      }
    }
  }
}
