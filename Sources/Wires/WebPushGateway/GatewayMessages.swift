internal import Foundation
internal import HTTP
internal import HTTPClient
internal import NIOCore
internal import Registrations
internal import SQL
internal import Sealing
internal import Synchronization

/// Bodies that did not fit into a push: they wait, sealed, until the app fetches them or their time is over.
final class GatewayMessages: Sendable {
  /// Maximum number that wait for one subscription.
  private static let perSubscription: Int64 = 100
  /// Seconds for which a body waits longer than its TTL, and after it was fetched: the push may have come at the last moment,
  /// and an app may fetch it again.
  private static let grace: TimeInterval = 300
  /// Maximum number of all, which owners share: 400 MB.
  private static let limit = 100_000

  private let database: any Database
  private let storageKey: StorageKey
  private let now: @Sendable () -> Date
  private let isClockTrusted: @Sendable () -> Bool
  /// How many wait by owner, as of the last count, and what this process has kept since.
  private let waiting = Mutex<[Owner: Int]>([:])

  /// - Parameter isClockTrusted: whether the time of a body may be over; false while the clock is in doubt.
  init(
    database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date,
    isClockTrusted: @escaping @Sendable () -> Bool = { true }
  ) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
    self.isClockTrusted = isClockTrusted
  }

  /// Keeps a body. May be repeated: the database's answer may have been lost.
  ///
  /// - Throws: 429 if too many wait for the subscription, 503 if there is no room for the owner.
  func keep(_ message: GatewayMessage, for subscription: GatewaySubscription, of owner: Owner) async throws {
    guard let encryption = message.encryption else { return }
    let place = SealedColumn.gatewayBody.place(.bytes(message.id.bytes))
    let values: [Value] = [
      .bytes(message.id.bytes), .integer(subscription.reference.id), .integer(owner.id),
      .text(encryption.encoding), .text(encryption.cryptoKey), .text(encryption.encryption),
      .bytes(storageKey.seal(Array(message.body.readableBytesView), at: place)),
      .integer((now() + TimeInterval(message.timeToLive) + Self.grace).milliseconds),
    ]
    // Those that were fetched end soon.
    let soon = (now() + Self.grace).milliseconds
    let hasRoom = waiting.withLock {
      FairShare.allows(own: $0[owner] ?? 0, total: $0.values.reduce(0, +), limit: Self.limit)
    }
    guard hasRoom else { throw APIError.tryAgainLater }
    try await database.write { connection in
      let count = try connection.query(
        """
        SELECT COUNT(*) AS count FROM gateway_messages
        WHERE registration_id = $1 AND expires_at > $2 AND id <> $3
        """, .integer(subscription.reference.id), .integer(soon), .bytes(message.id.bytes)
      )[0].int64("count")  // COUNT gives one row.
      guard count < Self.perSubscription else { throw APIError.tooManyMessages }
      try connection.run(
        Statement(
          """
          INSERT INTO gateway_messages
            (id, registration_id, owner, encoding, crypto_key, encryption, body, expires_at)
          VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING
          """, arguments: values))
    }
    waiting.withLock { $0[owner, default: 0] += 1 }
  }

  /// Removes a body whose push was refused.
  func remove(_ id: GatewayID) async throws {
    try await database.execute("DELETE FROM gateway_messages WHERE id = $1", .bytes(id.bytes))
  }

  /// The body that waits for a subscription; nil if there is none, or its time is over.
  func find(_ id: GatewayID) async throws -> (
    GatewayMessage.Encryption, body: [UInt8], subscription: GatewayID
  )? {
    let row = try await database.query(
      """
      SELECT m.encoding, m.crypto_key, m.encryption, m.body, r.device_identifier FROM gateway_messages m
        JOIN registrations r ON r.id = m.registration_id
      WHERE m.id = $1 AND m.expires_at > $2
      """, .bytes(id.bytes), .integer(isClockTrusted() ? now().milliseconds : 0)
    ).first
    guard let row, let subscription = GatewayID(try row.bytes("device_identifier")),
      let body = storageKey.open(
        try row.bytes("body"), at: SealedColumn.gatewayBody.place(.bytes(id.bytes)))
    else { return nil }
    return (
      .init(
        encoding: try row.text("encoding"), cryptoKey: try row.optionalText("crypto_key"),
        encryption: try row.optionalText("encryption")), body, subscription
    )
  }

  /// Ends a body soon, as its app has fetched it.
  func end(_ id: GatewayID) async throws {
    try await database.execute(
      "UPDATE gateway_messages SET expires_at = $2 WHERE id = $1 AND expires_at > $2", .bytes(id.bytes),
      .integer((now() + Self.grace).milliseconds))
  }

  /// Removes those whose time is over.
  ///
  /// - Returns: how many were removed, at most `limit`.
  func removeExpired(limit: Int) async throws -> Int {
    let removed = try await database.execute(
      """
      DELETE FROM gateway_messages WHERE id IN (
        SELECT id FROM gateway_messages WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)
      RETURNING id
      """, .integer(now().milliseconds), .integer(Int64(limit)))
    _ = try await count()
    return removed.count
  }

  /// Counts those that wait.
  func count() async throws -> Int {
    let rows = try await database.query(
      Statement("SELECT owner, COUNT(*) AS count FROM gateway_messages GROUP BY owner"))
    let counts = Dictionary(
      try rows.map { (Owner(id: try $0.int64("owner")), Int(try $0.int64("count"))) }
    ) { $1 }
    waiting.withLock { $0 = counts }
    return counts.values.reduce(0, +)
  }
}
