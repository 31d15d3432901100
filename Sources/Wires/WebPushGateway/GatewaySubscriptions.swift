import Basics
import Foundation
import HTTPClient
import Providers
import Registrations
import SQL
import Sealing

/// An app's subscription to the gateway.
struct GatewaySubscription: Sendable {
  /// Refers to this registration in a delivery.
  let reference: RegistrationReference
  let id: GatewayID
  let kind: PushToken.Kind
  /// Nil if the stored token does not open.
  let token: PushToken?
  /// The app's bundle id; nil for FCM.
  let appID: String?
  /// The public key of the only sender that may send (RFC 8292 section 4), 65 bytes; empty: anybody may.
  let senderKey: [UInt8]
  /// Messages of this urgency or less show nothing on an iPhone.
  let silentUrgency: GatewayMessage.Urgency?
  /// The environment of APNs that has the token, if that is known.
  let environment: APNsCredential.Environment?
  /// The address that last registered it.
  let owner: Owner
  /// Why the last message that failed was refused, and when; nil if none did since the last renewal.
  var lastFailure: (reason: String, at: Date)?
}

/// The gateway's registrations. Tokens are sealed under the storage key.
final class GatewaySubscriptions: Sendable {
  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date

  init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// Makes a subscription, or renews it and overwrites everything about it.
  ///
  /// - Parameters:
  ///   - senderKey: nil keeps the present one.
  ///   - admit: called before a new row is inserted; if it throws, there is no new row.
  /// - Returns: whether it is new.
  func put(
    _ id: GatewayID, _ request: SubscriptionRequest, of owner: Owner,
    admit: @escaping @Sendable () throws -> Void
  ) async throws -> Bool {
    try await database.write { [storageKey, now] connection in
      let row = try connection.query(
        "SELECT id, user_key FROM registrations WHERE device_identifier = $1 AND wire = \(Wire.gateway.sql)",
        .bytes(id.bytes)
      ).first
      if row == nil { try admit() }
      let senderKey = try request.senderKey ?? row?.bytes("user_key") ?? []
      let place = SealedPlace.token(identifier: .bytes(id.bytes), userKey: .bytes(senderKey))
      let values: [Value] = [
        .bytes(id.bytes), .bytes(senderKey), .bytes(storageKey.seal(request.token.text, at: place)),
        .integer(storageKey.tokenHash(of: request.token)), .integer(request.token.kind.storage),
        .text(request.appID), .integer(owner.id), .integer(now().milliseconds),
        .integer(request.silentUrgency?.storage),
      ]
      if let row {
        try connection.run(Statement(renewal, arguments: values + [try row.value("id")]))
      } else {
        try connection.run(Statement(insertion, arguments: values))
      }
      return row == nil
    }
  }

  func find(_ id: GatewayID) async throws -> GatewaySubscription? {
    try await database.query(
      """
      SELECT id, registered_at, user_key, token, kind, target, owner, environment, failure, failed_at, silent_urgency
      FROM registrations
      WHERE device_identifier = $1 AND wire = \(Wire.gateway.sql)
      """, .bytes(id.bytes)
    ).first.map { row in
      let senderKey = try row.bytes("user_key")
      let place = SealedPlace.token(identifier: .bytes(id.bytes), userKey: .bytes(senderKey))
      guard let kind = PushToken.Kind(storage: try row.int64("kind")) else {
        throw DatabaseError(.corrupt, "gateway subscription \(try row.int64("id")) is of no known kind")
      }
      let failure: (reason: String, at: Date)? =
        if let reason = try row.optionalText("failure") { (reason, try row.date("failed_at")) } else { nil }
      return GatewaySubscription(
        reference: try .init(.gateway, row), id: id, kind: kind,
        token: storageKey.openText(try row.bytes("token"), at: place).flatMap {
          try? PushToken($0, kind: kind)
        },
        appID: try row.optionalText("target"), senderKey: senderKey,
        silentUrgency: .init(storage: try row.optionalInt64("silent_urgency")),
        environment: .init(storage: try row.optionalInt64("environment")),
        owner: Owner(id: try row.int64("owner")), lastFailure: failure)
    }
  }

  /// Ends a subscription, and the bodies that wait for it. What waits in the outbox is removed when it is due.
  func remove(_ id: GatewayID) async throws {
    try await database.write { connection in
      try connection.run(
        Statement(
          "DELETE FROM registrations WHERE device_identifier = $1 AND wire = \(Wire.gateway.sql)",
          arguments: [.bytes(id.bytes)]
        ))
      try connection.run(
        Statement("DELETE FROM gateway_messages WHERE subscription = $1", arguments: [.bytes(id.bytes)]))
    }
  }

  /// Removes subscriptions that since `date` have neither been renewed nor sent to, and those that were not renewed since
  /// `trial`, which is later, and to which nothing was ever delivered.
  ///
  /// - Returns: how many were removed, at most `limit`.
  func removeUnused(since date: Date, neverUsedSince trial: Date, limit: Int) async throws -> Int {
    let isUnused = """
      wire = \(Wire.gateway.sql) AND registered_at < $1 AND (delivered_at IS NULL OR registered_at < $2 AND delivered_at < $2)
      """
    let times = [Value.integer(trial.milliseconds), .integer(date.milliseconds)]
    // Found by a reader, so that no writer waits while many are looked at.
    let found = try await database.query(
      Statement(
        "SELECT id FROM registrations WHERE \(isUnused) ORDER BY registered_at LIMIT $3",
        arguments: times + [.integer(Int64(limit))]))
    guard !found.isEmpty else { return 0 }
    let statement = Statement(
      "DELETE FROM registrations WHERE \(isUnused) AND id IN ($list)", times,
      list: try found.map { .integer(try $0.int64("id")) })
    return try await database.write { try $0.run(statement) }
  }

  /// Number of subscriptions of an app.
  struct Count: Sendable, Hashable {
    let kind: PushToken.Kind
    /// The bundle id; empty for FCM.
    let app: String
    let subscriptions: Int64
    /// Number of them that the latest message did not reach.
    let failing: Int64
  }

  /// Counts the subscriptions of each app. Reads every one, so call it for people, or once a minute.
  func counts() async throws -> [Count] {
    try await database.query(
      """
      SELECT kind, COALESCE(target, '') AS app, COUNT(*) AS count,
        COUNT(CASE WHEN \(RegistrationReference.isFailing) THEN 1 END) AS failing
      FROM registrations WHERE wire = \(Wire.gateway.sql) GROUP BY 1, 2 ORDER BY 1, 2
      """
    ).compactMap { row in
      try PushToken.Kind(storage: try row.int64("kind")).map {
        Count(
          kind: $0, app: try row.text("app"), subscriptions: try row.int64("count"),
          failing: try row.int64("failing"))
      }
    }
  }
}

/// SQL that renews a subscription. Another token has not been used yet.
private let renewal = """
  UPDATE registrations SET
    user_key = $2, token = $3, token_hash = $4, kind = $5, target = $6, app = $6, owner = $7, registered_at = $8,
    silent_urgency = $9, delivered_at = CASE WHEN token_hash = $4 AND kind = $5 THEN delivered_at END,
    environment = CASE WHEN token_hash = $4 AND kind = $5 THEN environment END,
    token_changed_at = CASE WHEN token_hash = $4 AND kind = $5 THEN token_changed_at ELSE $8 END,
    \(RegistrationReference.clearFailureAndHold)
  WHERE device_identifier = $1 AND id = $10
  """

private let insertion = """
  INSERT INTO registrations
    (wire, device_identifier, user_key, token, token_hash, kind, target, app, owner, registered_at, silent_urgency)
  VALUES (\(Wire.gateway.sql), $1, $2, $3, $4, $5, $6, $6, $7, $8, $9)
  """
