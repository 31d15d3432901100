package import Foundation
package import SQL

/// How far the devices have come on their way from legacy to E2EE registrations, now and over time, and
/// what is left to clean up after them (`Documentation/Decisions` 0009).
package struct MigrationStatus: Sendable {
  /// How long changes are kept by the day. Of each realm the last one before that stays, too.
  private static let keptDays: Int64 = 800

  let database: any Database
  private let now: @Sendable () -> Date

  /// The state of `database`.
  package init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
  }

  /// Devices at one moment.
  package struct Devices: Sendable, Hashable {
    /// Devices with legacy registrations, however many users each has.
    package var legacy: Int64 = 0
    /// Live E2EE registrations.
    package var e2ee: Int64 = 0

    /// None.
    package init() {}

    /// So many.
    package init(legacy: Int64, e2ee: Int64) {
      self.legacy = legacy
      self.e2ee = e2ee
    }

    /// Adds.
    package static func += (left: inout Devices, right: Devices) {
      left.legacy += right.legacy
      left.e2ee += right.e2ee
    }
  }

  /// A realm by its row and its server's. Legacy devices of no known realm are a realm 0 of their server.
  struct Place: Sendable, Hashable {
    let server: Int64
    let realm: Int64
  }

  /// Today, in days since 1970 UTC.
  var today: Int64 { now().days }

  /// Writes the present numbers down as today's, for realms whose numbers have changed since they were
  /// written down last. Called once an hour or so, on one node; reads every registration.
  package func record() async throws {
    let today = today
    let present = try await present()
    let known = try await latest()
    var changes = present.filter { known[$0.key] != $0.value }
    for (place, devices) in known where present[place] == nil && devices != Devices() {
      changes[place] = Devices()
    }
    for chunk in changes.map(\.self).chunks(of: 500) {
      try await database.write { connection in
        for (place, devices) in chunk {
          try connection.run(
            Statement(
              """
              INSERT INTO migration_history (day, server_id, realm_id, legacy, e2ee) VALUES ($1, $2, $3, $4, $5)
              ON CONFLICT (day, server_id, realm_id) DO UPDATE SET legacy = excluded.legacy, e2ee = excluded.e2ee
              """, .integer(today), .integer(place.server), .integer(place.realm), .integer(devices.legacy),
              .integer(devices.e2ee)))
        }
      }
    }
    try await removeOld(before: today - Self.keptDays)
  }

  private func removeOld(before day: Int64) async throws {
    let statement = Statement(
      """
      DELETE FROM migration_history WHERE day < $1 AND EXISTS (
        SELECT 1 FROM migration_history later
        WHERE later.server_id = migration_history.server_id AND later.realm_id = migration_history.realm_id
          AND later.day > migration_history.day AND later.day <= $1)
      """, .integer(day))
    try await database.write { _ = try $0.run(statement) }
  }

  /// The numbers of this moment, of realms that have any device.
  func present() async throws -> [Place: Devices] {
    let legacy = Statement(
      """
      SELECT server_id, COALESCE(realm_id, 0), COUNT(DISTINCT token_hash) FROM registrations
      WHERE wire = 2 GROUP BY server_id, COALESCE(realm_id, 0)
      """)
    let e2ee = Statement(
      """
      SELECT r.server_id, e.realm_id, e.devices
      FROM (
        SELECT realm_id, COUNT(*) AS devices FROM registrations
        WHERE token_id IS NOT NULL AND ended_at IS NULL GROUP BY realm_id) e
      JOIN remote_realms r ON r.id = e.realm_id
      """)
    return try await database.read { connection in
      var devices: [Place: Devices] = [:]
      for row in try connection.query(legacy) {
        devices[try Place(row, 0), default: Devices()].legacy = try row.int64(2)
      }
      for row in try connection.query(e2ee) {
        devices[try Place(row, 0), default: Devices()].e2ee = try row.int64(2)
      }
      return devices
    }
  }

  private func latest() async throws -> [Place: Devices] {
    let statement = Statement(
      """
      SELECT h.server_id, h.realm_id, h.legacy, h.e2ee FROM migration_history h
      WHERE h.day = (
        SELECT MAX(day) FROM migration_history l WHERE l.server_id = h.server_id AND l.realm_id = h.realm_id)
      """)
    let rows = try await database.query(statement)
    return try rows.reduce(into: [:]) {
      $0[try Place($1, 0)] = Devices(legacy: try $1.int64(2), e2ee: try $1.int64(3))
    }
  }
}

extension MigrationStatus.Place {
  /// The two columns from `index` on.
  init(_ row: Row, _ index: Int) throws {
    self.init(server: try row.int64(index), realm: try row.int64(index + 1))
  }
}

extension Date {
  /// Whole days since 1970 UTC.
  fileprivate var days: Int64 { Int64((timeIntervalSince1970 / 86_400).rounded(.down)) }
}

extension Array {
  fileprivate func chunks(of size: Int) -> [ArraySlice<Element>] {
    stride(from: 0, to: count, by: size).map { self[$0..<Swift.min($0 + size, count)] }
  }
}

extension MigrationStatus {
  /// The devices of all servers together at the end of each of the last days, from what was written down; from the
  /// first day on which there is anything. Reads the history alone, no registration.
  package func progress(days: Int64) async throws -> [Day] {
    let statement = Statement(
      """
      SELECT day, CAST(SUM(legacy - legacy_before) AS BIGINT), CAST(SUM(e2ee - e2ee_before) AS BIGINT)
      FROM (
        SELECT day, legacy, e2ee, COALESCE(LAG(legacy) OVER place, 0) AS legacy_before,
          COALESCE(LAG(e2ee) OVER place, 0) AS e2ee_before
        FROM migration_history WINDOW place AS (PARTITION BY server_id, realm_id ORDER BY day)) AS changes
      GROUP BY day ORDER BY day
      """)
    let changes = try await database.query(statement).map { row in
      (day: try row.int64(0), devices: Devices(legacy: try row.int64(1), e2ee: try row.int64(2)))
    }
    guard let first = changes.first?.day else { return [] }
    var (sum, rest) = (Devices(), changes[...])
    return (first...max(first, today)).compactMap { day in
      while let change = rest.first, change.day <= day {
        sum += change.devices
        rest = rest.dropFirst()
      }
      return day > today - days
        ? Day(date: Date(timeIntervalSince1970: Double(day) * 86_400), devices: sum) : nil
    }
  }
}
