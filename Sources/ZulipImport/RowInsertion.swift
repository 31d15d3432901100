import SQL

/// Inserts many rows: into PostgreSQL with few statements, each of which is a way to the server and back. SQLite
/// takes them one by one, because it would keep a copy of each page that a statement of several rows changes.
///
/// A statement takes a power of two of rows, so that there are few texts to prepare. Arguments are never
/// NULL where a column may be: PostgreSQL would prepare a text again for each pattern of NULLs.
struct RowInsertion: Sendable {
  private static let maximumRows = 256

  private let width: Int
  /// By the power of two.
  private let texts: [String]

  /// - Parameter columns: each with what it is set to, `$` being its argument, if it has one.
  init(_ table: String, _ columns: KeyValuePairs<String, String>) {
    let width = columns.count { $0.value.contains("$") }
    let names = columns.map(\.key).joined(separator: ", ")
    self.width = width
    texts = (0...Self.maximumRows.trailingZeroBitCount).map { power in
      let tuples = (0..<1 << power).map { row in
        var argument = row * width
        let values = columns.map { column in
          guard column.value.contains("$") else { return column.value }
          argument += 1
          return column.value.replacing("$", with: "$\(argument)")
        }
        return "(\(values.joined(separator: ", ")))"
      }
      return "INSERT INTO \(table) (\(names)) VALUES \(tuples.joined(separator: ", "))"
    }
  }

  /// Inserts rows of as many arguments as there are parameters.
  func run(_ rows: [[Value]], on connection: any Connection, _ engine: DatabaseEngine) throws {
    if engine == .sqlite {
      for row in rows { try connection.run(Statement(texts[0], arguments: row)) }
      return
    }
    var rest = rows[...]
    while !rest.isEmpty {
      let power = min(Int.bitWidth - 1 - rest.count.leadingZeroBitCount, texts.count - 1)
      let chunk = rest.prefix(1 << power)
      rest = rest.dropFirst(chunk.count)
      var arguments: [Value] = []
      arguments.reserveCapacity(chunk.count * width)
      for row in chunk { arguments += row }
      try connection.run(Statement(texts[power], arguments: arguments))
    }
  }
}
