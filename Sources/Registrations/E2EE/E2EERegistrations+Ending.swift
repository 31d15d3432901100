package import Foundation
internal import SQL
internal import Storage

extension E2EERegistrations {
  /// Removes registrations that expired before a time (`retention.expired_days`), a bounded number at
  /// once so that no other writer waits long.
  ///
  /// - Returns: how many were removed; fewer than `limit` means that none are left.
  package func removeExpired(before time: Date, limit: Int = 1000) async throws -> Int {
    let statement = Statement(
      """
      DELETE FROM e2ee_registrations WHERE id IN (
        SELECT id FROM e2ee_registrations WHERE expired_at IS NOT NULL AND expired_at < $1 LIMIT $2)
      """, .integer(time.milliseconds), .integer(Int64(limit)))
    return try await database.write { try $0.run(statement) }
  }
}
