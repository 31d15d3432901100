package import Foundation
internal import SQL
internal import Storage

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
        guard let said = try connection.hold(death, on: route, now: now) else {
          try connection.releaseHeld(death.registration)
          continue
        }
        if said <= latest {
          confirmed.append(death)
        } else if said == now.stored {
          held.insert(death.registration)
        }
      }
      for death in confirmed { try connection.releaseHeld(death.registration) }
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
  /// - Returns: how many registrations have ended by that, and how many had been made again or were gone already.
  package func endHeld(on route: Int64) async throws -> (ended: Int, stayed: Int) {
    var rest = try await held().filter { $0.routeID == route }.map(\.count).reduce(0, +)
    var (ended, stayed) = (0, 0)
    while rest > 0 {
      let statement = Statement(takeHeld, .integer(route), .integer(Int64(min(rest, 500))))
      let now = now()
      let (taken, gone) = try await database.write { connection in
        let deaths = try connection.query(statement).compactMap { row -> Failure? in
          guard let kind = RegistrationReference.Kind(rawValue: try row.int64(0)) else { return nil }
          return Failure(
            .init(kind, id: try row.int64(1), registeredAt: try row.date(2)), reason: try row.text(3),
            holdsBefore: try row.optionalDate(4))
        }
        return (deaths.count, try connection.end(deaths, now: now).count)
      }
      guard taken > 0 else { break }
      rest -= taken
      ended += gone
      stayed += taken - gone
    }
    return (ended, stayed)
  }

  /// Forgets what is held against registrations that have been made again or are gone, or was said too long ago,
  /// out of a bounded stretch of rows.
  ///
  /// - Parameter row: the last row that has been looked at.
  /// - Returns: how many were forgotten, and the last row looked at; nil at the end.
  package func sweepHeld(
    after row: RegistrationReference.Row?, limit: Int64 = 1000
  ) async throws -> (removed: Int, last: RegistrationReference.Row?) {
    let statement = Statement(
      """
      SELECT kind, registration_id, registered_at, first_said_at FROM held_deaths
      WHERE (kind, registration_id) > ($1, $2) ORDER BY kind, registration_id LIMIT $3
      """, .integer(row?.kind.rawValue ?? 0), .integer(row?.id ?? 0), .integer(limit))
    let oldest = now() - Self.heldRetention
    let (stale, last) = try await database.read { connection in
      let held = try connection.query(statement).compactMap(HeldRow.init)
      let present = try connection.present(held.map(\.registration))
      return (
        held.filter { $0.firstSaidAt < oldest || !present.contains($0.registration) }.map(\.registration),
        held.last?.registration.row
      )
    }
    guard !stale.isEmpty else { return (0, last) }
    let removed = try await database.write { connection in
      try stale.count { try connection.releaseHeld($0) }
    }
    return (removed, last)
  }

  /// When a provider first said that these are dead, of those whose deaths are held back.
  func held(of registrations: [RegistrationReference]) async throws -> [RegistrationReference: Date] {
    let statements = Dictionary(grouping: registrations, by: \.kind).map { kind, registrations in
      Statement(
        """
        SELECT kind, registration_id, registered_at, first_said_at FROM held_deaths
        WHERE kind = $1 AND registration_id IN ($list)
        """, .integer(kind.rawValue), list: registrations.map { .integer($0.id) })
    }
    guard !statements.isEmpty else { return [:] }
    let registrations = Set(registrations)
    return try await database.read { connection in
      var held: [RegistrationReference: Date] = [:]
      for statement in statements {
        for row in try connection.query(statement).compactMap(HeldRow.init)
        where registrations.contains(row.registration) {
          held[row.registration] = row.firstSaidAt
        }
      }
      return held
    }
  }
}

private struct HeldRow {
  let registration: RegistrationReference
  let firstSaidAt: Date

  init?(_ row: Row) throws {
    guard let kind = RegistrationReference.Kind(rawValue: try row.int64(0)) else { return nil }
    registration = .init(kind, id: try row.int64(1), registeredAt: try row.date(2))
    firstSaidAt = try row.date(3)
  }
}

extension Connection {
  /// When it was first said of this registration, as it is now; nil if it is gone or was made again.
  fileprivate func hold(_ death: OutcomeRecorder.Failure, on route: Int64, now: Date) throws -> Date? {
    let registration = death.registration
    return try query(
      Statement(
        """
        INSERT INTO held_deaths
          (kind, registration_id, registered_at, route_id, reason, holds_before, first_said_at)
        SELECT $1, id, registered_at, $4, $5, CAST($6 AS BIGINT), $7 FROM \(registration.kind.table)
        WHERE id = $2 AND registered_at = $3\(registration.kind.living)
        ON CONFLICT (kind, registration_id) DO UPDATE SET
          first_said_at = CASE WHEN held_deaths.registered_at = excluded.registered_at
            THEN held_deaths.first_said_at ELSE excluded.first_said_at END,
          registered_at = excluded.registered_at, route_id = excluded.route_id, reason = excluded.reason,
          holds_before = excluded.holds_before
        RETURNING first_said_at
        """,
        .integer(registration.kind.rawValue), .integer(registration.id),
        .integer(registration.registeredAt.milliseconds), .integer(route), .text(death.reason),
        .integer(death.holdsBefore?.milliseconds), .integer(now.milliseconds))
    ).first?.date(0)
  }

  /// Whether anything was held against it.
  @discardableResult
  func releaseHeld(_ registration: RegistrationReference) throws -> Bool {
    try run(
      Statement(
        "DELETE FROM held_deaths WHERE kind = $1 AND registration_id = $2 AND registered_at = $3",
        .integer(registration.kind.rawValue), .integer(registration.id),
        .integer(registration.registeredAt.milliseconds))) > 0
  }

  /// Those that are there, live and have not been made again.
  fileprivate func present(_ registrations: [RegistrationReference]) throws -> Set<RegistrationReference> {
    var present: Set<RegistrationReference> = []
    for (kind, registrations) in Dictionary(grouping: registrations, by: \.kind) {
      let statement = Statement(
        "SELECT id, registered_at FROM \(kind.table) WHERE id IN ($list)\(kind.living)",
        list: registrations.map { .integer($0.id) })
      for row in try query(statement) {
        present.insert(.init(kind, id: try row.int64(0), registeredAt: try row.date(1)))
      }
    }
    return present
  }
}

private let countHeld = """
  SELECT r.id, r.provider, r.credential, r.target, h.kind, h.reason, h.since, h.deaths
  FROM (
    SELECT route_id, kind, reason, MIN(first_said_at) AS since, COUNT(*) AS deaths
    FROM held_deaths GROUP BY route_id, kind, reason) AS h
  JOIN outbox_routes r ON r.id = h.route_id
  """

private let takeHeld = """
  DELETE FROM held_deaths WHERE (kind, registration_id) IN (
    SELECT kind, registration_id FROM held_deaths WHERE route_id = $1 LIMIT $2)
  RETURNING kind, registration_id, registered_at, reason, holds_before
  """
