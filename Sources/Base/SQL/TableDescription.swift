/// A table as described by the database's catalog.
package struct TableDescription: Sendable, Hashable {
  package let name: String
  /// The columns of its primary key, in order.
  package let key: [String]
  /// All columns, those of the primary key first.
  package let columns: [String]
}

extension Database {
  /// Every table, after the tables that it references.
  package func tables() async throws -> [TableDescription] {
    let catalog = engine.catalog
    let (columns, references) = try await read { connection in
      (
        try connection.query(Statement(catalog.columns)).map {
          (
            table: try $0.text("table_name"), column: try $0.text("column_name"),
            keyPosition: try $0.int64("key_position")
          )
        },
        try connection.query(Statement(catalog.references)).map {
          (from: try $0.text("referencing"), to: try $0.text("referenced"))
        }
      )
    }
    var waiting = Dictionary(grouping: columns, by: \.table).map { name, columns in
      let key = columns.filter { $0.keyPosition > 0 }.sorted { $0.keyPosition < $1.keyPosition }.map(\.column)
      return TableDescription(
        name: name, key: key, columns: key + columns.filter { $0.keyPosition == 0 }.map(\.column))
    }.sorted { $0.name < $1.name }
    var ordered: [TableDescription] = []
    while !waiting.isEmpty {
      let held = Set(
        references.filter { from, to in from != to && waiting.contains { $0.name == to } }.map(\.from))
      // Tables that reference each other in a cycle have no order.
      if waiting.allSatisfy({ held.contains($0.name) }) { return ordered + waiting }
      ordered += waiting.filter { !held.contains($0.name) }
      waiting.removeAll { !held.contains($0.name) }
    }
    return ordered
  }
}

extension DatabaseEngine {
  /// Two catalog queries: one for the columns of all tables (`key_position` being the position in the primary key
  /// from 1, or 0), and one for which table references which.
  fileprivate var catalog: (columns: String, references: String) {
    switch self {
    case .sqlite:
      (
        """
        SELECT t.name AS table_name, c.name AS column_name, c.pk AS key_position FROM sqlite_master t, pragma_table_info(t.name) c
        WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY t.name, c.cid
        """,
        """
        SELECT DISTINCT t.name AS referencing, f."table" AS referenced FROM sqlite_master t, pragma_foreign_key_list(t.name) f
        WHERE t.type = 'table'
        """
      )
    case .postgreSQL:
      (
        """
        SELECT t.relname::text AS table_name, c.attname::text AS column_name,
          COALESCE(array_position(k.conkey, c.attnum), 0)::bigint AS key_position
        FROM pg_class t JOIN pg_attribute c ON c.attrelid = t.oid AND c.attnum > 0 AND NOT c.attisdropped
        LEFT JOIN pg_constraint k ON k.conrelid = t.oid AND k.contype = 'p'
        WHERE t.relkind = 'r' AND t.relnamespace = current_schema()::regnamespace
        ORDER BY t.relname, c.attnum
        """,
        """
        SELECT DISTINCT t.relname::text AS referencing, r.relname::text AS referenced
        FROM pg_constraint k JOIN pg_class t ON t.oid = k.conrelid JOIN pg_class r ON r.oid = k.confrelid
        WHERE k.contype = 'f' AND t.relnamespace = current_schema()::regnamespace
        """
      )
    }
  }
}
