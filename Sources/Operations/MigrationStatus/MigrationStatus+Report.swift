package import Foundation
internal import SQL

extension MigrationStatus {
  /// All there is to tell.
  package struct Report: Sendable, Hashable {
    /// Servers that have or had devices, by hostname.
    package let servers: [ServerDevices]
    /// Of all servers together, by day; the last one is today.
    package let history: [Day]
    /// What is still to be told to the bouncer.
    package let cleanup: Cleanup

    /// A report by its parts.
    package init(servers: [ServerDevices], history: [Day], cleanup: Cleanup) {
      self.servers = servers
      self.history = history
      self.cleanup = cleanup
    }
  }

  /// A server's devices.
  package struct ServerDevices: Sendable, Hashable {
    /// Its `zulip_org_id`.
    package let uuid: String
    /// Its hostname.
    package let hostname: String
    /// All of them.
    package let devices: Devices
    /// Its realms, by host.
    package let realms: [RealmDevices]
    /// Of all of them together, by day; the last one is today.
    package let history: [Day]
  }

  /// A realm's devices.
  package struct RealmDevices: Sendable, Hashable {
    /// Its id; nil for legacy devices of which no realm is known yet.
    package let uuid: String?
    /// Its host.
    package let host: String?
    /// Its name.
    package let name: String?
    /// Now.
    package let devices: Devices
    /// On days on which they changed, and today.
    package let history: [Day]
  }

  /// Devices at the end of a day.
  package struct Day: Sendable, Hashable {
    /// The day: its begin in UTC.
    package let date: Date
    /// The devices.
    package let devices: Devices
  }

  /// Legacy tokens that the built-in chat-server side has removed and the bouncer does not know of yet.
  package struct Cleanup: Sendable, Hashable {
    /// How many calls of the bouncer are outstanding.
    package let outstanding: Int64
    /// Since when the oldest has been.
    package let oldestAt: Date?
    /// Why the bouncer did not take one the last time.
    package let lastFailure: String?
  }

  /// The present state and its history. Reads every registration.
  package func report() async throws -> Report {
    let present = try await present()
    let history = try await history(with: present)
    return Report(
      servers: try await servers(present, history), history: Self.total(of: history.values),
      cleanup: try await cleanup())
  }

  /// The days of each realm, in order, with today's numbers as of now.
  private func history(with present: [Place: Devices]) async throws -> [Place: [Int64: Devices]] {
    let rows = try await database.read { connection in
      try connection.query(Statement("SELECT server_id, realm_id, day, legacy, e2ee FROM migration_history"))
    }
    var history: [Place: [Int64: Devices]] = [:]
    for row in rows {
      history[try Place(row, 0), default: [:]][try row.int64(2)] = Devices(
        legacy: try row.int64(3), e2ee: try row.int64(4))
    }
    for place in Set(history.keys).union(present.keys) {
      history[place, default: [:]][today] = present[place] ?? Devices()
    }
    return history
  }

  /// A day on which a realm's numbers did not change has those of the day before.
  private static func total(of histories: some Sequence<[Int64: Devices]>) -> [Day] {
    var changes: [Int64: Devices] = [:]
    for days in histories {
      var last = Devices()
      for (day, devices) in days.sorted(by: { $0.key < $1.key }) {
        changes[day, default: Devices()] += Devices(
          legacy: devices.legacy - last.legacy, e2ee: devices.e2ee - last.e2ee)
        last = devices
      }
    }
    var sum = Devices()
    return changes.sorted { $0.key < $1.key }.map { day, change in
      sum += change
      return Day(day, sum)
    }
  }

  private func servers(
    _ present: [Place: Devices], _ history: [Place: [Int64: Devices]]
  ) async throws -> [ServerDevices] {
    let (servers, realms) = try await database.read { connection in
      (
        try connection.query(
          Statement("SELECT id, uuid, hostname FROM remote_servers ORDER BY hostname_key")),
        try connection.query(
          Statement("SELECT server_id, id, uuid, host, name FROM remote_realms ORDER BY host, id"))
      )
    }
    var realmsOfServers: [Int64: [RealmDevices]] = [:]
    func add(_ place: Place, _ row: Row?) throws {
      guard let days = history[place] else { return }
      realmsOfServers[place.server, default: []].append(
        RealmDevices(
          uuid: try row?.text(2), host: try row?.text(3), name: try row?.text(4),
          devices: present[place] ?? Devices(),
          history: days.sorted { $0.key < $1.key }.map { Day($0, $1) }))
    }
    for row in realms { try add(try Place(row, 0), row) }
    let histories = Dictionary(grouping: history) { $0.key.server }
    return try servers.compactMap { row in
      try add(Place(server: try row.int64(0), realm: 0), nil)
      guard let realms = realmsOfServers[try row.int64(0)] else { return nil }
      return ServerDevices(
        uuid: try row.text(1), hostname: try row.text(2),
        devices: realms.reduce(into: Devices()) { $0 += $1.devices }, realms: realms,
        history: Self.total(of: histories[try row.int64(0), default: []].map(\.value)))
    }
  }

  private func cleanup() async throws -> Cleanup {
    try await database.read { connection in
      let all = try connection.query(
        Statement("SELECT COUNT(*), MIN(requested_at) FROM legacy_unregistrations"))
      let failures = try connection.query(
        Statement(
          """
          SELECT failure FROM legacy_unregistrations WHERE failure IS NOT NULL ORDER BY due_at DESC, id DESC LIMIT 1
          """))
      return Cleanup(
        outstanding: try all.first?.int64(0) ?? 0,
        oldestAt: try all.first?.optionalInt64(1).map { Date(timeIntervalSince1970: Double($0) / 1000) },
        lastFailure: try failures.first?.text(0))
    }
  }
}

extension MigrationStatus.Day {
  fileprivate init(_ day: Int64, _ devices: MigrationStatus.Devices) {
    self.init(date: Date(timeIntervalSince1970: Double(day) * 86_400), devices: devices)
  }
}
