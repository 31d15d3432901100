package import Foundation
package import SQL

/// The figures and audit events that chat servers report about themselves. They are stored in the order of the servers' own
/// ids, and removed after a time once nobody has to be given them any more (`Documentation/Decisions` 0032).
package struct Reports: Sendable {
  /// The lists of a report.
  package enum List: Sendable, CaseIterable {
    case realmCounts, installationCounts, auditEvents

    package var table: String {
      switch self {
      case .realmCounts: "remote_realm_counts"
      case .installationCounts: "remote_installation_counts"
      case .auditEvents: "remote_realm_audit_log"
      }
    }

    fileprivate var columns: String {
      switch self {
      case .realmCounts: "realm_id, property, subgroup, end_time, value"
      case .installationCounts: "property, subgroup, end_time, value"
      case .auditEvents: "realm_id, event_type, event_time, backfilled, extra_data"
      }
    }

    /// The column of `remote_servers` with the last id that was stored.
    fileprivate var last: String { "last_\(id)" }

    /// The name of this list's ids in columns' names.
    package var id: String {
      switch self {
      case .realmCounts: "realm_count_id"
      case .installationCounts: "installation_count_id"
      case .auditEvents: "audit_event_id"
      }
    }
  }

  /// A row of a list.
  package struct Row: Sendable {
    /// The row's id at its server.
    package let id: Int64
    /// The values in the order of the list's columns.
    fileprivate let values: [Value]
    /// What it counts as where rows are counted.
    package let weight: Int

    package init(id: Int64, _ values: [Value]) {
      self.id = id
      self.values = values
      weight = Reports.weight(
        values.reduce(0) { if case .text(let text) = $1 { $0 + text.utf8.count } else { $0 } })
    }
  }

  /// The number of rows that a row with texts of so many bytes counts as: one for each 256.
  static func weight(_ bytes: Int) -> Int { 1 + bytes / 256 }

  /// The highest id that a server has sent of each list.
  package typealias LastIDs = [List: Int64]

  /// Number of a server's rows above which its oldest are removed. Twice as many are stored while they cannot be removed.
  package static let mostRows: Int64 = 500_000

  private let database: any Database
  private let groups: [RowGroup]

  /// - Parameter isRemovable: SQL condition for a list's rows that may be removed, because nobody has to be given them any
  ///   more.
  package init(database: any Database, isRemovable: (List) -> String = { _ in "TRUE" }) {
    self.database = database
    groups = RowGroup.all(isRemovable)
  }

  // MARK: Storing

  package func lastIDs(of server: Int64) async throws -> LastIDs {
    let columns = List.allCases.map(\.last).joined(separator: ", ")
    let row = try await database.lookUp(
      "SELECT \(columns) FROM remote_servers WHERE id = $1", .integer(server)
    ).first
    guard let row else { return [:] }
    return Dictionary(uniqueKeysWithValues: try List.allCases.map { ($0, try row.int64($0.last)) })
  }

  /// Whether the server has so many rows that no more can be stored.
  package static func isFull(of server: Int64, on connection: any Connection) throws -> Bool {
    try connection.query("SELECT report_rows FROM remote_servers WHERE id = $1", .integer(server))
      .returned.int64("report_rows") >= 2 * mostRows
  }

  /// Stores those rows of a list that come after the last one that is stored. A row up to that id repeats an earlier report,
  /// and what is stored stays: also if it was removed since, and if the row differs.
  ///
  /// - Parameter rows: with rising ids.
  /// - Returns: how many rows have the id of a stored one and differ from it.
  package static func keep(
    _ rows: ArraySlice<Row>, in list: List, of server: Int64, on connection: any Connection
  ) throws -> Int {
    let last = try connection.query(
      "SELECT \(list.last) FROM remote_servers WHERE id = $1", .integer(server)
    ).returned.int64(list.last)
    let repeated = rows.prefix { $0.id <= last }
    let new = rows[repeated.endIndex...]
    if let end = new.last {
      try connection.run(
        "UPDATE remote_servers SET \(list.last) = $2, report_rows = report_rows + $3 WHERE id = $1",
        .integer(server), .integer(end.id), .integer(Int64(new.count)))
      try connection.run(
        Statement(
          """
          INSERT INTO \(list.table) (server_id, remote_id, \(list.columns)) VALUES $rows
          ON CONFLICT (server_id, remote_id) DO NOTHING
          """,
          rows: new.map { [.integer(server), .integer($0.id)] + $0.values }))
    }
    return try differing(repeated, in: list, of: server, on: connection)
  }

  /// The number of rows that differ from the stored ones with their ids.
  private static func differing(
    _ rows: ArraySlice<Row>, in list: List, of server: Int64, on connection: any Connection
  ) throws -> Int {
    guard !rows.isEmpty else { return 0 }
    let columns = list.columns.split(separator: ", ").map(String.init)
    let stored = try connection.query(
      "SELECT remote_id, \(list.columns) FROM \(list.table) WHERE server_id = $1 AND remote_id IN ($list)",
      .integer(server), list: rows.map { .integer($0.id) })
    let values = Dictionary(
      try stored.map { row in (try row.int64("remote_id"), try columns.map(row.value)) }
    ) { $1 }
    return rows.count { row in values[row.id].map { $0 != row.values } ?? false }
  }

  /// Counts rows that this service has added for a server; a negative number counts removed ones.
  static func count(_ rows: Int, of server: Int64, on connection: any Connection) throws {
    guard rows != 0 else { return }
    try connection.run(
      "UPDATE remote_servers SET report_rows = report_rows + $2 WHERE id = $1", .integer(server),
      .integer(Int64(rows)))
  }

  // MARK: Removing

  /// Rows of one table that are removed by the same rule: those of a list, or this service's own audit events of realms.
  private struct RowGroup {
    let table: String
    let key: String
    let time: String
    /// SQL condition for rows that may be removed.
    let condition: String
    let order: String

    static func all(_ isRemovable: (List) -> String) -> [RowGroup] {
      List.allCases.map { list in
        RowGroup(
          table: list.table, key: "server_id, remote_id",
          time: list == .auditEvents ? "event_time" : "end_time",
          condition: isRemovable(list), order: "remote_id")
      } + [
        RowGroup(
          table: "remote_realm_audit_log", key: "id", time: "event_time", condition: "remote_id IS NULL",
          order: "id")
      ]
    }

    /// Removes the first rows in this order and returns their servers.
    func removal(where chosen: String, by order: String) -> String {
      """
      DELETE FROM \(table) WHERE (\(key)) IN (
        SELECT \(key) FROM \(table) WHERE \(chosen) AND \(condition) ORDER BY \(order) LIMIT $2)
      RETURNING server_id
      """
    }
  }

  /// Removes rows that are older than this, and the oldest of servers that have too many. Rows that somebody
  /// has yet to be given stay.
  ///
  /// - Parameter most: maximum number of a server's rows.
  /// - Returns: the number removed, at most `limit`.
  package func remove(
    before date: Date, most: Int64 = mostRows, limit: Int
  ) async throws -> Int {
    let crowded = try await database.query(
      "SELECT id, report_rows FROM remote_servers WHERE report_rows > $1", .integer(most))
    return try await database.write { connection in
      var removed: [Int64: Int] = [:]
      var left = limit
      for group in groups where left > 0 {
        let rows = try connection.query(
          group.removal(where: "\(group.time) < $1", by: group.time), .integer(date.milliseconds),
          .integer(Int64(left)))
        for row in rows { removed[try row.int64("server_id"), default: 0] += 1 }
        left -= rows.count
      }
      for row in crowded {
        let server = try row.int64("id")
        let excess = Int(try row.int64("report_rows") - most) - removed[server, default: 0]
        let count = try removeOldest(min(left, excess), of: server, on: connection)
        removed[server, default: 0] += count
        left -= count
      }
      for (server, count) in removed { try Self.count(-count, of: server, on: connection) }
      return limit - left
    }
  }

  /// Removes the oldest rows of a server that may be removed.
  private func removeOldest(
    _ count: Int, of server: Int64, on connection: any Connection
  ) throws -> Int {
    var removed = 0
    while removed < count {
      // The first row of each group; the oldest of these is next.
      let oldest = try groups.compactMap { group in
        try connection.query(
          """
          SELECT \(group.time) AS time FROM \(group.table) WHERE server_id = $1 AND \(group.condition) ORDER BY \(group.order) LIMIT 1
          """, .integer(server)
        ).first.map { (group: group, time: try $0.int64("time")) }
      }.min { $0.time < $1.time }
      guard let oldest else { break }
      removed += try connection.query(
        oldest.group.removal(where: "server_id = $1", by: oldest.group.order), .integer(server),
        .integer(Int64(min(256, count - removed)))
      ).count
    }
    return removed
  }
}
