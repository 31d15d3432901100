package import Foundation
internal import Registrations
package import SQL
internal import Settings

/// The progress of the transition from legacy to E2EE registrations, now and over time, and the cleanup that
/// is left to do after it (`Documentation/Decisions` 0009).
package struct MigrationStatus: Sendable {
  /// In days. Older entries are removed, except for each realm's last one.
  private static let keptDays: Int64 = 800

  let database: any Database
  private let now: @Sendable () -> Date

  package init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
  }

  /// The numbers of devices at one moment.
  package struct Devices: Sendable, Hashable {
    /// Devices with legacy registrations, each counted once even if several users share it.
    package var legacy: Int64 = 0
    /// Live E2EE registrations.
    package var e2ee: Int64 = 0

    package init(legacy: Int64 = 0, e2ee: Int64 = 0) { (self.legacy, self.e2ee) = (legacy, e2ee) }

    /// Reads the two columns from `index` on.
    fileprivate init(_ row: Row, _ index: Int) throws {
      self.init(legacy: try row.int64(index), e2ee: try row.int64(index + 1))
    }

    package static func += (left: inout Devices, right: Devices) {
      left.legacy += right.legacy
      left.e2ee += right.e2ee
    }
  }

  /// The numbers of devices at the end of a day.
  package struct Day: Sendable, Hashable {
    /// The start of the day in UTC.
    package let date: Date
    package let devices: Devices

    fileprivate init(_ day: Int64, _ devices: Devices) {
      self.init(date: Date(timeIntervalSince1970: Double(day) * 86_400), devices: devices)
    }

    init(date: Date, devices: Devices) { (self.date, self.devices) = (date, devices) }

    /// `2026-11-22`
    package var text: String { date.day }
  }

  /// A realm, by its row id and its server's. Legacy devices whose realm is unknown count as realm 0 of their
  /// server.
  struct Place: Sendable, Hashable {
    let server: Int64
    let realm: Int64

    init(server: Int64, realm: Int64) { (self.server, self.realm) = (server, realm) }

    /// Reads the first two columns.
    fileprivate init(_ row: Row) throws { self.init(server: try row.int64(0), realm: try row.int64(1)) }
  }

  /// In days since 1970 UTC.
  private var today: Int64 { Int64((now().timeIntervalSince1970 / 86_400).rounded(.down)) }

  // MARK: Writing

  /// Stores the current numbers as today's, for realms whose numbers have changed since their last entry.
  /// Called about once an hour on one node. Reads every registration.
  package func record() async throws {
    let (today, present) = (today, try await present())
    let latest = try await devices(
      """
      SELECT h.server_id, h.realm_id, h.legacy, h.e2ee FROM migration_history h
      WHERE h.day = (
        SELECT MAX(day) FROM migration_history l WHERE l.server_id = h.server_id AND l.realm_id = h.realm_id)
      """)
    // A realm without devices is missing from the current numbers; if its last entry was above zero, it gets
    // an entry of zero.
    let gone = latest.filter { present[$0.key] == nil }.mapValues { _ in Devices() }
    let changes = Array(present.merging(gone) { $1 }.filter { latest[$0.key, default: .init()] != $0.value })
    for start in stride(from: 0, to: changes.count, by: 500) {
      try await database.write { connection in
        for (place, devices) in changes[start...].prefix(500) {
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
    let old = Statement(
      """
      DELETE FROM migration_history WHERE day < $1 AND EXISTS (
        SELECT 1 FROM migration_history later
        WHERE later.server_id = migration_history.server_id AND later.realm_id = migration_history.realm_id
          AND later.day > migration_history.day AND later.day <= $1)
      """, .integer(today - Self.keptDays))
    try await database.write { _ = try $0.run(old) }
  }

  // MARK: Reading

  /// The current numbers of all realms with devices.
  func present() async throws -> [Place: Devices] {
    try await devices(
      """
      SELECT server_id, COALESCE(realm_id, 0), COUNT(DISTINCT token_hash), 0 FROM registrations
      WHERE wire = 2 GROUP BY server_id, COALESCE(realm_id, 0)
      UNION ALL
      SELECT r.server_id, e.realm_id, 0, e.devices
      FROM (
        SELECT realm_id, COUNT(*) AS devices FROM registrations
        WHERE token_id IS NOT NULL AND ended_at IS NULL GROUP BY realm_id) e
      JOIN remote_realms r ON r.id = e.realm_id
      """)
  }

  private func devices(_ sql: String) async throws -> [Place: Devices] {
    try await database.query(Statement(sql)).reduce(into: [:]) {
      $0[try Place($1), default: Devices()] += try Devices($1, 2)
    }
  }

  /// The stored history of each realm, in order: one entry for each day with a change.
  private func history() async throws -> [Place: [Day]] {
    let statement = Statement(
      "SELECT server_id, realm_id, day, legacy, e2ee FROM migration_history ORDER BY day")
    return try await database.query(statement).reduce(into: [:]) {
      $0[try Place($1), default: []].append(Day(try $1.int64(2), try Devices($1, 3)))
    }
  }

  /// The sums over all histories, for each day with a change. A history without a change on that day keeps
  /// its previous numbers.
  private static func total(of histories: some Sequence<[Day]>) -> [Day] {
    var changes: [Date: Devices] = [:]
    for days in histories {
      var last = Devices()
      for day in days {
        changes[day.date, default: Devices()] += Devices(
          legacy: day.devices.legacy - last.legacy, e2ee: day.devices.e2ee - last.e2ee)
        last = day.devices
      }
    }
    var sum = Devices()
    return changes.sorted { $0.key < $1.key }.map { date, change in
      sum += change
      return Day(date: date, devices: sum)
    }
  }

  /// The devices of all servers together at the end of each of the last `days` days, starting with the first
  /// stored day. Uses the history only and reads no registration.
  package func progress(days: Int64) async throws -> [Day] {
    let total = Self.total(of: try await history().values)
    guard let first = total.first else { return [] }
    let (sums, begin) = (
      Dictionary(total.map { ($0.date, $0.devices) }) { $1 }, Day(today - days, .init()).date
    )
    var devices = first.devices
    return stride(from: first.date, through: Day(today, .init()).date, by: 86_400).compactMap { date in
      devices = sums[date] ?? devices
      return date > begin ? Day(date: date, devices: devices) : nil
    }
  }

  /// The current numbers and their history. Reads every registration.
  package func report() async throws -> Report {
    let present = try await present()
    var history = try await history()
    for place in Set(history.keys).union(present.keys) {
      let now = Day(today, present[place] ?? .init())
      if history[place]?.last?.date == now.date { history[place]?.removeLast() }
      history[place, default: []].append(now)
    }
    return Report(
      servers: try await servers(present, history), history: Self.total(of: history.values),
      cleanup: try await cleanup())
  }

  private func servers(
    _ present: [Place: Devices], _ history: [Place: [Day]]
  ) async throws -> [ServerDevices] {
    let (servers, realms) = try await database.read { connection in
      (
        try connection.query(
          Statement("SELECT id, uuid, hostname FROM remote_servers ORDER BY hostname_key")),
        try connection.query(
          Statement("SELECT server_id, id, uuid, host, name FROM remote_realms ORDER BY host, id"))
      )
    }
    let known = Dictionary(grouping: try realms.map { (place: try Place($0), row: $0) }) { $0.place.server }
    return try servers.compactMap { server in
      let id = try server.int64(0)
      let places = known[id, default: []].map { ($0.place, Row?.some($0.row)) }
      let realms = try (places + [(Place(server: id, realm: 0), nil)]).compactMap { place, row in
        try history[place].map {
          RealmDevices(
            uuid: try row?.text(2), host: try row?.text(3), name: try row?.text(4),
            devices: present[place] ?? .init(), history: $0)
        }
      }
      guard !realms.isEmpty else { return nil }
      return ServerDevices(
        uuid: try server.text(1), hostname: try server.text(2),
        devices: realms.reduce(into: .init()) { $0 += $1.devices }, realms: realms,
        history: Self.total(of: realms.map(\.history)))
    }
  }

  private func cleanup() async throws -> Cleanup {
    let row = try await database.query(
      Statement(
        """
        SELECT COUNT(*), MIN(requested_at), (
            SELECT failure FROM legacy_unregistrations WHERE failure IS NOT NULL ORDER BY due_at DESC, id DESC LIMIT 1)
        FROM legacy_unregistrations
        """)
    ).first
    return Cleanup(
      outstanding: try row?.int64(0) ?? 0, oldestAt: try row?.optionalDate(1),
      lastFailure: try row?.optionalText(2))
  }
}

extension MigrationStatus {
  package struct Report: Sendable, Hashable {
    /// Servers that have or had devices, ordered by hostname.
    package let servers: [ServerDevices]
    /// The history of all servers together, by day; the last entry is today.
    package let history: [Day]
    /// Calls of the bouncer that are still outstanding.
    package let cleanup: Cleanup

    /// The part of the report about one server.
    package func only(_ uuid: String) -> Report {
      let servers = servers.filter { $0.uuid == uuid }
      return Report(servers: servers, history: servers.first?.history ?? [], cleanup: cleanup)
    }
  }

  package struct ServerDevices: Sendable, Hashable {
    /// Its `zulip_org_id`.
    package let uuid: String
    package let hostname: String
    package let devices: Devices
    /// Its realms, ordered by host.
    package let realms: [RealmDevices]
    /// The history of its realms together, by day; the last entry is today.
    package let history: [Day]
  }

  /// A realm's devices. Legacy devices whose realm is unknown form an entry without uuid, host and name.
  package struct RealmDevices: Sendable, Hashable {
    package let uuid: String?
    package let host: String?
    package let name: String?
    package let devices: Devices
    /// One entry for each day with a change, and one for today.
    package let history: [Day]
  }

  /// Legacy tokens that the built-in chat-server side has deleted and still has to unregister at the bouncer.
  package struct Cleanup: Sendable, Hashable {
    /// How many calls of the bouncer are outstanding.
    package let outstanding: Int64
    /// When the oldest outstanding call was requested.
    package let oldestAt: Date?
    /// The error of the last failed call.
    package let lastFailure: String?
  }
}
