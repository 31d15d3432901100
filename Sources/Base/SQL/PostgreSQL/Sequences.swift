extension Database {
  /// Brings the sequences that the keys of new rows come from forward to the last rows of their tables, where they are
  /// behind: PostgreSQL's logical replication, for one, copies rows and leaves the sequences as they were.
  ///
  /// Several nodes may do so at once, and others write meanwhile. SQLite needs none of it: it looks at the last row itself.
  ///
  /// - Parameter names: the tables. Others, of other programs, are left alone.
  /// - Returns: those of them whose sequences were behind.
  package func bringSequencesForward(of names: Set<String>) async throws -> [String] {
    guard engine == .postgreSQL else { return [] }
    let keys = try await generatedKeys().filter { names.contains($0.table) }
    guard !keys.isEmpty else { return [] }
    let behind = try await query(
      Statement(
        keys.map { key in
          """
          SELECT CAST('\(key.table)' AS TEXT) AS name FROM \(key.sequence)
          WHERE last_value + CASE WHEN is_called THEN 1 ELSE 0 END <= (SELECT MAX(\(key.column)) FROM \(key.table))
          """
        }.joined(separator: " UNION ALL "))
    ).map { try $0.text("name") }
    for key in keys where behind.contains(key.table) {
      try await write { connection in
        // Otherwise what another node has taken from the sequence meanwhile would be given again.
        try connection.runScript("LOCK TABLE \(key.table) IN SHARE ROW EXCLUSIVE MODE")
        _ = try connection.query(
          Statement(
            """
            SELECT setval('\(key.sequence)', GREATEST(last_value, (SELECT MAX(\(key.column)) FROM \(key.table)))) AS value
            FROM \(key.sequence)
            """))
      }
    }
    return behind.sorted()
  }

  /// The identity columns of all tables, each with its sequence. Names are quoted where SQL needs it.
  private func generatedKeys() async throws -> [(table: String, column: String, sequence: String)] {
    try await query(
      Statement(
        """
        SELECT quote_ident(t.relname) AS table_name, quote_ident(c.attname) AS column_name,
          pg_get_serial_sequence(CAST(CAST(t.oid AS regclass) AS TEXT), c.attname) AS sequence
        FROM pg_class t JOIN pg_attribute c ON c.attrelid = t.oid AND c.attidentity <> '' AND NOT c.attisdropped
        WHERE t.relkind = 'r' AND t.relnamespace = CAST(current_schema() AS regnamespace)
        """)
    ).map { (try $0.text("table_name"), try $0.text("column_name"), try $0.text("sequence")) }
  }
}

extension DatabaseError {
  /// The PostgreSQL table in which another row has the key that was to be a new row's; nil if that is not what has failed.
  ///
  /// No caller chooses such a key where the database generates it. So the sequence that it comes from is behind the table.
  var tableOfTakenKey: String? {
    guard code == .uniqueViolation, let constraint, constraint.hasSuffix(Self.keySuffix) else { return nil }
    return String(constraint.dropLast(Self.keySuffix.count))
  }

  /// PostgreSQL's own name for a table's primary key ends with it.
  private static let keySuffix = "_pkey"
}
