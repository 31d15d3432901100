internal import Platform
package import SQL
package import Sealing

/// Seals values again that are not sealed under the present key: a range of rows at a time, and never
/// overwriting a value that has changed meanwhile.
package struct Resealing: Sendable {
  /// Results of a range, or of all.
  package struct Count: Sendable, Hashable {
    /// Values newly sealed under the present key.
    package var resealed = 0
    /// Values that did not open; they are left unchanged.
    package var unreadable = 0
    /// Values that were changed concurrently.
    package var missed = 0

    package init() {}
  }

  /// One pass through all sealed values: its position and results.
  package struct Pass: Sendable {
    fileprivate let id: [UInt8]
    /// nil at the end.
    fileprivate var column = SealedColumn.allCases.first
    /// Key of the last row that was checked.
    fileprivate var last: [Value] = []
    package fileprivate(set) var count = Count()

    package var isAtEnd: Bool { column == nil }
  }

  private let database: any Database
  private let storageKey: StorageKey

  package init(database: any Database, storageKey: StorageKey) {
    self.database = database
    self.storageKey = storageKey
  }

  /// Starts a pass through all sealed values.
  package func pass() -> Pass { Pass(id: storageKey.presentID) }

  /// Processes at most `limit` rows.
  package func step(_ pass: inout Pass, limit: Int = 500) async throws {
    guard let column = pass.column else { return }
    let (key, identity) = (column.key, column.identity)
    let names = (key + identity + [column.name]).joined(separator: ", ")
    let after =
      pass.last.isEmpty
      ? "" : "AND (\(key.joined(separator: ", "))) > (\(Statement.placeholders(key.count)))"
    let statement = Statement(
      """
      SELECT \(names) FROM \(column.table) WHERE \(column.name) IS NOT NULL \(after)
      ORDER BY \(key.joined(separator: ", ")) LIMIT \(limit)
      """, arguments: pass.last)
    let rows = try await database.query(statement)
    let condition = key.enumerated().map { "\($1) = $\($0 + 3)" }.joined(separator: " AND ")
    var updates: [Statement] = []
    for row in rows {
      let sealed = try row.bytes(key.count + identity.count)
      guard !storageKey.isPresent(sealed) else { continue }
      let place = column.place(Array(row.values[key.count..<key.count + identity.count]))
      guard let opened = storageKey.open(sealed, at: place) else {
        pass.count.unreadable += 1
        continue
      }
      updates.append(
        Statement(
          "UPDATE \(column.table) SET \(column.name) = $1 WHERE \(column.name) = $2 AND \(condition)",
          arguments: [.bytes(storageKey.seal(opened, at: place)), .bytes(sealed)]
            + row.values[..<key.count]))
    }
    if !updates.isEmpty {
      let changed = try await database.write { [updates] connection in
        try updates.reduce(0) { try $0 + connection.run($1) }
      }
      pass.count.resealed += changed
      pass.count.missed += updates.count - changed
    }
    if rows.count < limit {
      pass.column = SealedColumn.allCases.drop { $0 != column }.dropFirst().first
      pass.last = []
    } else {
      pass.last = rows.last.map { Array($0.values[..<key.count]) } ?? []
    }
  }

  /// Whether all values are known to be sealed under the present key.
  package var isComplete: Bool {
    get async throws { try await database.read { try $0.mark(StorageSeal.complete) } == storageKey.presentID }
  }

  /// Records that all values are sealed under the present key, if a pass has shown that.
  package func finish(_ pass: Pass) async throws -> Bool {
    guard pass.isAtEnd, pass.count.missed == 0, pass.id == storageKey.presentID else { return false }
    try await database.write { try $0.setMark(StorageSeal.complete, pass.id) }
    return true
  }

  /// Number of values that did not open, by the column's name.
  package var unopened: [String: Int] { storageKey.failures }
}

extension SealedColumn {
  /// The columns of the table's primary key.
  fileprivate var key: [String] {
    switch self {
    case .nextcloudKey: ["user_id"]
    case .upstreamKey, .upstreamNextKey, .upstreamRealms: ["server_id"]
    case .vapidKey: ["id"]
    case .notificationSubject, .notificationMessage, .notificationObjectType, .notificationObjectID:
      ["user_id", "nid"]
    default: ["id"]
    }
  }
}
