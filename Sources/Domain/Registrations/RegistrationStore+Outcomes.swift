package import Foundation
package import Providers
package import SQL

// What deliveries report about registrations of every wire: which have ended, and what failed.
extension RegistrationStore {
  /// A failed delivery: the registration as it was, and the provider's reason.
  package struct Failure: Sendable, Hashable {
    package let registration: RegistrationReference
    /// The reason's name, one of a closed list.
    package let reason: String
    /// Registrations with this token that were made before this time end too; nil if the provider named no such time.
    package let holdsBefore: Date?

    package init(_ registration: RegistrationReference, reason: String, holdsBefore: Date? = nil) {
      self.registration = registration
      self.reason = reason
      self.holdsBefore = holdsBefore
    }
  }

  /// Seconds, from the registration or from the provider's first statement, after which a provider is believed.
  static let heldInterval: TimeInterval = 3600
  /// Seconds after which a statement that was held back is forgotten.
  static let heldRetention: TimeInterval = 7 * 86_400

  /// The time by which a registration must have been made, or a provider's statement first held back, for the statement to
  /// be believed: an hour ago, or the distant past while the clock is in doubt.
  package var believedSince: Date { isClockTrusted() ? now() - Self.heldInterval : .distantPast }

  /// Ends registrations that a provider has declared dead. A registration that was renewed meanwhile stays,
  /// and so does one whose deletion is held back until the provider has repeated it for long enough.
  ///
  /// Registrations with the same token and target end too, whatever their wire, realm or server, if they were
  /// registered no later, or before the provider was asked. One elsewhere ends alone, because that service
  /// speaks of one server's registration and not of a token. An end-to-end encrypted one is marked as
  /// ended, so that its server can be told; others are removed at once.
  ///
  /// - Returns: those that have ended, by this call or an earlier one.
  package func end(_ dead: [Failure]) async throws -> Set<RegistrationReference> {
    guard !dead.isEmpty else { return [] }
    let now = now()
    // Read outside of the transaction: on PostgreSQL, transactions that read what others write have to be
    // repeated.
    let held = try await held(of: dead.map(\.registration))
    let latest = believedSince
    let believed = dead.filter { (held[$0.registration] ?? .distantPast) <= latest }
    return try await database.write { connection in
      try connection.endAll(believed, now: now)
    }
  }

  /// Records that a provider does not know the token of a registration to which nothing was ever delivered.
  ///
  /// - Returns: whether the provider is not believed yet: it first said so less than an hour ago, or the registration was
  ///   renewed meanwhile. A statement older than a week is ignored.
  package func holdUndelivered(_ registration: RegistrationReference, _ reason: Reason) async throws -> Bool {
    let now = now()
    let latest = believedSince
    let values: [Value] = [
      .integer(now.milliseconds), .integer((now - Self.heldRetention).milliseconds), .text(reason.rawValue),
    ]
    return try await database.write { connection in
      let found = try connection.query(
        Statement(
          """
          UPDATE registrations SET dead_since = CASE WHEN dead_since >= $4 THEN dead_since ELSE $3 END,
            dead_reason = COALESCE(dead_reason, $5)
          WHERE id = $1 AND registered_at = $2 AND delivered_at IS NULL AND ended_at IS NULL RETURNING dead_since
          """, arguments: registration.arguments + values))
      if let since = try found.first?.date("dead_since") { return since > latest }
      return try !connection.query(
        Statement(
          """
          SELECT 1 FROM registrations
          WHERE id = $1 AND registered_at > $2 AND delivered_at IS NULL AND ended_at IS NULL
          """, arguments: registration.arguments)
      ).isEmpty
    }
  }

  /// Records why notifications could not be delivered, for the operator: the last reason of each registration.
  /// Registrations renewed meanwhile are not changed. Many are written in several transactions, so that others' writes
  /// come in between.
  package func recordFailures(_ failures: [Failure]) async throws {
    let now = Value.integer(now().milliseconds)
    let reasons = Dictionary(failures.map { ($0.registration, $0.reason) }) { $1 }
      .sorted { $0.key.id < $1.key.id }
    for start in stride(from: 0, to: reasons.count, by: Self.failuresAtOnce) {
      try await database.write { connection in
        for (registration, reason) in reasons[start...].prefix(Self.failuresAtOnce) {
          try connection.run(
            Statement(
              """
              UPDATE registrations SET failure = $3, failed_at = $4, failed_by = \(RegistrationReference.chatServer)
              WHERE id = $1 AND registered_at = $2
              """,
              arguments: registration.arguments + [.text(reason), now]))
        }
      }
    }
  }

  /// Maximum number of registrations in one transaction, which takes a millisecond or two.
  private static let failuresAtOnce = 100

  // MARK: - Deletions that are held back

  /// Number of deletions of a wire and reason held back on a route, because its provider reported too many
  /// tokens as dead at once to be believed. They are held until the provider repeats it later, or the operator
  /// confirms it.
  package struct Held: Sendable, Hashable {
    /// Row id of the route.
    package let routeID: Int64
    /// The parts of the route's name: provider, credential, and topic or project.
    package let provider, credential, target: String
    package let wire: Wire
    /// The provider's reason.
    package let reason: String
    /// When the first of them was held back.
    package let since: Date
    package let count: Int
  }

  /// Holds back deletions, each with the row id of its route, and ends the registrations whose deletion was
  /// first held back long enough ago. Registrations renewed meanwhile are left out.
  ///
  /// - Returns: those newly held back, and those that have ended.
  package func hold(_ deletions: [(failure: Failure, route: Int64)]) async throws -> (
    held: Set<RegistrationReference>, ended: Set<RegistrationReference>
  ) {
    guard !deletions.isEmpty else { return ([], []) }
    let now = now()
    let latest = believedSince
    return try await database.write { connection in
      var held: Set<RegistrationReference> = []
      var confirmed: [Failure] = []
      for (failure, route) in deletions {
        let since = try connection.query(
          Statement(
            """
            UPDATE registrations SET dead_since = COALESCE(dead_since, $6), dead_route_id = $3,
              dead_reason = $4, dead_before = CAST($5 AS BIGINT)
            WHERE id = $1 AND registered_at = $2 AND ended_at IS NULL RETURNING dead_since
            """,
            arguments: failure.registration.arguments + [
              .integer(route), .text(failure.reason), .integer(failure.holdsBefore?.milliseconds),
              .integer(now.milliseconds),
            ])
        ).first?.date("dead_since")
        guard let since else { continue }
        if since <= latest {
          confirmed.append(failure)
        } else if since == now.stored {
          held.insert(failure.registration)
        }
      }
      return (held, try connection.endAll(confirmed, now: now))
    }
  }

  /// Drops deletions held back for registrations that have turned out to be alive.
  ///
  /// - Returns: the registrations that had one.
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

  /// Deletions held back, by route, wire and reason.
  package func held() async throws -> [Held] { try await Self.held(in: database) }

  /// Deletions held back, for callers without a storage key.
  package static func held(in database: any Database) async throws -> [Held] {
    try await database.query(
      """
      SELECT r.id, r.provider, r.credential, r.target, h.wire, h.reason, h.since, h.count
      FROM (
        SELECT dead_route_id, wire, dead_reason AS reason, MIN(dead_since) AS since, COUNT(*) AS count
        FROM registrations WHERE dead_route_id IS NOT NULL GROUP BY dead_route_id, wire, dead_reason) AS h
      JOIN outbox_routes r ON r.id = h.dead_route_id
      """
    ).compactMap { row in
      guard let wire = Wire(rawValue: try row.int64("wire")) else { return nil }
      return Held(
        routeID: try row.int64("id"), provider: try row.text("provider"),
        credential: try row.text("credential"),
        target: try row.text("target"), wire: wire, reason: try row.text("reason"),
        since: try row.date("since"),
        count: Int(try row.int64("count")))
    }
  }

  /// Ends all registrations whose deletion is held back on a route.
  ///
  /// - Returns: how many have ended.
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
        let failures = try connection.query(statement).compactMap { row -> Failure? in
          guard let wire = Wire(rawValue: try row.int64("wire")) else { return nil }
          return Failure(
            try .init(wire, row), reason: try row.text("dead_reason"),
            holdsBefore: try row.optionalDate("dead_before"))
        }
        return try connection.endAll(failures, now: now).count
      }
      guard count > 0 else { return ended }
      ended += count
    }
  }

  /// Drops deletions that were held back too long ago, for a bounded number of registrations.
  ///
  /// - Returns: how many were dropped; fewer than `limit` means that none are left.
  package func forgetHeld(limit: Int = 1000) async throws -> Int {
    try await database.run(
      """
      UPDATE registrations SET \(RegistrationReference.notDead) WHERE id IN (
        SELECT id FROM registrations WHERE dead_route_id IS NOT NULL AND dead_since < $1 LIMIT $2)
      """, .integer((now() - Self.heldRetention).milliseconds), .integer(Int64(limit)))
  }

  /// The time at which each deletion among these was first held back; registrations without one are left out.
  private func held(of registrations: [RegistrationReference]) async throws -> [RegistrationReference: Date] {
    guard !registrations.isEmpty else { return [:] }
    let rows = try await database.query(
      "SELECT id, registered_at, dead_since FROM registrations WHERE id IN ($list) AND dead_since IS NOT NULL",
      list: registrations.map { .integer($0.id) })
    let held = Dictionary(
      try rows.map { (try $0.int64("id"), (try $0.date("registered_at"), try $0.date("dead_since"))) }
    ) { $1 }
    return Dictionary(
      registrations.compactMap { registration in
        held[registration.id].flatMap { $0.0 == registration.registeredAt ? (registration, $0.1) : nil }
      }
    ) { $1 }
  }
}

extension Connection {
  /// Ends registrations unless they were renewed, together with others of the same token; returns those of
  /// `dead` that have ended.
  fileprivate func endAll(_ dead: [RegistrationStore.Failure], now: Date) throws -> Set<RegistrationReference>
  {
    var ended: Set<RegistrationReference> = []
    var removedDevices = 0
    for failure in dead.sorted(by: { $0.registration.id < $1.registration.id }) {
      let registration = failure.registration
      let found = try query(
        Statement(
          """
          SELECT CASE WHEN elsewhere IS NULL THEN token_hash ELSE 0 END AS token_hash, kind, target
          FROM registrations WHERE id = $1 AND registered_at = $2
          """, arguments: registration.arguments))
      guard let token = found.first else { continue }
      ended.insert(registration)
      let latest = max(
        registration.registeredAt.milliseconds, (failure.holdsBefore?.milliseconds ?? 0) - 1)
      let these = [
        .integer(registration.id), try token.value("token_hash"), try token.value("kind"),
        try token.value("target"),
        .integer(latest),
      ]
      try run(
        Statement(
          """
          UPDATE registrations SET ended_at = COALESCE(ended_at, $6), failure = $7, failed_at = $6,
            failed_by = \(RegistrationReference.chatServer), \(RegistrationReference.notDead)
          WHERE wire = \(Wire.e2ee.sql) AND elsewhere IS DISTINCT FROM 0 AND \(withToken)
          """, arguments: these + [.integer(now.milliseconds), .text(failure.reason)]))
      removedDevices += try query(
        Statement(
          "DELETE FROM registrations WHERE (wire <> \(Wire.e2ee.sql) OR elsewhere = 0) AND \(withToken) RETURNING wire",
          arguments: these)
      ).count { try $0.int64("wire") == Wire.nextcloud.rawValue }
    }
    try countRemovedNextcloudDevices(removedDevices)
    return ended
  }

  /// Removes devices of the Nextcloud proxy and returns how many.
  @discardableResult
  package func removeNextcloudDevices(
    _ condition: String, _ arguments: Value..., list: [Value]? = nil
  ) throws -> Int {
    let count = try run(Statement("DELETE FROM registrations WHERE \(condition)", arguments, list: list))
    try countRemovedNextcloudDevices(count)
    return count
  }

  /// Counts removed devices of the Nextcloud proxy, in the transaction that removes them, so that they are
  /// not mistaken for lost ones.
  private func countRemovedNextcloudDevices(_ count: Int) throws {
    guard count > 0 else { return }
    try run(
      """
      INSERT INTO nextcloud_removals (id, devices) VALUES (1, $1)
      ON CONFLICT (id) DO UPDATE SET devices = nextcloud_removals.devices + excluded.devices
      """, .integer(Int64(count)))
  }
}

/// SQL condition for a registration and those with the same token and target registered no later than `$5`.
private let withToken = """
  (id = $1 OR token_hash = $2 AND token_hash <> 0 AND kind = $3 AND target IS NOT DISTINCT FROM $4
    AND registered_at <= $5 AND ended_at IS NULL)
  """
