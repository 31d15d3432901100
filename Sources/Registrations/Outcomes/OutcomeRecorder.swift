package import Foundation
package import SQL
package import Sealing

/// What deliveries find out about registrations, of every kind: which have ended, and what went wrong.
package struct OutcomeRecorder: Sendable {
  /// A registration as a delivery met it, and what the provider said.
  package struct Failure: Sendable, Hashable {
    /// The registration.
    package var registration: RegistrationReference
    /// The reason's name, out of a small set.
    package var reason: String
    /// What the provider says of the token it says of whatever was registered with it before this; nil if it does
    /// not follow.
    package var holdsBefore: Date?

    /// A failure by its parts.
    package init(_ registration: RegistrationReference, reason: String, holdsBefore: Date? = nil) {
      self.registration = registration
      self.reason = reason
      self.holdsBefore = holdsBefore
    }
  }

  let database: any Database
  let now: @Sendable () -> Date
  private let mayExpire: @Sendable () -> Bool

  /// A recorder for the registrations in `database`.
  ///
  /// - Parameter mayExpire: whether an hour may be taken as past now: not while the clock is doubted.
  package init(
    database: any Database, now: @escaping @Sendable () -> Date,
    mayExpire: @escaping @Sendable () -> Bool = { true }
  ) {
    self.database = database
    self.now = now
    self.mayExpire = mayExpire
  }

  /// What a provider says of a registration is believed if it was made, or held back, by then: an hour ago, and never
  /// while the clock is doubted.
  package var believedSince: Date { mayExpire() ? now() - Self.heldInterval : .distantPast }

  /// Ends registrations that a provider has declared dead. One that has been registered again
  /// meanwhile stays, and so does one whose death is held back: until the provider has said so long enough.
  ///
  /// With it end all with the same token and target that were registered no later, or before the provider was asked,
  /// whatever kind, realm or server they are of. An end-to-end encrypted one stays as ended, so that its server can be
  /// told; others are removed at once.
  ///
  /// - Returns: those that are at an end now, by this call or by another one before it.
  package func end(_ dead: [Failure]) async throws -> Set<RegistrationReference> {
    guard !dead.isEmpty else { return [] }
    let now = now()
    // Read before and not along with it: on PostgreSQL transactions that read what others write have to be repeated.
    let held = try await held(of: dead.map(\.registration))
    let latest = believedSince
    let believed = dead.filter { (held[$0.registration] ?? .distantPast) <= latest }
    return try await database.write { connection in
      try connection.end(believed, now: now)
    }
  }

  /// Writes down why notifications could not be delivered, for the operator to see. What was
  /// registered again meanwhile has a clean sheet.
  package func note(_ failures: [Failure]) async throws {
    guard !failures.isEmpty else { return }
    let now = Value.integer(now().milliseconds)
    try await database.write { connection in
      for failure in failures {
        let registration = failure.registration
        try connection.run(
          Statement(
            """
            UPDATE registrations SET failure = $4, failed_at = $3
            WHERE id = $1 AND registered_at = $2
            """,
            .integer(registration.id), .integer(registration.registeredAt.milliseconds), now,
            .text(failure.reason)))
      }
    }
  }

  /// Those of these that are there and have not ended, whenever they were registered.
  package func living(_ registrations: [RegistrationReference]) async throws -> Set<Int64> {
    guard !registrations.isEmpty else { return [] }
    let statement = Statement(
      "SELECT id FROM registrations WHERE id IN ($list) AND ended_at IS NULL",
      list: registrations.map { .integer($0.id) })
    return try await database.read { Set(try $0.query(statement).map { try $0.int64(0) }) }
  }

  /// Removes registrations that ended before a time (`retention.expired_days`), a bounded number at once so that no
  /// other writer waits long.
  ///
  /// - Returns: how many were removed; fewer than `limit` means that none are left.
  package func removeEnded(before time: Date, limit: Int = 1000) async throws -> Int {
    let statement = Statement(
      """
      DELETE FROM registrations WHERE id IN (
        SELECT id FROM registrations WHERE ended_at IS NOT NULL AND ended_at < $1 LIMIT $2)
      """, .integer(time.milliseconds), .integer(Int64(limit)))
    return try await database.write { try $0.run(statement) }
  }

  /// Registrations of a kind and provider.
  package struct Count: Sendable, Hashable {
    /// Over which wire they came.
    package let registrations: RegistrationReference.Kind
    /// Whose tokens.
    package let kind: PushToken.Kind
    /// Those that live.
    package let live: Int64
    /// Those that have ended and not been removed.
    package let ended: Int64
  }

  /// How many registrations of Zulip's apps there are of each kind. Reads every registration, a quarter of a second for
  /// a million: for once a minute.
  package func counts() async throws -> [Count] {
    let statement = Statement(
      """
      SELECT wire, kind, COUNT(*) FILTER (WHERE ended_at IS NULL), COUNT(ended_at)
      FROM registrations WHERE wire <= 2 GROUP BY wire, kind
      """)
    let rows = try await database.read { connection in
      try connection.query(statement).map { row in
        (wire: try row.int64(0), kind: try row.int64(1), live: try row.int64(2), ended: try row.int64(3))
      }
    }
    return [RegistrationReference.Kind.e2ee, .legacy].flatMap { registrations in
      PushToken.Kind.allCases.map { kind in
        let row = rows.first { $0.wire == registrations.rawValue && $0.kind == kind.storage }
        return Count(registrations: registrations, kind: kind, live: row?.live ?? 0, ended: row?.ended ?? 0)
      }
    }
  }
}

extension Connection {
  /// Ends registrations, unless they have been made again, and with each all that have its token; those of `dead` that
  /// are at an end then.
  func end(_ dead: [OutcomeRecorder.Failure], now: Date) throws -> Set<RegistrationReference> {
    var ended: Set<RegistrationReference> = []
    var removedDevices = 0
    for failure in dead {
      let registration = failure.registration
      let found = try query(
        Statement(
          "SELECT token_hash, kind, target FROM registrations WHERE id = $1 AND registered_at = $2",
          .integer(registration.id), .integer(registration.registeredAt.milliseconds)))
      guard let token = found.first else { continue }
      ended.insert(registration)
      let latest = max(
        registration.registeredAt.milliseconds, (failure.holdsBefore?.milliseconds ?? 0) - 1)
      let these: [Value] = [.integer(registration.id)] + token.values + [.integer(latest)]
      try run(
        Statement(
          """
          UPDATE registrations SET ended_at = COALESCE(ended_at, $6), failure = $7, failed_at = $6,
            \(RegistrationReference.notDead)
          WHERE wire = 1 AND \(withToken)
          """, arguments: these + [.integer(now.milliseconds), .text(failure.reason)]))
      removedDevices += try query(
        Statement(
          "DELETE FROM registrations WHERE wire <> 1 AND \(withToken) RETURNING wire", arguments: these)
      ).count { try $0.int64(0) == RegistrationReference.Kind.nextcloud.rawValue }
    }
    try noteRemovedNextcloudDevices(removedDevices)
    return ended
  }
}

/// A registration, and those with the same token and target that were registered no later than `$5`.
private let withToken = """
  (id = $1 OR token_hash = $2 AND token_hash <> 0 AND kind = $3 AND target IS NOT DISTINCT FROM $4
    AND registered_at <= $5 AND ended_at IS NULL)
  """

extension OutcomeRecorder {
  /// The hostnames of the chat servers that registrations belong to; those of Nextcloud have none.
  package func hostnames(of registrations: [RegistrationReference]) async throws -> [Int64: String] {
    guard !registrations.isEmpty else { return [:] }
    let statement = Statement(
      """
      SELECT g.id, s.hostname FROM registrations g LEFT JOIN remote_realms r ON r.id = g.realm_id
        JOIN remote_servers s ON s.id = COALESCE(g.server_id, r.server_id) WHERE g.id IN ($list)
      """, list: registrations.map { .integer($0.id) })
    let rows = try await database.read { try $0.query(statement) }
    return Dictionary(try rows.map { (try $0.int64(0), try $0.text(1)) }) { $1 }
  }
}

/// A registration, as it was when a notification was made for it.
package struct RegistrationReference: Sendable, Hashable {
  /// The wire that it was registered over; also as the database keeps it.
  package enum Kind: Int64, Sendable, Hashable, CaseIterable {
    /// Of an app that gets end-to-end encrypted notifications.
    case e2ee = 1
    /// Of an old app, which gets them in clear.
    case legacy = 2
    /// Of a device at the Nextcloud proxy.
    case nextcloud = 3
    /// A Web Push subscription of a user of the Nextcloud server side.
    case nextcloudWebPush = 4
  }

  /// What kind of registration.
  package let kind: Kind
  /// Its row.
  package let id: Int64
  /// When it had last been registered, in whole milliseconds: one that was renewed since does not end.
  package let registeredAt: Date

  /// A reference by its parts.
  package init(_ kind: Kind, id: Int64, registeredAt: Date) {
    self.kind = kind
    self.id = id
    self.registeredAt = registeredAt
  }

  /// What becomes of a row, in SQL, that is no longer called dead.
  static let notDead = "dead_since = NULL, dead_reason = NULL, dead_before = NULL, dead_route_id = NULL"
  /// What becomes of a row, in SQL, that is registered again: nothing is held against it any more.
  package static let cleanSheet = "failure = NULL, failed_at = NULL, \(notDead)"
}

extension Connection {
  /// Writes down, in the transaction in which they go, that so many devices of the Nextcloud proxy are removed and not
  /// lost: by the proxy, or by deliveries that find them dead.
  package func noteRemovedNextcloudDevices(_ count: Int) throws {
    guard count > 0 else { return }
    try run(
      Statement(
        """
        INSERT INTO nextcloud_removals (id, devices) VALUES (1, $1)
        ON CONFLICT (id) DO UPDATE SET devices = nextcloud_removals.devices + excluded.devices
        """, .integer(Int64(count))))
  }
}
