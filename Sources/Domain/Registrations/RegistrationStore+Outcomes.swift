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
}

extension Connection {
  /// Ends registrations unless they were renewed, together with others of the same token; returns those of
  /// `dead` that have ended.
  func endAll(_ dead: [RegistrationStore.Failure], now: Date) throws -> Set<RegistrationReference> {
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
