package import Foundation
internal import Registrations
internal import SQL

extension NextcloudDevices {
  /// A notification that a device's key has signed.
  package struct Signed: Sendable {
    /// The device as it was read.
    package var device: NextcloudDevice
    /// Whether the notification names the token that the device has.
    package var namesToken: Bool

    /// A notification by what counts of it.
    package init(_ device: NextcloudDevice, namesToken: Bool) {
      self.device = device
      self.namesToken = namesToken
    }

    /// What the row does not say yet. That a device is in use is written once a day.
    fileprivate func tellsNew(at now: Date) -> Bool {
      !device.isUsed || now.timeIntervalSince(device.seenAt) >= 86_400
        || (device.tokenDiffersSince != nil) == namesToken
    }

    fileprivate func statement(at now: Date) -> Statement {
      let since = namesToken ? "NULL" : "COALESCE(token_differs_since, $3)"
      return Statement(
        """
        UPDATE registrations SET is_used = 1, seen_at = $3, token_differs_since = \(since)
        WHERE id = $1 AND registered_at = $2
        """,
        .integer(device.id), .integer(device.registeredAt.milliseconds), .integer(now.milliseconds))
    }
  }

  /// Writes down that devices are in use, and since when servers name other tokens than theirs. What was
  /// registered again meanwhile begins anew.
  package func note(_ signed: [Signed]) async throws {
    let now = now()
    let statements = signed.filter { $0.tellsNew(at: now) }.map { $0.statement(at: now) }
    guard !statements.isEmpty else { return }
    try await database.write { connection in
      for statement in statements { try connection.run(statement) }
    }
  }

  /// Removes devices that have neither been registered nor sent a signed notification since then.
  ///
  /// - Returns: how many there were, `limit` at most.
  package func removeUnused(since date: Date, limit: Int) async throws -> Int {
    let statement = Statement(
      """
      DELETE FROM registrations WHERE id IN (
        SELECT id FROM registrations WHERE seen_at IS NOT NULL AND seen_at < $1 ORDER BY seen_at LIMIT $2)
      """, .integer(date.milliseconds), .integer(Int64(limit)))
    return try await database.write { connection in
      let count = try connection.run(statement)
      try connection.noteRemovedNextcloudDevices(count)
      return count
    }
  }
}
