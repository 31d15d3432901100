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
  /// Where to go on after them.
  let position: Int64
  /// How much of the table they are, as ``ZulipOrigin/remaining(_:after:)`` counts it.
  let size: Int64

  /// How much text they have.
  var bytes: Int { rows.reduce(0) { $0 + $1.bytes } }

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
  /// What tells it from other sources, and from itself where reading on would be wrong.
  var identity: String { get }

  /// Whether it has the table.
  func has(_ table: ZulipTable) -> Bool

  /// How much there is of a table after a position: in any unit that is the same for all tables.
  func remaining(_ table: ZulipTable, after position: Int64) async throws -> Int64

  /// Reads a table from a position on, 0 being its begin.
  func rows(of table: ZulipTable, after position: Int64, batch: Int) async throws -> any ZulipRows
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
