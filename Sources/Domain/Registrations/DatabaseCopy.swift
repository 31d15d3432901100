import Basics
package import SQL

/// Copies the whole service from one database to another, whatever their engines: page by page in the order
/// of the keys, so that an interrupted copy can be continued and memory use stays constant.
///
/// Nobody may write to either database meanwhile. The target has a mark until everything is there, and whoever would use it
/// refuses (``checkIsWhole(_:_:key:)``). Sealed values stay sealed under the same `storage.key`.
package struct DatabaseCopy: Sendable {
  /// Result of copying a table.
  package struct Report: Sendable, Hashable {
    package let table: String
    /// Number of rows copied in this run.
    package let copied: Int
    /// Number of rows in both databases.
    package let rows: Int
  }

  /// The reason why a copy is incomplete.
  package enum Failure: Error, Sendable, Hashable, CustomStringConvertible {
    /// Both are one database, perhaps by two names.
    case sameDatabase
    /// The target belongs to another service.
    case foreignTarget
    /// A table's rows differ from the source's, at this row or before it.
    case different(table: String, row: Int)

    package var description: String {
      switch self {
      case .sameDatabase:
        "--from and --to are the same database: name an empty one, or one that is not there yet, with --to"
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
  /// The names of this program's tables.
  private let own: Set<String>

  /// Both databases must have this program's schema. Tables of other programs are left alone.
  ///
  /// - Parameter tables: the names of this program's tables.
  package init(from source: any Database, to target: any Database, tables: Set<String>) {
    own = tables
    self.source = source
    self.target = target
  }

  /// Copies what the target lacks, and then compares everything. A target that is neither empty nor an unfinished copy is
  /// only compared.
  ///
  /// - Parameters:
  ///   - progress: called now and then with a table and the number of rows copied so far.
  ///   - approve: called at the end; if it throws, the copy stays unfinished.
  /// - Throws: ``Failure``, or a database's error; what was copied stays, and another run continues.
  package func run(
    progress: @Sendable (_ table: String, _ rows: Int) -> Void, approve: () async throws -> Void = {}
  ) async throws -> [Report] {
    guard try await !isOneDatabase() else { throw Failure.sameDatabase }
    let seal = Statement("SELECT value FROM metadata WHERE name = 'storage_key'")
    let sourceKey = try await source.query(seal)
    if let targetKey = try await target.query(seal).first, targetKey.values != sourceKey.first?.values {
      throw Failure.foreignTarget
    }
    let tables = try await tables()
    var copied = tables.map { _ in 0 }
    if try await isToBeCopied(tables) {
      for (index, table) in tables.enumerated() { copied[index] = try await copy(table, progress) }
    }
    var reports: [Report] = []
    for (table, copied) in zip(tables, copied) {
      progress("comparing \(table.name)", 0)
      reports.append(Report(table: table.name, copied: copied, rows: try await compare(table)))
    }
    try await approve()
    _ = try await target.execute("DELETE FROM metadata WHERE name = $1", .text(Self.mark))
    return reports
  }

  /// The name in `metadata` of what an unfinished copy has.
  private static let mark = "copy"

  /// Whether the target is an unfinished copy, as it is from now on if it was empty.
  private func isToBeCopied(_ tables: [TableDescription]) async throws -> Bool {
    if try await Self.isUnfinished(target) { return true }
    for table in tables where try await !target.query(table.select(after: nil, limit: 1)).isEmpty {
      return false
    }
    _ = try await target.execute(
      "INSERT INTO metadata (name, value) VALUES ($1, $2)", .text(Self.mark), .bytes([]))
    return true
  }

  private static func isUnfinished(_ database: any Database) async throws -> Bool {
    try await !database.query("SELECT 1 AS mark FROM metadata WHERE name = $1", .text(mark)).isEmpty
  }

  /// Throws ``Fault`` if the database, which must not be empty, is a copy that has not ended.
  ///
  /// - Parameter key: the setting or option that names it.
  package static func checkIsWhole(
    _ database: any Database, _ url: DatabaseURL, key: String = "database.url"
  ) async throws {
    guard try await isUnfinished(database) else { return }
    throw Fault(
      key: key,
      "names \(url), an unfinished copy: push-bouncer copy is still writing it, or was stopped before it had ended",
      advice: "run the same copy again, which goes on and says when it is done, or remove that database")
  }

  /// Whether what is written to the target appears in the source. The URLs do not show that, because a file or a server may have
  /// several names.
  private func isOneDatabase() async throws -> Bool {
    let mark = Value.bytes((0..<16).map { _ in UInt8.random(in: .min ... .max) })
    _ = try await target.execute(
      """
      INSERT INTO metadata (name, value) VALUES ('write_check', $1)
      ON CONFLICT (name) DO UPDATE SET value = excluded.value
      """, mark)
    let found = try await source.query("SELECT value FROM metadata WHERE name = 'write_check'")
    _ = try await target.execute("DELETE FROM metadata WHERE name = 'write_check'")
    return found.first?.values == [mark]
  }

  /// Copies only some tables, into an empty target.
  package func copy(_ names: Set<String>) async throws {
    for table in try await tables() where names.contains(table.name) { _ = try await copy(table) { _, _ in } }
  }

  /// All tables of this program, except those that belong to a deployment and not to the service.
  private func tables() async throws -> [TableDescription] {
    try await source.tables().filter {
      own.contains($0.name) && !["schema_migrations", "nodes", "node_bouncer_keys"].contains($0.name)
    }
  }

  private func copy(_ table: TableDescription, _ progress: @Sendable (String, Int) -> Void) async throws
    -> Int
  {
    // Integer keys ascend, so rows after the target's last one are missing. With text keys, any row may be.
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
      // SQLite finds the largest id itself.
      let sequence = """
        SELECT setval(pg_get_serial_sequence('\(table.name)', 'id'), GREATEST(MAX(id), 1), MAX(id) IS NOT NULL)
        FROM \(table.name)
        """
      _ = try await target.execute(sequence)
    }
    return copied
  }

  /// Compares a table in both databases; returns its number of rows.
  private func compare(_ table: TableDescription) async throws -> Int {
    var count = 0
    var last: [Value]?
    while true {
      let statement = table.select(after: last, limit: Self.page)
      let rows = try await source.query(statement)
      guard try await target.query(statement).map(\.values) == rows.map(\.values) else {
        throw Failure.different(table: table.name, row: count + 1)
      }
      guard let end = rows.last else { return count }
      count += rows.count
      last = Array(end.values.prefix(table.key.count))
    }
  }
}

extension TableDescription {
  /// Excludes rows that belong to a deployment and not to the service.
  private var condition: String {
    name == "metadata" ? "name NOT IN ('write_check', 'copy') AND name NOT LIKE 'lease.%'" : "TRUE"
  }

  private var order: String { key.joined(separator: ", ") }

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

extension DatabaseCopy.Failure: Readable {}
