internal import SQL

extension NextcloudDevices {
  /// Devices of one app.
  package struct Count: Sendable, Hashable {
    /// The name of the app.
    package let app: String
    /// What kind of token.
    package let kind: NextcloudDevice.Destination.Kind
    /// How many there are.
    package let devices: Int64
    /// By the reason why the latest notification for a device failed, if one has since it was last
    /// registered: how many there are.
    package let failures: [String: Int64]
  }

  /// How many devices there are of each app, and how many of them fail. Reads every registration: for
  /// people and for once a minute.
  package func counts() async throws -> [Count] {
    let statement = Statement(
      "SELECT app, kind, failure, COUNT(*) FROM registrations WHERE seen_at IS NOT NULL GROUP BY app, kind, failure"
    )
    let rows = try await database.query(statement).map { row in
      (
        app: try row.text(0), kind: NextcloudDevice.Destination.Kind(rawValue: try row.int64(1)),
        failure: try row.optionalText(2), devices: try row.int64(3)
      )
    }
    return Dictionary(grouping: rows) { "\($0.app) \($0.kind?.rawValue ?? 0)" }.values.compactMap { rows in
      guard let first = rows.first, let kind = first.kind else { return nil }
      return Count(
        app: first.app, kind: kind, devices: rows.reduce(0) { $0 + $1.devices },
        failures: rows.reduce(into: [:]) { failures, row in
          if let failure = row.failure { failures[failure] = row.devices }
        })
    }.sorted { ($0.app, $0.kind.rawValue) < ($1.app, $1.kind.rawValue) }
  }

  /// A database that keeps devices, as it looks from outside.
  package struct StoreState: Sendable, Hashable {
    /// What no other database has; 16 bytes.
    package var id: [UInt8]
    /// How many devices it has.
    package var devices: Int64
    /// How many have been removed from it, ever, by this program.
    package var removed: Int64

    /// A state by its parts.
    package init(id: [UInt8], devices: Int64, removed: Int64 = 0) {
      self.id = id
      self.devices = devices
      self.removed = removed
    }
  }

  /// The state of the database; one that is asked for the first time is given its id. Counts every device.
  package func storeState() async throws -> StoreState {
    if let state = try await state(countingTo: .max) { return state }
    let id = (0..<16).map { _ in UInt8.random(in: .min ... .max) }
    _ = try await database.execute(
      Statement(
        "INSERT INTO metadata (name, value) VALUES ('nextcloud_store', $1) ON CONFLICT (name) DO NOTHING",
        .bytes(id)))
    guard let state = try await state(countingTo: .max) else {
      throw DatabaseError(.other, "the store has no id")
    }
    return state
  }

  /// Its state with so many of its devices counted at most; nil if it has no id yet.
  package func state(countingTo limit: Int64) async throws -> StoreState? {
    let statement = Statement(
      """
      SELECT value, (SELECT COUNT(*) FROM (SELECT 1 FROM registrations WHERE seen_at IS NOT NULL LIMIT $1) AS counted),
        COALESCE((SELECT devices FROM nextcloud_removals WHERE id = 1), 0)
      FROM metadata WHERE name = 'nextcloud_store'
      """, .integer(limit))
    return try await database.query(statement).first.map { row in
      StoreState(id: try row.bytes(0), devices: try row.int64(1), removed: try row.int64(2))
    }
  }
}
