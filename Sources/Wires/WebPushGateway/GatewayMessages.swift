import Basics
import Foundation
import HTTP
import HTTPClient
import NIOCore
import Registrations
import SQL
import Sealing
import Synchronization

/// Bodies that did not fit into a push: they wait, sealed, until the app fetches them or their time is over. They belong to
/// the subscription, whatever becomes of its token.
final class GatewayMessages: Sendable {
  /// Maximum number that wait for one subscription; then the oldest gives way.
  static let perSubscription = 100
  /// Seconds for which a body waits longer than its TTL, and after it was fetched: the push may have come at the last moment,
  /// and an app may fetch it again.
  private static let grace: TimeInterval = 300
  /// Maximum number of all, which owners share: 400 MB.
  private static let limit = 100_000

  private let database: any Database
  private let storageKey: StorageKey
  private let now: @Sendable () -> Date
  private let isClockTrusted: @Sendable () -> Bool
  /// How many wait by owner, as of the last count, and what this process has kept and removed since.
  private let waiting = Mutex(SharedBudget<Owner>(limit))

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
  /// - Parameters:
  ///   - topic: the name of its topic.
  ///   - owner: whose share of the room it takes.
  ///   - sender: stands for who sent it.
  /// - Throws: 503 if there is no room for the owner.
  func keep(
    _ message: GatewayMessage, topic: GatewayName?, for subscription: GatewaySubscription, of owner: Owner,
    from sender: Int64
  ) async throws {
    guard let encryption = message.encryption else { return }
    guard waiting.withLock({ $0.refusal(to: owner) }) == nil else { throw APIError.tryAgainLater }
    let place = SealedColumn.gatewayBody.place(.bytes(message.id.bytes))
    let insert = Statement(
      """
      INSERT INTO gateway_messages
        (id, registration_id, owner, encoding, crypto_key, encryption, body, expires_at, subscription, sender, topic,
          number)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, (
        SELECT COALESCE(MAX(number), 0) + 1 FROM gateway_messages WHERE subscription = $9))
      ON CONFLICT DO NOTHING RETURNING id
      """,
      arguments: [
        .bytes(message.id.bytes), .integer(subscription.reference.id), .integer(owner.id),
        .text(encryption.encoding), .text(encryption.cryptoKey), .text(encryption.encryption),
        .bytes(storageKey.seal(Array(message.body.readableBytesView), at: place)),
        .integer((now() + TimeInterval(message.timeToLive) + Self.grace).milliseconds),
        .bytes(subscription.id.bytes), .integer(sender), .bytes(topic?.bytes),
      ])
    // Another message that comes at the same time may have got the number.
    while try await database.execute(insert).isEmpty {
      guard
        try await database.query(
          "SELECT 1 AS one FROM gateway_messages WHERE id = $1", .bytes(message.id.bytes)
        ).isEmpty
      else { break }
    }
    waiting.withLock { $0.add(of: owner) }
  }

  /// A body that waits, without the body.
  struct Entry: Sendable, Hashable {
    let id: GatewayID
    let encoding: String
    /// When its TTL is over.
    let expiresAt: Date
    let owner: Owner
    let sender: Int64
    let topic: GatewayName?
    /// Whether it was fetched, or its TTL is over.
    let isOver: Bool
  }

  /// The bodies of a subscription, oldest first.
  func entries(of subscription: GatewayID) async throws -> [Entry] {
    let over = isClockTrusted() ? (now() + Self.grace).milliseconds : 0
    return try await database.query(
      """
      SELECT id, encoding, expires_at, owner, COALESCE(sender, 0) AS sender, topic FROM gateway_messages
      WHERE subscription = $1 ORDER BY COALESCE(number, 0)
      """, .bytes(subscription.bytes)
    ).compactMap { row in
      guard let id = GatewayID(try row.bytes("id")) else { return nil }
      return Entry(
        id: id, encoding: try row.text("encoding"), expiresAt: try row.date("expires_at") - Self.grace,
        owner: Owner(id: try row.int64("owner")),
        sender: try row.int64("sender"), topic: try row.optionalBytes("topic").flatMap(GatewayName.init),
        isOver: try row.int64("expires_at") <= over)
    }
  }

  /// The bodies that a message makes worthless once it is promised. Of messages that come at the same time, the one that was
  /// kept last counts as the newest.
  ///
  /// - Parameter isKept: whether its own body waits, too.
  func replaced(
    by message: GatewayMessage, topic: GatewayName?, for subscription: GatewayID, isKept: Bool
  ) async throws -> [Entry] {
    let entries = try await entries(of: subscription)
    guard isKept else { return Self.replaced(entries, topic: topic, sender: nil) }
    // Without its own, a newer one has replaced it, and all that are older.
    guard let own = entries.firstIndex(where: { $0.id == message.id }) else { return [] }
    return Self.replaced(Array(entries[..<own]), topic: topic, sender: entries[own].sender)
  }

  /// Of older bodies those that a message makes worthless: those of its topic; and, if its own is to wait and as many as may
  /// wait do, the oldest of what is over, else of the sender that has most.
  ///
  /// - Parameters:
  ///   - entries: oldest first.
  ///   - sender: nil if the message's own body does not wait.
  static func replaced(_ entries: [Entry], topic: GatewayName?, sender: Int64?) -> [Entry] {
    var (replaced, rest) = ([Entry](), [Entry]())
    for entry in entries {
      if topic != nil && entry.topic == topic { replaced.append(entry) } else { rest.append(entry) }
    }
    guard let sender else { return replaced }
    while rest.count >= perSubscription {
      let counts = rest.reduce(into: [sender: 1]) { $0[$1.sender, default: 0] += 1 }
      let most = counts.values.max()
      let index = rest.firstIndex(where: \.isOver) ?? rest.firstIndex { counts[$0.sender] == most } ?? 0
      replaced.append(rest.remove(at: index))
    }
    return replaced
  }

  /// Removes bodies that a newer message has made worthless, or whose push was refused.
  func remove(_ ids: [(id: GatewayID, owner: Owner)]) async throws {
    guard !ids.isEmpty else { return }
    _ = try await database.execute(
      Statement("DELETE FROM gateway_messages WHERE id IN ($list)", list: ids.map { .bytes($0.id.bytes) }))
    waiting.withLock { waiting in for (_, owner) in ids { waiting.release(of: owner) } }
  }

  /// Removes the body of a message, or of all messages of a topic, that waits for a subscription.
  func remove(_ name: GatewayName, of subscription: GatewayID) async throws {
    _ = try await database.execute(
      "DELETE FROM gateway_messages WHERE subscription = $1 AND (id = $2 OR topic = $2)",
      .bytes(subscription.bytes), .bytes(name.bytes))
  }

  /// A body that waits for a subscription.
  struct Body: Sendable {
    let subscription: GatewayID
    /// The row of the registration that its push was for.
    let registration: Int64
    let encryption: GatewayMessage.Encryption
    let bytes: [UInt8]
    let hasTopic: Bool
  }

  /// Nil if there is none, or its time is over.
  func find(_ id: GatewayID) async throws -> Body? {
    // What an older program has kept is found by its registration.
    let row = try await database.query(
      """
      SELECT m.registration_id, m.encoding, m.crypto_key, m.encryption, m.body, m.topic,
        COALESCE(m.subscription, r.device_identifier) AS subscription
      FROM gateway_messages m LEFT JOIN registrations r ON r.id = m.registration_id AND m.subscription IS NULL
      WHERE m.id = $1 AND m.expires_at > $2
      """, .bytes(id.bytes), .integer(isClockTrusted() ? now().milliseconds : 0)
    ).first
    guard let row, let subscription = try row.optionalBytes("subscription").flatMap(GatewayID.init),
      let bytes = storageKey.open(
        try row.bytes("body"), at: SealedColumn.gatewayBody.place(.bytes(id.bytes)))
    else { return nil }
    return Body(
      subscription: subscription, registration: try row.int64("registration_id"),
      encryption: .init(
        encoding: try row.text("encoding"), cryptoKey: try row.optionalText("crypto_key"),
        encryption: try row.optionalText("encryption")), bytes: bytes,
      hasTopic: try row.optionalBytes("topic") != nil)
  }

  /// Ends a body soon, as its app has fetched it.
  func end(_ id: GatewayID) async throws {
    _ = try await database.execute(
      "UPDATE gateway_messages SET expires_at = $2 WHERE id = $1 AND expires_at > $2", .bytes(id.bytes),
      .integer((now() + Self.grace).milliseconds))
  }

  /// Removes those whose time is over, and says of those that an older program has kept whose they are.
  ///
  /// - Returns: how many were removed, at most `limit`.
  func removeExpired(limit: Int) async throws -> Int {
    let removed = try await database.execute(
      """
      DELETE FROM gateway_messages WHERE id IN (
        SELECT id FROM gateway_messages WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)
      RETURNING id
      """, .integer(now().milliseconds), .integer(Int64(limit)))
    _ = try await database.execute(
      """
      UPDATE gateway_messages SET subscription = (
        SELECT device_identifier FROM registrations r WHERE r.id = gateway_messages.registration_id)
      WHERE id IN (
        SELECT m.id FROM gateway_messages m JOIN registrations r ON r.id = m.registration_id
        WHERE m.subscription IS NULL LIMIT $1)
      """, .integer(Int64(limit)))
    _ = try await count()
    return removed.count
  }

  /// Counts those that wait.
  func count() async throws -> Int {
    let rows = try await database.query(
      Statement("SELECT owner, COUNT(*) AS count FROM gateway_messages GROUP BY owner"))
    var counted = SharedBudget<Owner>(Self.limit)
    for row in rows { counted.add(Int(try row.int64("count")), of: Owner(id: try row.int64("owner"))) }
    waiting.withLock { [counted] in $0 = counted }
    return counted.total
  }
}
