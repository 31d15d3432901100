public import Foundation
internal import SQL

extension E2EERegistrations {
  /// A registration as a delivery met it, and what the provider said.
  public struct Failure: Sendable, Hashable {
    /// The row.
    public var id: Int64
    /// When it had last been registered.
    public var registeredAt: Date
    /// The reason's name, out of a small set.
    public var reason: String

    /// A failure by its parts.
    public init(id: Int64, registeredAt: Date, reason: String) {
      self.id = id
      self.registeredAt = registeredAt
      self.reason = reason
    }
  }

  /// Ends registrations that a provider has declared dead. One that has been registered again
  /// meanwhile stays (`spec/decisions.md` 7).
  ///
  /// - Returns: the rows that are at an end now, by this call or by another one before it.
  public func expire(_ dead: [Failure]) async throws -> Set<Int64> {
    guard !dead.isEmpty else { return [] }
    let now = Value.integer(now().milliseconds)
    return try await database.write { connection in
      var ended: Set<Int64> = []
      for failure in dead {
        let changed = try connection.run(
          Statement(
            """
            UPDATE e2ee_registrations SET expired_at = COALESCE(expired_at, $3), failure = $4, failed_at = $3
            WHERE id = $1 AND registered_at = $2
            """,
            .integer(failure.id), .integer(failure.registeredAt.milliseconds), now, .text(failure.reason)))
        if changed > 0 { ended.insert(failure.id) }
      }
      return ended
    }
  }

  /// Writes down why notifications could not be delivered, for the operator to see. What was
  /// registered again meanwhile has a clean sheet.
  public func note(_ failures: [Failure]) async throws {
    guard !failures.isEmpty else { return }
    let now = Value.integer(now().milliseconds)
    try await database.write { connection in
      for failure in failures {
        try connection.run(
          Statement(
            """
            UPDATE e2ee_registrations SET failure = $4, failed_at = $3
            WHERE id = $1 AND registered_at = $2
            """,
            .integer(failure.id), .integer(failure.registeredAt.milliseconds), now, .text(failure.reason)))
      }
    }
  }

  /// Removes registrations that expired before a time (`retention.expired_days`), a bounded number at
  /// once so that no other writer waits long.
  ///
  /// - Returns: how many were removed; fewer than `limit` means that none are left.
  public func removeExpired(before time: Date, limit: Int = 1000) async throws -> Int {
    let statement = Statement(
      """
      DELETE FROM e2ee_registrations WHERE id IN (
        SELECT id FROM e2ee_registrations WHERE expired_at IS NOT NULL AND expired_at < $1 LIMIT $2)
      """, .integer(time.milliseconds), .integer(Int64(limit)))
    return try await database.write { try $0.run(statement) }
  }
}
