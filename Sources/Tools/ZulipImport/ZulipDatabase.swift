import SQL

/// Zulip's own database. All values are read as text, as in a CSV file, so that both are parsed in the same
/// way.
struct ZulipDatabase: ZulipOrigin {
  private let snapshot: ForeignPostgreSQL
  /// The existing tables: name, with the schema if that is not on the search path, and columns.
  private let tables: [ZulipTable: (name: String, columns: Set<String>)]

  /// - Throws: ``ZulipSourceError`` if a table or column is missing that all versions have.
  init(_ snapshot: ForeignPostgreSQL, url: DatabaseURL) async throws {
    self.snapshot = snapshot
    var tables: [ZulipTable: (name: String, columns: Set<String>)] = [:]
    for table in ZulipTable.allCases {
      // Zulip's tables are in a schema that is not on the search path of other users.
      let rows = try await snapshot.query(
        Statement(
          """
          SELECT attname AS column_name, attrelid::regclass::text AS table_name FROM pg_attribute
          WHERE attrelid = COALESCE(to_regclass($1), to_regclass('zulip.' || $1)) AND attnum > 0
            AND NOT attisdropped
          """, .text(table.rawValue)))
      guard let name = try rows.first?.text("table_name") else {
        if !table.isRequired { continue }
        throw ZulipSourceError(
          "\(url) has no table \(table.rawValue): is it the database of a Zulip bouncer?")
      }
      let columns = Set(try rows.map { try $0.text("column_name") })
      if let missing = table.columns.names.prefix(table.columns.required).first(where: {
        !columns.contains($0)
      }) {
        throw ZulipSourceError("\(name) has no column \(missing)")
      }
      tables[table] = (name, columns)
    }
    self.tables = tables
  }

  func has(_ table: ZulipTable) -> Bool { tables[table] != nil }

  /// Number of rows.
  func size(of table: ZulipTable) async throws -> Int64 {
    guard let name = tables[table]?.name else { return 0 }
    return try await snapshot.query(Statement("SELECT COUNT(*) AS count FROM \(name)")).first?.int64("count")
      ?? 0
  }

  func rows(of table: ZulipTable, batch: Int) async throws -> any ZulipRows {
    guard let found = tables[table] else { throw ZulipSourceError("there is no table \(table.rawValue)") }
    let names = table.columns.names
    let list = names.map { found.columns.contains($0) ? "t.\($0)::text" : "NULL::text" }
    // Qualified, because the bare name would mean the column's text.
    let statement = Statement(
      "SELECT \(list.joined(separator: ", ")) FROM \(found.name) t ORDER BY t.\(names[0])")
    return ZulipDatabaseRows(try await snapshot.cursor(statement, batch: batch), table)
  }
}

/// Reads a table in the order of its key.
private actor ZulipDatabaseRows: ZulipRows {
  private let cursor: ForeignPostgreSQL.Cursor
  private let table: ZulipTable
  private let columns: ZulipTable.Columns

  init(_ cursor: ForeignPostgreSQL.Cursor, _ table: ZulipTable) {
    self.cursor = cursor
    self.table = table
    columns = table.columns
  }

  func next() async throws -> (rows: [SourceRow], size: Int64) {
    let rows = try await cursor.next().map { row in
      SourceRow(
        table: table, columns: columns, line: nil,
        values: row.values.map { value in if case .text(let text) = value { text } else { nil } })
    }
    return (rows, Int64(rows.count))
  }
}
