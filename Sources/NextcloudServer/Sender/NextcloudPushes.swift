internal import Foundation
internal import Registrations
internal import SQL

/// Pushes that no proxy has taken yet, durable until one has or their time is over.
package struct NextcloudPushes: Sendable {
  /// How many wait for one phone; with the number of a user's app passwords this bounds them all.
  package static let maximumPerRegistration = 200

  private let database: any Database
  private let queue: LeasedQueue
  private let now: @Sendable () -> Date
  private let mayExpire: @Sendable () -> Bool

  /// - Parameter mayExpire: whether anything may be taken as expired now: not while the clock is doubted.
  init(
    database: any Database, now: @escaping @Sendable () -> Date, mayExpire: @escaping @Sendable () -> Bool
  ) {
    self.database = database
    queue = LeasedQueue(
      "nextcloud_pushes",
      columns: "registration_id, registered_at, proxy_url, device_identifier, entry, nid",
      where: "proxy_url = $4 AND expires_at > $5", order: "due_at, id", database: database, now: now)
    self.now = now
    self.mayExpire = mayExpire
  }

  /// Keeps pushes, which are durable when this returns, until they are due.
  ///
  /// - Returns: those that are kept. One of a phone that is gone is not, nor one of a phone for which
  ///   ``maximumPerRegistration`` wait.
  func keep(_ pushes: [NextcloudPush], dueAt: Date, expiresAt: Date) async throws -> [NextcloudPush] {
    guard !pushes.isEmpty else { return [] }
    let now = now()
    return try await database.write { connection in
      try connection.keep(pushes, dueAt: dueAt, expiresAt: expiresAt, now: now)
    }
  }

  /// Drops the pushes of a user that deletions make idle, and keeps the deletions in their place: what was
  /// promised is at no moment gone without what follows it.
  ///
  /// - Parameters:
  ///   - nids: whose notifications go; nil if all do, which makes other deletions idle too.
  ///   - deletions: what is about to be sent, kept only if anything was dropped.
  /// - Returns: the deletions, with their leases if they have any.
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

  /// The proxies that pushes are due for.
  func dueProxies() async throws -> [String] {
    let statement = Statement(
      "SELECT DISTINCT proxy_url FROM nextcloud_pushes WHERE due_at <= $1 AND expires_at > $2",
      .integer(now().milliseconds), .integer(over.milliseconds))
    return try await database.query(statement).map { try $0.text(0) }
  }

  /// Takes pushes for a proxy that are due, in the order in which they were made.
  func lease(proxy: String, limit: Int, for seconds: TimeInterval) async throws -> [NextcloudPush] {
    try await queue.take(limit: limit, for: seconds, .text(proxy), .integer(over.milliseconds)).sorted {
      $0.lease.id < $1.lease.id
    }.map { try NextcloudPush(lease: $0.lease, row: $0.row) }
  }

  /// A proxy has answered about these: they are done with, whoever has them.
  func finish(_ pushes: [NextcloudPush]) async throws {
    try await queue.finish(pushes.compactMap(\.lease))
  }

  /// Tries again at this time.
  func postpone(_ pushes: [NextcloudPush], until date: Date) async throws {
    try await queue.postpone(pushes.compactMap(\.lease), until: date)
  }

  /// Gives up what no proxy has taken in time; returns how many.
  func removeExpired() async throws -> Int {
    let statement = Statement(
      "DELETE FROM nextcloud_pushes WHERE expires_at <= $1", .integer(over.milliseconds))
    return try await database.write { try $0.run(statement) }
  }

  /// Makes due what a wrong clock has put off.
  ///
  /// - Parameter isTimeSetBack: as ``LeasedQueue`` has it.
  package func bringForward(isTimeSetBack: Bool = false) async throws {
    try await queue.bringForward(isTimeSetBack: isTimeSetBack)
  }

  /// What ends then or before is over.
  private var over: Date { mayExpire() ? now() : .distantPast }

  /// How many wait.
  package func count() async throws -> Int64 { try await queue.count() }
}

extension Connection {
  fileprivate func keep(
    _ pushes: [NextcloudPush], dueAt: Date, expiresAt: Date, now: Date
  ) throws -> [NextcloudPush] {
    var room: [Int64: Int] = [:]
    let rows = try query(
      Statement(
        """
        SELECT r.id, (SELECT COUNT(*) FROM nextcloud_pushes p WHERE p.registration_id = r.id)
        FROM nextcloud_registrations r WHERE r.id IN ($list)
        """, list: Set(pushes.map(\.registration)).map { .integer($0) }))
    for row in rows {
      room[try row.int64(0)] = NextcloudPushes.maximumPerRegistration - Int(try row.int64(1))
    }
    var kept: [NextcloudPush] = []
    for push in pushes {
      guard let left = room[push.registration], left > 0 else { continue }
      room[push.registration] = left - 1
      kept.append(try insert(push, dueAt: dueAt, expiresAt: expiresAt, now: now))
    }
    return kept
  }

  private func insert(
    _ push: NextcloudPush, dueAt: Date, expiresAt: Date, now: Date
  ) throws -> NextcloudPush {
    let rows = try query(
      Statement(
        """
        INSERT INTO nextcloud_pushes
          (registration_id, registered_at, proxy_url, device_identifier, entry, nid, created_at, due_at, expires_at,
           attempts)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1)
        RETURNING id
        """,
        .integer(push.registration), .integer(push.registeredAt.milliseconds), .text(push.proxy),
        .text(push.deviceIdentifier), .text(push.entry), .integer(push.nid),
        .integer(now.milliseconds), .integer(dueAt.milliseconds), .integer(expiresAt.milliseconds)))
    guard let id = try rows.first?.int64(0) else {
      throw DatabaseError(.other, "an insertion returned no row")
    }
    var push = push
    push.lease = .init(id: id, attempts: 1, end: dueAt)
    return push
  }
}

/// A push to one phone, made and signed, on its way to the phone's proxy.
struct NextcloudPush: Sendable, Hashable {
  /// The row of the phone's registration, and when that had last been registered.
  let registration: Int64
  let registeredAt: Date
  /// As proxies know the phone.
  let deviceIdentifier: String
  /// The proxy, without slashes at its end.
  let proxy: String
  /// The number of the notification that it tells of; nil if it takes some back.
  let nid: Int64?
  /// JSON as it goes over the wire (`Documentation/Protocols/Nextcloud.md` 3.4).
  let entry: String
  /// Under which it waits in the database, if it does.
  fileprivate(set) var lease: LeasedQueue.Lease?

  /// A push that is kept nowhere yet.
  init(for registration: NextcloudRegistration, nid: Int64?, entry: String) {
    self.registration = registration.id
    registeredAt = registration.registeredAt
    deviceIdentifier = registration.description.deviceIdentifier
    proxy = registration.description.proxyURL
    self.nid = nid
    self.entry = entry
  }

  fileprivate init(lease: LeasedQueue.Lease, row: Row) throws {
    registration = try row.int64(0)
    registeredAt = try row.date(1)
    proxy = try row.text(2)
    deviceIdentifier = try row.text(3)
    entry = try row.text(4)
    nid = try row.optionalInt64(5)
    self.lease = lease
  }
}
