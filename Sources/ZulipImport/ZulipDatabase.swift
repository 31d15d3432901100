import SQL

/// Zulip's own database. Everything is read as text, as it would stand in a file, so that both are read
/// alike.
struct ZulipDatabase: ZulipOrigin {
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
  func size(of table: ZulipTable) async throws -> Int64 {
    guard let found = tables[table] else { return 0 }
    return try await snapshot.query(Statement("SELECT COUNT(*) FROM \(found.name)")).first?.int64(0) ?? 0
  }

  func rows(of table: ZulipTable, batch: Int) async throws -> any ZulipRows {
    guard let found = tables[table] else { throw ZulipSourceError("there is no table \(table.rawValue)") }
    let list = table.columns.map { found.columns.contains($0.name) ? "t.\($0.name)::text" : "NULL::text" }
    // By the column: without the table's name it would be by the text.
    let cursor = try await snapshot.cursor(
      Statement(
        """
        SELECT \(list.joined(separator: ", ")) FROM \(found.name) t ORDER BY t.\(table.columns[0].name)
        """), batch: batch)
    return ZulipDatabaseRows(cursor)
  }
}

/// The rows of a table in the order of its key.
private actor ZulipDatabaseRows: ZulipRows {
  private let cursor: ForeignPostgreSQL.Cursor

  init(_ cursor: ForeignPostgreSQL.Cursor) { self.cursor = cursor }

  func next() async throws -> SourceBatch? {
    let rows = try await cursor.next().map { row in
      SourceRow(values: row.values.map { value in if case .text(let text) = value { text } else { nil } })
    }
    return rows.isEmpty ? nil : SourceBatch(rows: rows, place: .database, size: Int64(rows.count))
  }
}
