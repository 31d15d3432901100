package import Foundation
package import SQL

/// What chat servers report of themselves: figures and audit events. They are taken in order of the servers' own ids, kept for
/// a time, and removed when nobody has to be given them any more (`Documentation/Decisions` 0032).
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

    /// The last id that came, in `remote_servers`.
    fileprivate var last: String { "last_\(id)" }

    /// The name of the ids.
    package var id: String {
      switch self {
      case .realmCounts: "realm_count_id"
      case .installationCounts: "installation_count_id"
      case .auditEvents: "audit_event_id"
      }
    }
  }

  package struct Row: Sendable {
    /// The row's id at its server.
    package let id: Int64
    /// In the order of the list's columns.
    fileprivate let values: [Value]

    package init(id: Int64, _ values: [Value]) { (self.id, self.values) = (id, values) }
  }

  /// The highest ids that a server has sent.
  package typealias Ends = [List: Int64]

  /// Most rows of a server that are kept for long. It may have twice as many as long as they cannot go.
  package static let mostRows: Int64 = 500_000

  private let database: any Database
  private let kinds: [Kind]

  /// - Parameter mayGo: SQL that is true of a list's rows that may be removed: nobody has to be given them any more.
  package init(database: any Database, mayGo: (List) -> String = { _ in "TRUE" }) {
    self.database = database
    kinds = Kind.all(mayGo)
  }

  // MARK: Taken

  private static let selectEnds =
    "SELECT \(List.allCases.map(\.last).joined(separator: ", ")), report_rows FROM remote_servers WHERE id = $1"

  private static func ends(_ row: SQL.Row) throws -> Ends {
    Dictionary(uniqueKeysWithValues: try List.allCases.map { ($0, try row.int64($0.last)) })
  }

  package func ends(of server: Int64) async throws -> Ends {
    try await database.lookUp(Self.selectEnds, .integer(server)).first.map(Self.ends) ?? [:]
  }

  /// The same within a transaction, and whether the server has so many rows that no more can be kept.
  package static func standing(
    of server: Int64, on connection: any Connection
  ) throws -> (ends: Ends, isFull: Bool) {
    let row = try connection.query(selectEnds, .integer(server)).returned
    return (try ends(row), try row.int64("report_rows") >= 2 * mostRows)
  }

  /// Keeps the next rows of a list.
  ///
  /// - Parameter rows: some, with ids that rise.
  /// - Returns: false if they do not come after those that are kept: another report was faster.
  package static func keep(
    _ rows: ArraySlice<Row>, in list: List, of server: Int64, on connection: any Connection
  ) throws -> Bool {
    guard let first = rows.first, let last = rows.last else { return true }
    let advanced = try connection.run(
      """
      UPDATE remote_servers SET \(list.last) = $2, report_rows = report_rows + $3 WHERE id = $1 AND \(list.last) < $4
      """, .integer(server), .integer(last.id), .integer(Int64(rows.count)), .integer(first.id))
    guard advanced == 1 else { return false }
    try connection.run(
      Statement(
        "INSERT INTO \(list.table) (server_id, remote_id, \(list.columns)) VALUES $rows ON CONFLICT DO NOTHING",
        rows: rows.map { [.integer(server), .integer($0.id)] + $0.values }))
    return true
  }

  /// Counts rows that were added for a server here.
  static func count(_ rows: Int, of server: Int64, on connection: any Connection) throws {
    guard rows != 0 else { return }
    try connection.run(
      "UPDATE remote_servers SET report_rows = report_rows + $2 WHERE id = $1", .integer(server),
      .integer(Int64(rows)))
  }

  // MARK: Forgotten

  /// Rows of one table that go together: those of a list, or what was noted here of realms.
  private struct Kind {
    let table: String
    let key: String
    let time: String
    /// What is true of rows that may go.
    let condition: String
    let order: String

    static func all(_ mayGo: (List) -> String) -> [Kind] {
      List.allCases.map { list in
        Kind(
          table: list.table, key: "server_id, remote_id",
          time: list == .auditEvents ? "event_time" : "end_time",
          condition: mayGo(list), order: "remote_id")
      } + [
        Kind(
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

  /// Removes rows that are older than this, and the oldest of servers that have too many. Rows that may not go yet
  /// stay.
  ///
  /// - Parameter most: how many rows a server may have.
  /// - Returns: how many were removed, `limit` at most.
  package func remove(
    before date: Date, most: Int64 = mostRows, limit: Int
  ) async throws -> Int {
    let crowded = try await database.query(
      "SELECT id, report_rows FROM remote_servers WHERE report_rows > $1", .integer(most))
    return try await database.write { connection in
      var removed: [Int64: Int] = [:]
      var left = limit
      for kind in kinds where left > 0 {
        let rows = try connection.query(
          kind.removal(where: "\(kind.time) < $1", by: kind.time), .integer(date.milliseconds),
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

  /// Removes the oldest rows of a server, as far as they may go.
  private func removeOldest(
    _ count: Int, of server: Int64, on connection: any Connection
  ) throws -> Int {
    var removed = 0
    while removed < count {
      // Of each kind the first comes next; of several the one that is oldest.
      let oldest = try kinds.compactMap { kind in
        try connection.query(
          """
          SELECT \(kind.time) AS time FROM \(kind.table) WHERE server_id = $1 AND \(kind.condition) ORDER BY \(kind.order) LIMIT 1
          """, .integer(server)
        ).first.map { (kind: kind, time: try $0.int64("time")) }
      }.min { $0.time < $1.time }
      guard let oldest else { break }
      removed += try connection.query(
        oldest.kind.removal(where: "server_id = $1", by: oldest.kind.order), .integer(server),
        .integer(Int64(min(256, count - removed)))
      ).count
    }
    return removed
  }
}
