import Platform
package import SQL
package import Sealing

/// Seals everything with another storage key: a range of rows at a time, so that it may be interrupted and
/// started again. Nobody else may write meanwhile.
package struct Resealing: Sendable {
  package struct Count: Sendable, Hashable {
    /// Values that were sealed with the old key.
    package var resealed = 0
    /// Values that open with neither key; they are left unchanged.
    package var unreadable = 0

    package init() {}
  }

  /// Rows read and written in one transaction.
  static let batch = 500

  private let database: any Database
  private let old: StorageKey
  private let new: StorageKey
  private let batch: Int

  package init(database: any Database, from old: StorageKey, to new: StorageKey) {
    self.init(database: database, from: old, to: new, batch: Self.batch)
  }

  init(database: any Database, from old: StorageKey, to new: StorageKey, batch: Int) {
    self.database = database
    self.old = old
    self.new = new
    self.batch = batch
  }

  /// - Parameter progress: called after each batch, with the numbers of values that are done, and of all.
  package func run(progress: @Sendable (_ done: Int, _ all: Int) -> Void) async throws -> Count {
    var all = 0
    for column in SealedColumn.allCases {
      let rows = try await database.query(
        Statement("SELECT COUNT(*) AS count FROM \(column.table) WHERE \(column.name) IS NOT NULL"))
      all += Int(try rows[0].int64("count"))  // COUNT gives one row.
    }
    var total = Count()
    var done = 0
    for column in SealedColumn.allCases {
      var last: [Value] = []
      while true {
        let (rows, count) = try await database.write { [last] in try reseal(column, after: last, on: $0) }
        total.resealed += count.resealed
        total.unreadable += count.unreadable
        done += rows.count
        if !rows.isEmpty { progress(done, all) }
        guard rows.count == batch, let end = rows.last else { break }
        last = Array(end.values.prefix(column.key.count))
      }
    }
    return total
  }

  /// - Parameter last: the key of the last row that is done; empty at the beginning.
  /// - Returns: the next rows, at most a batch.
  private func reseal(_ column: SealedColumn, after last: [Value], on connection: any Connection) throws
    -> (rows: [Row], count: Count)
  {
    try StorageSeal.checkChange(to: new, on: connection)
    let key = column.key
    let identity = column.identity
    let order = key.joined(separator: ", ")
    let after = last.isEmpty ? "" : "AND (\(order)) > (\(Statement.placeholders(key.count)))"
    let rows = try connection.query(
      Statement(
        """
        SELECT \((key + identity + [column.name]).joined(separator: ", ")) FROM \(column.table)
        WHERE \(column.name) IS NOT NULL \(after) ORDER BY \(order) LIMIT \(batch)
        """, arguments: last))
    let condition = key.enumerated().map { "\($1) = $\($0 + 2)" }.joined(separator: " AND ")
    let update = "UPDATE \(column.table) SET \(column.name) = $1 WHERE \(condition)"
    var count = Count()
    for row in rows {
      let sealed = try row.bytes(column.name)
      guard !new.hasSealed(sealed) else { continue }
      let place = column.place(Array(row.values[key.count..<key.count + identity.count]))
      guard let opened = old.open(sealed, at: place) else {
        count.unreadable += 1
        continue
      }
      try connection.run(
        Statement(update, arguments: [.bytes(new.seal(opened, at: place))] + row.values[..<key.count]))
      count.resealed += 1
    }
    return (rows, count)
  }
}
