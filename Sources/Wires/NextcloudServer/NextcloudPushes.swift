import Foundation
import Registrations
package import SQL

/// Queue of pushes that no proxy has accepted yet, durable until one has or they expire.
package struct NextcloudPushes: Sendable {
  /// Maximum number of pushes queued for one phone; with the limit of app passwords per user this bounds the
  /// whole queue of a user.
  package static let maximumPerRegistration = 200

  private let database: any Database
  package let queue: LeasedQueue
  private let now: @Sendable () -> Date
  private let isClockTrusted: @Sendable () -> Bool

  /// - Parameter isClockTrusted: whether pushes may be treated as expired; false while the clock is in doubt.
  init(
    database: any Database, now: @escaping @Sendable () -> Date,
    isClockTrusted: @escaping @Sendable () -> Bool
  ) {
    self.database = database
    queue = LeasedQueue(
      "nextcloud_pushes",
      columns: "registration_id, registered_at, proxy_url, device_identifier, entry, nid",
      where: "proxy_url = $4 AND expires_at > $5", order: "due_at, id", database: database, now: now)
    self.now = now
    self.isClockTrusted = isClockTrusted
  }

  /// Queues pushes until they are due; they are durable when this returns.
  ///
  /// - Returns: the queued pushes. Left out are those of a phone that is gone, or that has
  ///   ``maximumPerRegistration`` already.
  func keep(_ pushes: [NextcloudPush], dueAt: Date, expiresAt: Date) async throws -> [NextcloudPush] {
    guard !pushes.isEmpty else { return [] }
    let now = now()
    return try await database.write { connection in
      try connection.keep(pushes, dueAt: dueAt, expiresAt: expiresAt, now: now)
    }
  }

  /// Removes the queued pushes of a user that deletions make obsolete, and queues the deletions in the same
  /// transaction, so that a promised push is never gone without its deletion.
  ///
  /// - Parameters:
  ///   - nids: the deleted notifications; nil if all are, which makes queued deletions obsolete too.
  ///   - deletions: pushes about to be sent; queued only if anything was removed.
  /// - Returns: the deletions, with their leases if they were queued.
  func supersede(
    _ nids: [Int64]?, of user: Int64, by deletions: [NextcloudPush], dueAt: Date, expiresAt: Date
  ) async throws -> [NextcloudPush] {
    let now = now()
    let all = """
      DELETE FROM nextcloud_pushes WHERE registration_id IN (
        SELECT id FROM nextcloud_registrations WHERE user_id = $1)
      """
    let which =
      nids.map { Statement("\(all) AND nid IN ($list)", .integer(user), list: $0.map { .integer($0) }) }
      ?? Statement(all, .integer(user))
    return try await database.write { connection in
      guard try connection.run(which) > 0 else { return deletions }
      let kept = try connection.keep(deletions, dueAt: dueAt, expiresAt: expiresAt, now: now)
      let leased = Dictionary(kept.map { ($0.entry, $0) }) { first, _ in first }
      return deletions.map { leased[$0.entry] ?? $0 }
    }
  }

  /// The proxies with due pushes.
  func dueProxies() async throws -> [String] {
    try await database.query(
      "SELECT DISTINCT proxy_url FROM nextcloud_pushes WHERE due_at <= $1 AND expires_at > $2",
      .integer(now().milliseconds), .integer(over.milliseconds)
    ).map { try $0.text("proxy_url") }
  }

  /// Leases due pushes for a proxy, in the order in which they were made.
  func lease(proxy: String, limit: Int, for seconds: TimeInterval) async throws -> [NextcloudPush] {
    try await queue.take(limit: limit, for: seconds, .text(proxy), .integer(over.milliseconds)).sorted {
      $0.lease.id < $1.lease.id
    }.map { try NextcloudPush(lease: $0.lease, row: $0.row) }
  }

  /// Removes expired pushes; returns how many.
  func removeExpired() async throws -> Int {
    try await database.run("DELETE FROM nextcloud_pushes WHERE expires_at <= $1", .integer(over.milliseconds))
  }

  /// Pushes that expire at or before this time are expired.
  private var over: Date { isClockTrusted() ? now() : .distantPast }
}

extension Connection {
  fileprivate func keep(
    _ pushes: [NextcloudPush], dueAt: Date, expiresAt: Date, now: Date
  ) throws -> [NextcloudPush] {
    try pushes.compactMap { push in
      let added = try query(
        """
        INSERT INTO nextcloud_pushes
          (registration_id, registered_at, proxy_url, device_identifier, entry, nid, created_at, due_at, expires_at,
           attempts)
        SELECT $1, $2, $3, $4, $5, CAST($6 AS BIGINT), $7, $8, $9, 1 FROM nextcloud_registrations r
        WHERE r.id = $1
          AND (SELECT COUNT(*) FROM nextcloud_pushes p WHERE p.registration_id = r.id) < $10
        RETURNING id
        """,
        .integer(push.registration), .integer(push.registeredAt.milliseconds), .text(push.proxy),
        .text(push.deviceIdentifier), .text(push.entry), .integer(push.nid),
        .integer(now.milliseconds), .integer(dueAt.milliseconds), .integer(expiresAt.milliseconds),
        .integer(Int64(NextcloudPushes.maximumPerRegistration)))
      guard let id = try added.first?.int64("id") else { return nil }
      var push = push
      push.lease = .init(id: id, attempts: 1, end: dueAt)
      return push
    }
  }
}

/// A push to one phone, encrypted and signed, on its way to the phone's proxy.
struct NextcloudPush: Sendable, Hashable {
  /// Row id of the phone's registration, and the time of its last renewal.
  let registration: Int64
  let registeredAt: Date
  /// SHA-512 that identifies the phone to proxies, in base64.
  let deviceIdentifier: String
  /// URL of the proxy, without final slashes.
  let proxy: String
  /// Number of the notification it announces; nil for a deletion.
  let nid: Int64?
  /// JSON as it is sent (`Documentation/Protocols/Nextcloud.md` 3.4).
  let entry: String
  /// Its lease in the queue, if it is queued.
  fileprivate(set) var lease: LeasedQueue.Lease?

  /// A push that is not queued yet.
  init(for registration: NextcloudRegistration, nid: Int64?, entry: String) {
    self.registration = registration.id
    registeredAt = registration.registeredAt
    deviceIdentifier = registration.description.deviceIdentifier
    proxy = registration.description.proxyURL
    self.nid = nid
    self.entry = entry
  }

  fileprivate init(lease: LeasedQueue.Lease, row: Row) throws {
    registration = try row.int64("registration_id")
    registeredAt = try row.date("registered_at")
    proxy = try row.text("proxy_url")
    deviceIdentifier = try row.text("device_identifier")
    entry = try row.text("entry")
    nid = try row.optionalInt64("nid")
    self.lease = lease
  }
}
