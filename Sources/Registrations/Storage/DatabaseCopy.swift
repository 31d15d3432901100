internal import Crypto
internal import Foundation
package import SQL

/// Moves a whole service from one database to another, whichever engines they are: page by page in the
/// order of the keys, so that a copy that was stopped goes on where it was, and memory stays flat.
///
/// Nobody may write to either meanwhile. What is sealed stays sealed, under the same `storage.key`.
package struct DatabaseCopy: Sendable {
  /// What became of a table.
  package struct Report: Sendable, Hashable {
    /// Its name.
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
    /// After the copy a table's rows are not the source's.
    case different(table: String, sourceRows: Int, targetRows: Int)

    /// A sentence for the operator.
    package var description: String {
      switch self {
      case .foreignTarget:
        "the target holds another service, sealed with another storage.key: copy to an empty database"
      case .different(let table, let sourceRows, let targetRows):
        """
        \(table) is not the same in both (\(sourceRows) rows and \(targetRows)): was the target used before, \
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
    try await checkTarget()
    let tables = try await tables()
    var copied: [String: Int] = [:]
    for table in tables { copied[table.name] = try await copy(table, progress) }
    var reports: [Report] = []
    for table in tables {
      progress("comparing \(table.name)", 0)
      let (ours, theirs) = (try await digest(of: table, in: source), try await digest(of: table, in: target))
      guard ours == theirs else {
        throw Failure.different(table: table.name, sourceRows: ours.rows, targetRows: theirs.rows)
      }
      reports.append(Report(table: table.name, copied: copied[table.name] ?? 0, rows: ours.rows))
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

  private func checkTarget() async throws {
    let statement = Statement("SELECT value FROM metadata WHERE name = 'storage_key'")
    let ours = try await source.query(statement)
    let theirs = try await target.query(statement)
    if let theirs = theirs.first, theirs != ours.first { throw Failure.foreignTarget }
  }

  private func copy(_ table: TableDescription, _ progress: @Sendable (String, Int) -> Void) async throws
    -> Int
  {
    // Numbers rise: what is beyond the target's last is not there yet. Of names some may be there already.
    var last = try await target.query(table.selectLast).first?.values
    if case .text? = last?.first { last = nil }
    var copied = 0
    while true {
      let statement = table.select(after: last, limit: Self.page)
      let rows = try await source.query(statement)
      guard let end = rows.last else { break }
      let insertion = table.insertion(of: rows)
      copied += try await target.write { try $0.run(insertion) }
      last = Array(end.values.prefix(table.key.count))
      progress(table.name, copied)
    }
    if table.key == ["id"], case .integer? = last?.first { try await target.continueIdentity(of: table.name) }
    return copied
  }

  private struct Digest: Equatable {
    var rows = 0
    var hash: [UInt8] = []
  }

  private func digest(of table: TableDescription, in database: any Database) async throws -> Digest {
    var hash = SHA256()
    var digest = Digest()
    var last: [Value]?
    while true {
      let statement = table.select(after: last, limit: Self.page)
      let rows = try await database.query(statement)
      guard let end = rows.last else { break }
      for row in rows { for value in row.values { hash.update(value) } }
      digest.rows += rows.count
      last = Array(end.values.prefix(table.key.count))
    }
    digest.hash = Array(hash.finalize())
    return digest
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
    let columns = columns.joined(separator: ", ")
    guard let last else {
      return Statement("SELECT \(columns) FROM \(name) WHERE \(condition) ORDER BY \(order) LIMIT \(limit)")
    }
    return Statement(
      """
      SELECT \(columns) FROM \(name)
      WHERE \(condition) AND (\(order)) > (\(Statement.placeholders(last.count)))
      ORDER BY \(order) LIMIT \(limit)
      """, arguments: last)
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

extension SHA256 {
  /// A value with its kind and length, so that no two rows look alike that are not.
  fileprivate mutating func update(_ value: Value) {
    switch value {
    case .null: update(data: [0])
    case .integer(let number):
      update(data: [1])
      withUnsafeBytes(of: number.bigEndian) { update(bufferPointer: $0) }
    case .text(let text): update(2, Array(text.utf8))
    case .bytes(let bytes): update(3, bytes)
    }
  }

  private mutating func update(_ kind: UInt8, _ bytes: [UInt8]) {
    update(data: [kind])
    withUnsafeBytes(of: bytes.count.bigEndian) { update(bufferPointer: $0) }
    update(data: bytes)
  }
}
