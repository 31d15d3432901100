package import Foundation
internal import SQL

/// Deaths that are held back, because a provider has called too many dead at once to be believed: kept for as long
/// as it takes to see whether it says the same again, or the operator does.
extension OutcomeRecorder {
  /// A provider is believed so many seconds after the registration, or after it first said the same.
  static let heldInterval: TimeInterval = 3600
  /// So many seconds later what it said counts for nothing any more.
  static let heldRetention: TimeInterval = 7 * 86_400

  /// How many deaths of a kind and reason are held back on a route.
  package struct Held: Sendable, Hashable {
    /// The row of the route.
    package let routeID: Int64
    /// The parts of the route's name: whose service, which credential, which topic or project.
    package let provider, credential, target: String
    /// Whose registrations.
    package let kind: RegistrationReference.Kind
    /// What the provider said.
    package let reason: String
    /// When it said so of the first of them.
    package let since: Date
    /// How many.
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
        guard let said = try connection.hold(death, on: route, now: now) else { continue }
        if said <= latest {
          confirmed.append(death)
        } else if said == now.stored {
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
      try Set(held.keys.filter { try connection.releaseHeld($0) })
    }
  }

  /// What is held back, by route, kind and reason.
  package func held() async throws -> [Held] {
    try await database.read { connection in
      try connection.query(Statement(countHeld)).compactMap { row in
        guard let kind = RegistrationReference.Kind(rawValue: try row.int64(4)) else { return nil }
        return Held(
          routeID: try row.int64(0), provider: try row.text(1), credential: try row.text(2),
          target: try row.text(3), kind: kind, reason: try row.text(5), since: try row.date(6),
          count: Int(try row.int64(7)))
      }
    }
  }

  /// Believes the provider in everything that is held back on a route now.
  ///
  /// - Returns: how many registrations have ended by that.
  package func endHeld(on route: Int64) async throws -> Int {
    var ended = 0
    while true {
      let statement = Statement(
        """
        SELECT id, wire, registered_at, dead_reason, dead_before FROM registrations
        WHERE dead_route_id = $1 LIMIT 500
        """, .integer(route))
      let now = now()
      let count = try await database.write { connection in
        let deaths = try connection.query(statement).compactMap { row -> Failure? in
          guard let kind = RegistrationReference.Kind(rawValue: try row.int64(1)) else { return nil }
          return Failure(
            .init(kind, id: try row.int64(0), registeredAt: try row.date(2)), reason: try row.text(3),
            holdsBefore: try row.optionalDate(4))
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
  func held(of registrations: [RegistrationReference]) async throws -> [RegistrationReference: Date] {
    guard !registrations.isEmpty else { return [:] }
    let statement = Statement(
      "SELECT id, registered_at, dead_since FROM registrations WHERE id IN ($list) AND dead_since IS NOT NULL",
      list: registrations.map { .integer($0.id) })
    let rows = try await database.read { connection in
      try connection.query(statement).map { (try $0.int64(0), try $0.date(1), try $0.date(2)) }
    }
    let held = Dictionary(rows.map { ($0.0, ($0.1, $0.2)) }) { $1 }
    return Dictionary(
      registrations.compactMap { registration in
        held[registration.id].flatMap { $0.0 == registration.registeredAt ? (registration, $0.1) : nil }
      }
    ) { $1 }
  }
}

extension Connection {
  /// When it was first said of this registration, as it is now; nil if it is gone or was made again.
  fileprivate func hold(_ death: OutcomeRecorder.Failure, on route: Int64, now: Date) throws -> Date? {
    try query(
      Statement(
        """
        UPDATE registrations SET dead_since = COALESCE(dead_since, $6), dead_route_id = $3, dead_reason = $4,
          dead_before = CAST($5 AS BIGINT)
        WHERE id = $1 AND registered_at = $2 AND ended_at IS NULL RETURNING dead_since
        """,
        .integer(death.registration.id), .integer(death.registration.registeredAt.milliseconds),
        .integer(route),
        .text(death.reason), .integer(death.holdsBefore?.milliseconds), .integer(now.milliseconds))
    ).first?.date(0)
  }

  /// Whether anything was held against it.
  fileprivate func releaseHeld(_ registration: RegistrationReference) throws -> Bool {
    try run(
      Statement(
        """
        UPDATE registrations SET \(RegistrationReference.notDead)
        WHERE id = $1 AND registered_at = $2 AND dead_since IS NOT NULL
        """, .integer(registration.id), .integer(registration.registeredAt.milliseconds))) > 0
  }
}

private let countHeld = """
  SELECT r.id, r.provider, r.credential, r.target, h.wire, h.reason, h.since, h.deaths
  FROM (
    SELECT dead_route_id, wire, dead_reason AS reason, MIN(dead_since) AS since, COUNT(*) AS deaths
    FROM registrations WHERE dead_route_id IS NOT NULL GROUP BY dead_route_id, wire, dead_reason) AS h
  JOIN outbox_routes r ON r.id = h.dead_route_id
  """
