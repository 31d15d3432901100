internal import SQL

/// Zulip's own database. Everything is read as text, as it would stand in a file, so that both are read
/// alike.
struct ZulipDatabase: ZulipOrigin {
  let identity: String
  private let snapshot: ForeignPostgreSQL
  private let tables: [ZulipTable: Found]

  /// A table that is there: its name, with the schema where that is not on the search path, and which
  /// columns it has.
  private struct Found {
    let name: String
    let columns: Set<String>
  }

  /// - Throws: ``ZulipSourceError`` if a table or a column is missing that every version has.
  init(_ snapshot: ForeignPostgreSQL, url: DatabaseURL) async throws {
    self.snapshot = snapshot
    // A copy of a server has its identifier, and a database its number there.
    let numbers = try await snapshot.query(
      Statement(
        """
        SELECT system_identifier::text || '.' || (SELECT oid FROM pg_database WHERE datname = current_database())::text
        FROM pg_control_system()
        """))
    identity = "\(url) \(try numbers.first?.text(0) ?? "")"
    var tables: [ZulipTable: Found] = [:]
    for table in ZulipTable.allCases {
      // Zulip keeps its tables in a schema that other users than its own do not search.
      let rows = try await snapshot.query(
        Statement(
          """
          SELECT attname, attrelid::regclass::text FROM pg_attribute
          WHERE attrelid = COALESCE(to_regclass($1), to_regclass('zulip.' || $1)) AND attnum > 0
            AND NOT attisdropped
          """, .text(table.rawValue)))
      guard let name = try rows.first?.text(1) else {
        if !table.isRequired { continue }
        throw ZulipSourceError(
          "\(url) has no table \(table.rawValue): is it the database of a Zulip bouncer?")
      }
      let columns = Set(try rows.map { try $0.text(0) })
      if let missing = table.columns.first(where: { $0.isRequired && !columns.contains($0.name) }) {
        throw ZulipSourceError("\(name) has no column \(missing.name)")
      }
      tables[table] = Found(name: name, columns: columns)
    }
    self.tables = tables
  }

  func has(_ table: ZulipTable) -> Bool { tables[table] != nil }

  /// In rows.
  func remaining(_ table: ZulipTable, after position: Int64) async throws -> Int64 {
    guard let found = tables[table] else { return 0 }
    let statement = Statement(
      "SELECT COUNT(*) FROM \(found.name) WHERE \(table.key) > $1", .integer(position))
    return try await snapshot.query(statement).first?.int64(0) ?? 0
  }

  func rows(of table: ZulipTable, after position: Int64, batch: Int) async throws -> any ZulipRows {
    guard let found = tables[table] else { throw ZulipSourceError("there is no table \(table.rawValue)") }
    let list = table.columns.map { found.columns.contains($0.name) ? "t.\($0.name)::text" : "NULL::text" }
    // By the column: without the table's name it would be by the text.
    let cursor = try await snapshot.cursor(
      Statement(
        """
        SELECT \(list.joined(separator: ", ")) FROM \(found.name) t WHERE t.\(table.key) > $1 ORDER BY t.\(table.key)
        """, .integer(position)), batch: batch)
    return ZulipDatabaseRows(cursor)
  }
}

extension ZulipTable {
  fileprivate var key: String { columns[0].name }
}

/// The rows of a table in the order of its key, which is what a position is.
private actor ZulipDatabaseRows: ZulipRows {
  private let cursor: ForeignPostgreSQL.Cursor

  init(_ cursor: ForeignPostgreSQL.Cursor) { self.cursor = cursor }

  func next() async throws -> SourceBatch? {
    let rows = try await cursor.next().map { row in
      SourceRow(values: row.values.map { value in if case .text(let text) = value { text } else { nil } })
    }
    guard let last = rows.last else { return nil }
    return SourceBatch(
      rows: rows, place: .database, position: Int64(last[0] ?? "") ?? 0, size: Int64(rows.count))
  }
}
