package import Foundation
package import SQL
import Storage

/// What deliveries find out about registrations, of every kind: which have ended, and what went wrong.
package struct OutcomeRecorder: Sendable {
  /// A registration as a delivery met it, and what the provider said.
  package struct Failure: Sendable, Hashable {
    /// The registration.
    package var registration: RegistrationReference
    /// The reason's name, out of a small set.
    package var reason: String
    /// What the provider says of the token it says of whatever was registered with it before this; nil if it does
    /// not follow.
    package var holdsBefore: Date?

    /// A failure by its parts.
    package init(_ registration: RegistrationReference, reason: String, holdsBefore: Date? = nil) {
      self.registration = registration
      self.reason = reason
      self.holdsBefore = holdsBefore
    }
  }

  let database: any Database
  let now: @Sendable () -> Date
  private let mayExpire: @Sendable () -> Bool

  /// A recorder for the registrations in `database`.
  ///
  /// - Parameter mayExpire: whether an hour may be taken as past now: not while the clock is doubted.
  package init(
    database: any Database, now: @escaping @Sendable () -> Date,
    mayExpire: @escaping @Sendable () -> Bool = { true }
  ) {
    self.database = database
    self.now = now
    self.mayExpire = mayExpire
  }

  /// What a provider says of a registration is believed if it was made, or held back, by then: an hour ago, and never
  /// while the clock is doubted.
  package var believedSince: Date { mayExpire() ? now() - Self.heldInterval : .distantPast }

  /// Ends registrations that a provider has declared dead. One that has been registered again
  /// meanwhile stays, and so does one whose death is held back: until the provider has said so long enough.
  ///
  /// With it end all with the same token and target that were registered no later, or before the provider was asked,
  /// whatever kind, realm or server they are of. An end-to-end encrypted one stays as expired, so that its server can be
  /// told; others are forgotten at once.
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
      let dead = try believed.filter {
        try held[$0.registration] == nil || connection.releaseHeld($0.registration)
      }
      return try connection.end(dead, now: now)
    }
  }

  /// Writes down why notifications could not be delivered, for the operator to see. What was
  /// registered again meanwhile has a clean sheet.
  package func note(_ failures: [Failure]) async throws {
    guard !failures.isEmpty else { return }
    let now = Value.integer(now().milliseconds)
    try await database.write { connection in
      for failure in failures {
        let registration = failure.registration
        try connection.run(
          Statement(
            """
            UPDATE \(registration.kind.table) SET failure = $4, failed_at = $3
            WHERE id = $1 AND registered_at = $2
            """,
            .integer(registration.id), .integer(registration.registeredAt.milliseconds), now,
            .text(failure.reason)))
      }
    }
  }

  /// Those of these rows that are there and have not expired, whenever they were registered.
  package func living(_ registrations: [RegistrationReference]) async throws -> Set<RegistrationReference.Row>
  {
    let statements = Dictionary(grouping: registrations, by: \.kind).map { kind, registrations in
      (
        kind,
        Statement(
          "SELECT id FROM \(kind.table) WHERE id IN ($list)\(kind.living)",
          list: registrations.map { .integer($0.id) })
      )
    }
    guard !statements.isEmpty else { return [] }
    return try await database.read { connection in
      var living: Set<RegistrationReference.Row> = []
      for (kind, statement) in statements {
        for row in try connection.query(statement) { living.insert(.init(kind: kind, id: try row.int64(0))) }
      }
      return living
    }
  }
}

extension RegistrationReference.Kind {
  /// Where such registrations are kept.
  package var table: String {
    switch self {
    case .e2ee: "e2ee_registrations"
    case .legacy: "legacy_registrations"
    case .nextcloud: "nextcloud_devices"
    case .nextcloudWebPush: "nextcloud_webpush"
    }
  }

  /// What else is true, in SQL, of one that is kept there and has not ended.
  var living: String { self == .e2ee ? " AND expired_at IS NULL" : "" }
}

extension Connection {
  /// Ends registrations, unless they have been made again; those that are at an end then.
  func end(_ dead: [OutcomeRecorder.Failure], now: Date) throws -> Set<RegistrationReference> {
    var ended: Set<RegistrationReference> = []
    for failure in dead {
      let registration = failure.registration
      let key: [Value] = [.integer(registration.id), .integer(registration.registeredAt.milliseconds)]
      let token = try registration.kind.token.flatMap { try query(Statement($0, key[0])).first }
      let statement =
        switch registration.kind {
        case .e2ee:
          Statement(expireE2EE, arguments: key + [.integer(now.milliseconds), .text(failure.reason)])
        case .legacy: Statement(forgetLegacy, arguments: key)
        case .nextcloud: Statement(forgetNextcloud, arguments: key)
        case .nextcloudWebPush:
          Statement(
            forgetNextcloudWebPush, arguments: key + [.integer(failure.holdsBefore?.milliseconds ?? .min)])
        }
      guard try run(statement) > 0 else { continue }
      ended.insert(registration)
      if let token { try endOthers(with: token.values, failure, now: now) }
    }
    try noteRemovedNextcloudDevices(ended.count { $0.kind == .nextcloud })
    return ended
  }

  /// Ends whatever else was registered with the token of one that has ended: its provider has said of them the same.
  ///
  /// - Parameter token: its hash, kind and target.
  private func endOthers(with token: [Value], _ failure: OutcomeRecorder.Failure, now: Date) throws {
    let latest = max(
      failure.registration.registeredAt.milliseconds, (failure.holdsBefore?.milliseconds ?? 0) - 1)
    let these = token + [.integer(latest)]
    try run(
      Statement(
        """
        UPDATE e2ee_registrations SET expired_at = $5, failure = $6, failed_at = $5
        WHERE token_hash = $1 AND kind = $2 AND ios_app_id IS NOT DISTINCT FROM $3 AND registered_at <= $4
          AND expired_at IS NULL
        """, arguments: these + [.integer(now.milliseconds), .text(failure.reason)]))
    try run(
      Statement(
        """
        DELETE FROM legacy_registrations
        WHERE token_hash = $1 AND kind = $2 AND ios_app_id IS NOT DISTINCT FROM $3 AND registered_at <= $4
        """, arguments: these))
    try noteRemovedNextcloudDevices(
      try run(
        Statement(
          """
          DELETE FROM nextcloud_devices
          WHERE push_hash = $1 AND push_hash <> 0 AND kind = $2 AND target IS NOT DISTINCT FROM $3
            AND registered_at <= $4
          """, arguments: these)))
  }
}

extension RegistrationReference.Kind {
  /// The hash, kind and target of a row's token; nil where no other kind has such tokens.
  fileprivate var token: String? {
    switch self {
    case .e2ee, .legacy: "SELECT token_hash, kind, ios_app_id FROM \(table) WHERE id = $1"
    case .nextcloud: "SELECT push_hash, kind, target FROM \(table) WHERE id = $1"
    case .nextcloudWebPush: nil
    }
  }
}

private let expireE2EE = """
  UPDATE e2ee_registrations SET expired_at = COALESCE(expired_at, $3), failure = $4, failed_at = $3
  WHERE id = $1 AND registered_at = $2
  """

private let forgetLegacy = "DELETE FROM legacy_registrations WHERE id = $1 AND registered_at = $2"

private let forgetNextcloud = "DELETE FROM nextcloud_devices WHERE id = $1 AND registered_at = $2"

/// An endpoint is dead for whoever has it.
private let forgetNextcloudWebPush = """
  DELETE FROM nextcloud_webpush WHERE id IN (
    SELECT other.id FROM nextcloud_webpush dead JOIN nextcloud_webpush other
      ON other.endpoint_hash = dead.endpoint_hash
      AND (other.registered_at <= dead.registered_at OR other.registered_at < $3)
    WHERE dead.id = $1 AND dead.registered_at = $2)
  """
