package import SQL

/// Moves a whole service from one database to another, whichever engines they are: page by page in the
/// order of the keys, so that a copy that was stopped goes on where it was, and memory stays flat.
///
/// Nobody may write to either meanwhile. What is sealed stays sealed, under the same `storage.key`.
package struct DatabaseCopy: Sendable {
  /// What became of a table.
  package struct Report: Sendable, Hashable {
    package let table: String
    /// Rows that were copied now.
    package let copied: Int
    /// Rows there are, in both.
    package let rows: Int
  }

  /// Why a copy is not whole.
  package enum Failure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The target belongs to another service.
    case foreignTarget
    /// After the copy a table's rows are not the source's, at this one of them or before it.
    case different(table: String, row: Int)

    package var description: String {
      switch self {
      case .foreignTarget:
        "the target holds another service, sealed with another storage.key: copy to an empty database"
      case .different(let table, let row):
        """
        \(table) is not the same in both (near row \(row)): was the target used before, \
        or the source in use meanwhile? Copy to an empty database, with the service stopped
        """
      }
    }
  }

  /// Rows read and written at a time.
  private static let page = 500

  private let source: any Database
  private let target: any Database

  /// Both have the schema of this program.
  package init(from source: any Database, to target: any Database) {
    self.source = source
    self.target = target
  }

  /// Copies what the target does not have yet, and then compares everything.
  ///
  /// - Parameter progress: called now and then with a table and how many of its rows there are by now.
  /// - Throws: ``Failure``, or a database's error; what has been copied stays, and another run goes on.
  package func run(progress: @Sendable (_ table: String, _ rows: Int) -> Void) async throws -> [Report] {
    let seal = Statement("SELECT value FROM metadata WHERE name = 'storage_key'")
    let ours = try await source.query(seal)
    if let theirs = try await target.query(seal).first, theirs != ours.first { throw Failure.foreignTarget }
    let tables = try await tables()
    var copied: [Int] = []
    for table in tables { copied.append(try await copy(table, progress)) }
    var reports: [Report] = []
    for (table, copied) in zip(tables, copied) {
      progress("comparing \(table.name)", 0)
      reports.append(Report(table: table.name, copied: copied, rows: try await compare(table)))
    }
    return reports
  }

  /// Copies some tables only, into an empty target.
  package func copy(_ names: Set<String>) async throws {
    for table in try await tables() where names.contains(table.name) { _ = try await copy(table) { _, _ in } }
  }

  /// What is copied: every table that holds something of the service, and not of the place where it runs.
  private func tables() async throws -> [TableDescription] {
    try await source.tables().filter { !["schema_migrations", "nodes"].contains($0.name) }
  }

  private func copy(_ table: TableDescription, _ progress: @Sendable (String, Int) -> Void) async throws
    -> Int
  {
    // Numbers rise: what is beyond the target's last is not there yet. Of names some may be there already.
    var last = try await target.query(table.selectLast).first?.values
    if case .text? = last?.first { last = nil }
    var copied = 0
    while true {
      let rows = try await source.query(table.select(after: last, limit: Self.page))
      guard let end = rows.last else { break }
      let insertion = table.insertion(of: rows)
      copied += try await target.write { try $0.run(insertion) }
      last = Array(end.values.prefix(table.key.count))
      progress(table.name, copied)
    }
    if table.key == ["id"], case .integer? = last?.first, target.engine == .postgreSQL {
      // SQLite looks for the largest id itself.
      let sequence = """
        SELECT setval(pg_get_serial_sequence('\(table.name)', 'id'), GREATEST(MAX(id), 1), MAX(id) IS NOT NULL)
        FROM \(table.name)
        """
      _ = try await target.execute(Statement(sequence))
    }
    return copied
  }

  /// How many rows there are, which are the same in both.
  private func compare(_ table: TableDescription) async throws -> Int {
    var count = 0
    var last: [Value]?
    while true {
      let statement = table.select(after: last, limit: Self.page)
      let rows = try await source.query(statement)
      guard try await target.query(statement) == rows else {
        throw Failure.different(table: table.name, row: count + 1)
      }
      guard let end = rows.last else { return count }
      count += rows.count
      last = Array(end.values.prefix(table.key.count))
    }
  }
}

extension TableDescription {
  /// Which rows belong to the service, and not to the place where it runs.
  private var condition: String {
    name == "metadata" ? "name <> 'write_check' AND name NOT LIKE 'lease.%'" : "TRUE"
  }

  private var order: String { key.joined(separator: ", ") }

  /// The key of the last row.
  fileprivate var selectLast: Statement {
    Statement(
      """
      SELECT \(order) FROM \(name) WHERE \(condition)
      ORDER BY \(key.map { "\($0) DESC" }.joined(separator: ", ")) LIMIT 1
      """)
  }

  fileprivate func select(after last: [Value]?, limit: Int) -> Statement {
    let after = last.map { "AND (\(order)) > (\(Statement.placeholders($0.count)))" } ?? ""
    return Statement(
      """
      SELECT \(columns.joined(separator: ", ")) FROM \(name) WHERE \(condition) \(after)
      ORDER BY \(order) LIMIT \(limit)
      """, arguments: last ?? [])
  }

  fileprivate func insertion(of rows: [Row]) -> Statement {
    let width = columns.count
    let tuples = rows.indices.map { "(\(Statement.placeholders(width, from: $0 * width + 1)))" }
    return Statement(
      """
      INSERT INTO \(name) (\(columns.joined(separator: ", "))) VALUES \(tuples.joined(separator: ", "))
      ON CONFLICT (\(order)) DO NOTHING
      """, arguments: rows.flatMap(\.values))
  }
}
