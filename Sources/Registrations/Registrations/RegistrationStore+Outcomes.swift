package import Foundation
package import SQL

// What deliveries find out about registrations, of every kind: which have ended, and what went wrong.
extension RegistrationStore {
  /// A registration as a delivery met it, and what the provider said.
  package struct Failure: Sendable, Hashable {
    package let registration: RegistrationReference
    /// The reason's name, out of a small set.
    package let reason: String
    /// What the provider says of the token it says of whatever was registered with it before this; nil if it does
    /// not follow.
    package let holdsBefore: Date?

    package init(_ registration: RegistrationReference, reason: String, holdsBefore: Date? = nil) {
      self.registration = registration
      self.reason = reason
      self.holdsBefore = holdsBefore
    }
  }

  /// A provider is believed so many seconds after the registration, or after it first said the same.
  static let heldInterval: TimeInterval = 3600
  /// So many seconds later what it said counts for nothing any more.
  static let heldRetention: TimeInterval = 7 * 86_400

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
        try connection.run(
          Statement(
            "UPDATE registrations SET failure = $3, failed_at = $4 WHERE id = $1 AND registered_at = $2",
            arguments: failure.registration.arguments + [.text(failure.reason), now]))
      }
    }
  }

  // MARK: - Deletions that are held back

  /// How many deletions of a kind and reason are held back on a route, because its provider has called too many tokens
  /// dead at once to be believed: until it says the same again, or the operator does.
  package struct Held: Sendable, Hashable {
    /// The row of the route.
    package let routeID: Int64
    /// The parts of the route's name: whose service, which credential, which topic or project.
    package let provider, credential, target: String
    package let kind: RegistrationReference.Kind
    /// What the provider said.
    package let reason: String
    /// When it said so of the first of them.
    package let since: Date
    package let count: Int
  }

  /// Keeps deaths that are not believed, each with the row of its route, and ends the registrations of those that
  /// were kept long enough ago. Nothing is held against one that has been registered
  /// again meanwhile.
  ///
  /// - Returns: those that are held from now on, and those that have ended.
  package func hold(_ deaths: [(death: Failure, route: Int64)]) async throws -> (
    held: Set<RegistrationReference>, ended: Set<RegistrationReference>
  ) {
    guard !deaths.isEmpty else { return ([], []) }
    let (now, latest) = (now(), believedSince)
    return try await database.write { connection in
      var held: Set<RegistrationReference> = []
      var confirmed: [Failure] = []
      for (death, route) in deaths {
        let since = try connection.query(
          Statement(
            """
            UPDATE registrations SET dead_since = COALESCE(dead_since, $6), dead_route_id = $3,
              dead_reason = $4, dead_before = CAST($5 AS BIGINT)
            WHERE id = $1 AND registered_at = $2 AND ended_at IS NULL RETURNING dead_since
            """,
            arguments: death.registration.arguments + [
              .integer(route), .text(death.reason), .integer(death.holdsBefore?.milliseconds),
              .integer(now.milliseconds),
            ])
        ).first?.date(0)
        guard let since else { continue }
        if since <= latest {
          confirmed.append(death)
        } else if since == now.stored {
          held.insert(death.registration)
        }
      }
      return (held, try connection.end(confirmed, now: now))
    }
  }

  /// Forgets what is held against registrations that have turned out to live.
  ///
  /// - Returns: those that something was held against.
  package func release(_ living: [RegistrationReference]) async throws -> Set<RegistrationReference> {
    let held = try await held(of: living)
    guard !held.isEmpty else { return [] }
    return try await database.write { connection in
      try Set(
        held.keys.filter { registration in
          try connection.run(
            Statement(
              """
              UPDATE registrations SET \(RegistrationReference.notDead)
              WHERE id = $1 AND registered_at = $2 AND dead_since IS NOT NULL
              """, arguments: registration.arguments)) > 0
        })
    }
  }

  /// What is held back, by route, kind and reason.
  package func held() async throws -> [Held] { try await Self.held(in: database) }

  /// The same without a key.
  package static func held(in database: any Database) async throws -> [Held] {
    let statement = Statement(
      """
      SELECT r.id, r.provider, r.credential, r.target, h.wire, h.reason, h.since, h.deaths
      FROM (
        SELECT dead_route_id, wire, dead_reason AS reason, MIN(dead_since) AS since, COUNT(*) AS deaths
        FROM registrations WHERE dead_route_id IS NOT NULL GROUP BY dead_route_id, wire, dead_reason) AS h
      JOIN outbox_routes r ON r.id = h.dead_route_id
      """)
    return try await database.query(statement).compactMap { row in
      guard let kind = RegistrationReference.Kind(rawValue: try row.int64(4)) else { return nil }
      return Held(
        routeID: try row.int64(0), provider: try row.text(1), credential: try row.text(2),
        target: try row.text(3), kind: kind, reason: try row.text(5), since: try row.date(6),
        count: Int(try row.int64(7)))
    }
  }

  /// Believes the provider in everything that is held back on a route now.
  ///
  /// - Returns: how many registrations have ended by that.
  package func endHeld(on route: Int64) async throws -> Int {
    let statement = Statement(
      """
      SELECT id, registered_at, wire, dead_reason, dead_before FROM registrations
      WHERE dead_route_id = $1 LIMIT 500
      """, .integer(route))
    var ended = 0
    while true {
      let now = now()
      let count = try await database.write { connection in
        let deaths = try connection.query(statement).compactMap { row -> Failure? in
          guard let kind = RegistrationReference.Kind(rawValue: try row.int64(2)) else { return nil }
          return Failure(
            try .init(kind, row), reason: try row.text(3), holdsBefore: try row.optionalDate(4))
        }
        return try connection.end(deaths, now: now).count
      }
      guard count > 0 else { return ended }
      ended += count
    }
  }

  /// Forgets what was said too long ago, of a bounded number of registrations.
  ///
  /// - Returns: of how many; fewer than `limit` means that none are left.
  package func forgetHeld(limit: Int = 1000) async throws -> Int {
    let statement = Statement(
      """
      UPDATE registrations SET \(RegistrationReference.notDead) WHERE id IN (
        SELECT id FROM registrations WHERE dead_route_id IS NOT NULL AND dead_since < $1 LIMIT $2)
      """, .integer((now() - Self.heldRetention).milliseconds), .integer(Int64(limit)))
    return try await database.write { try $0.run(statement) }
  }

  /// When a provider first said that these are dead, of those whose deaths are held back.
  private func held(of registrations: [RegistrationReference]) async throws -> [RegistrationReference: Date] {
    guard !registrations.isEmpty else { return [:] }
    let statement = Statement(
      "SELECT id, registered_at, dead_since FROM registrations WHERE id IN ($list) AND dead_since IS NOT NULL",
      list: registrations.map { .integer($0.id) })
    let rows = try await database.query(statement)
    let held = Dictionary(try rows.map { (try $0.int64(0), (try $0.date(1), try $0.date(2))) }) { $1 }
    return Dictionary(
      registrations.compactMap { registration in
        held[registration.id].flatMap { $0.0 == registration.registeredAt ? (registration, $0.1) : nil }
      }
    ) { $1 }
  }
}

extension Connection {
  /// Ends registrations, unless they have been made again, and with each all that have its token; those of `dead` that
  /// are at an end then.
  fileprivate func end(_ dead: [RegistrationStore.Failure], now: Date) throws -> Set<RegistrationReference> {
    var ended: Set<RegistrationReference> = []
    var removedDevices = 0
    for failure in dead {
      let registration = failure.registration
      let found = try query(
        Statement(
          "SELECT token_hash, kind, target FROM registrations WHERE id = $1 AND registered_at = $2",
          arguments: registration.arguments))
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

/// A registration, and those with the same token and target that were registered no later than `$5`.
private let withToken = """
  (id = $1 OR token_hash = $2 AND token_hash <> 0 AND kind = $3 AND target IS NOT DISTINCT FROM $4
    AND registered_at <= $5 AND ended_at IS NULL)
  """
