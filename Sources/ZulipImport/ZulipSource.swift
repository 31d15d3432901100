import Foundation
package import SQL

/// Where an import reads from.
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

/// The rows of one table of a source, in batches.
protocol ZulipRows: Actor {
  /// The next rows; nil at the end.
  func next() async throws -> SourceBatch?
}

/// Some rows of a table.
struct SourceBatch: Sendable {
  let rows: [SourceRow]
  /// Where the first of them is, for error texts.
  let place: Place
  /// How much of the table they are, as ``ZulipOrigin/size(of:)`` counts it.
  let size: Int64

  /// Where rows are, for error texts.
  enum Place: Sendable {
    /// In a database, by the key.
    case database
    /// In a file: the lines that they begin with.
    case file(lines: [Int])
  }
}

/// What is read from: a database or a folder of files.
protocol ZulipOrigin: Sendable {
  /// Whether it has the table.
  func has(_ table: ZulipTable) -> Bool

  /// How much there is of a table: in any unit that is the same for all tables.
  func size(of table: ZulipTable) async throws -> Int64

  /// Reads a table.
  func rows(of table: ZulipTable, batch: Int) async throws -> any ZulipRows
}

/// What is wrong with a source.
package struct ZulipSourceError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Which table or file, where in it, and what; never a token or a key.
  package let description: String

  init(_ description: String) { self.description = description }
}

extension SourceBatch {
  /// Reads each row as a record; a value that is not what its column has is an error with its place.
  func records<Record>(
    of table: ZulipTable, _ read: (SourceRow) throws(SourceRow.Malformed) -> Record
  ) throws(ZulipSourceError) -> [Record] {
    var records: [Record] = []
    records.reserveCapacity(rows.count)
    for (index, row) in rows.enumerated() {
      do {
        records.append(try read(row))
      } catch {
        let column = table.columns[error.column].name
        let location =
          switch place {
          case .database: "\(table.rawValue), row \(row[0] ?? "?")"
          case .file(let lines): "\(table.rawValue).csv, line \(lines[index])"
          }
        throw ZulipSourceError("\(location): column \(column) wants \(error.wanted)")
      }
    }
    return records
  }
}
