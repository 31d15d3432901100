package import SQL
package import Sealing

/// Seals anew what is not sealed under the present key: a stretch of rows at a time, and never
/// over a value that has changed meanwhile.
package struct Resealing: Sendable {
  /// What was found in a stretch, or in all.
  package struct Count: Sendable, Hashable {
    /// Values that are now sealed under the present key.
    package var resealed = 0
    /// Values that did not open; they are left as they are.
    package var unreadable = 0
    /// Values that somebody changed at the same moment.
    package var missed = 0

    /// Nothing yet.
    package init() {}
  }

  /// One look at everything: how far it is, and what was found.
  package struct Pass: Sendable {
    fileprivate let id: [UInt8]
    /// nil at the end.
    fileprivate var column = SealedColumn.allCases.first
    /// The key of the last row that was looked at.
    fileprivate var last: [Value] = []
    /// What was found.
    package fileprivate(set) var count = Count()

    /// Whether all has been looked at.
    package var isAtEnd: Bool { column == nil }
  }

  private let database: any Database
  private let storageKey: StorageKey

  /// For what `storageKey` has sealed in `database`.
  package init(database: any Database, storageKey: StorageKey) {
    self.database = database
    self.storageKey = storageKey
  }

  /// Begins to look at everything.
  package func pass() -> Pass { Pass(id: storageKey.presentID) }

  /// Does a stretch of at most so many rows.
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

  /// Whether everything is known to be sealed under the present key.
  package var isComplete: Bool {
    get async throws { try await StorageSeal.isComplete(storageKey, in: database) }
  }

  /// Notes that everything is sealed, if that is what a look has shown.
  package func finish(_ pass: Pass) async throws -> Bool {
    guard pass.isAtEnd, pass.count.missed == 0, pass.id == storageKey.presentID else { return false }
    try await StorageSeal.noteComplete(under: pass.id, in: database)
    return true
  }

  /// How often values of a column did not open, by the column's name.
  package var unopened: [String: Int] { storageKey.failures }
}

extension SealedColumn {
  /// The table's primary key.
  fileprivate var key: [String] {
    switch self {
    case .nextcloudKey: ["user_id"]
    case .vapidKey: ["id"]
    case .notificationSubject, .notificationMessage, .notificationObjectType, .notificationObjectID:
      ["user_id", "nid"]
    default: ["id"]
    }
  }
}
