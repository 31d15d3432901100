package import Foundation
import Providers
package import SQL

// Deletions that a provider asks for and is not believed yet.
extension RegistrationStore {
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
  func held(of registrations: [RegistrationReference]) async throws -> [RegistrationReference: Date] {
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
