package import Foundation
package import SQL
package import Sealing

/// The chat servers with a second app, whose devices are registered with another bouncer (`upstream.url`). They use
/// the same id and key at both bouncers.
package struct UpstreamLinks: Sendable {
  package struct Link: Sendable, Hashable {
    /// Row id of the server.
    package let server: Int64
    /// What it signs in with there; nil until its next call here.
    package let key: String?
    /// Perhaps its key there instead: a change of keys was interrupted.
    package let nextKey: String?
    /// Its realms with their secrets as it last reported them, JSON.
    package let realms: String?
    package let enabledAt: Date
    /// When it last took a report.
    package let reportedAt: Date?
    /// Why it did not take a later one.
    package let failure: String?
    /// When it last refused to send for the server, as by its plan, to the hour; nil if it sends.
    package let refusedAt: Date?
    /// `nextKey` as it is stored: differs after every change of keys.
    fileprivate let change: Value
  }

  private static let columns =
    "server_id, org_key, next_key, realms, enabled_at, reported_at, failure, refused_at"

  package let database: any Database
  private let storageKey: StorageKey
  private let now: @Sendable () -> Date
  private let cache = ReadCache<Int64, Link?>(maximum: 10_000)

  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    (self.database, self.storageKey, self.now) = (database, storageKey, now)
  }

  /// A server's link, at most ``RemoteServers/propagation`` old; nil without one.
  package func link(of server: Int64) async throws -> Link? {
    if let link = cache[server] { return link }
    let readAt = ContinuousClock.now
    let row = try await database.lookUp(
      "SELECT \(Self.columns) FROM upstream_links WHERE server_id = $1", .integer(server)
    ).first
    let link = try row.map(self.link)
    cache.keep(link, for: server, readAt: readAt)
    return link
  }

  package func all() async throws -> [Link] {
    try await database.query("SELECT \(Self.columns) FROM upstream_links ORDER BY server_id").map(link)
  }

  private func link(_ row: Row) throws -> Link {
    let server = try row.int64(0)
    func open(_ index: Int, _ column: SealedColumn) throws -> String? {
      try row.optionalBytes(index).flatMap { storageKey.openText($0, at: column.place(.integer(server))) }
    }
    return Link(
      server: server, key: try open(1, .upstreamKey), nextKey: try open(2, .upstreamNextKey),
      realms: try open(3, .upstreamRealms), enabledAt: try row.date(4), reportedAt: try row.optionalDate(5),
      failure: try row.optionalText(6), refusedAt: try row.optionalDate(7), change: row.values[2])
  }

  private func sealed(_ text: String?, _ column: SealedColumn, _ server: Int64) -> Value {
    .bytes(text.map { storageKey.seal($0, at: column.place(.integer(server))) })
  }

  /// The hostname of a chat server; nil if it is not there any more.
  package func hostname(of server: Int64) async throws -> String? {
    try await database.query("SELECT hostname FROM remote_servers WHERE id = $1", .integer(server)).first?
      .text(0)
  }

  // MARK: On and off

  /// Switches a server's link on, or anew: then its key is forgotten, and old apps' tokens of Google's are tried here
  /// again before they are the other bouncer's. Registrations that ended when it was switched off live again, and what waits
  /// for it is tried at once.
  package func enable(_ server: Int64) async throws {
    defer { cache.clear() }
    let arguments: [Value] = [.integer(server), .integer(now().milliseconds)]
    try await database.write { connection in
      try connection.run(
        Statement(
          """
          INSERT INTO upstream_links (server_id, enabled_at, due_at, attempts) VALUES ($1, $2, $2, 0)
          ON CONFLICT (server_id) DO UPDATE SET org_key = NULL, next_key = NULL, enabled_at = $2, due_at = $2,
            attempts = 0, failure = NULL, refused_at = NULL,
            \(Reports.List.allCases.map { "\($0.given) = 0" }.joined(separator: ", "))
          """, arguments: arguments))
      try connection.run(Self.hastening(server, now()))
      try connection.run("UPDATE remote_servers SET strangers_at = NULL WHERE id = $1", .integer(server))
      try connection.run(Self.forgetLegacy, .integer(server))
      try connection.run(
        """
        UPDATE registrations SET ended_at = NULL, \(RegistrationReference.clearFailureAndHold)
        WHERE \(Self.encrypted) AND ended_at IS NOT NULL AND failure = '\(Self.disabled)'
        """, .integer(server))
    }
  }

  /// Switches a server's link off, forgets its key and ends what is registered through it.
  ///
  /// - Returns: how many registrations ended.
  package func disable(_ server: Int64) async throws -> Int {
    defer { cache.clear() }
    let now = now()
    return try await database.write { connection in
      try connection.run("DELETE FROM upstream_links WHERE server_id = $1", .integer(server))
      try connection.run("DELETE FROM upstream_unregistrations WHERE server_id = $1", .integer(server))
      // The operator has said that nobody else is to be asked: what is unknown is told at once.
      try connection.run("UPDATE remote_servers SET strangers_at = 0 WHERE id = $1", .integer(server))
      try connection.run(Self.forgetLegacy, .integer(server))
      return try connection.run(
        """
        UPDATE registrations SET ended_at = $2, failure = '\(Self.disabled)', failed_at = $2, failed_by = $1
        WHERE \(Self.encrypted) AND ended_at IS NULL
        """, .integer(server), .integer(now.milliseconds))
    }
  }

  private static let forgetLegacy =
    "UPDATE registrations SET upstream = NULL, delivered_at = NULL WHERE wire = 2 AND server_id = $1 AND upstream IS NOT NULL"
  private static let encrypted =
    "upstream IS NOT NULL AND token_id IS NOT NULL AND realm_id IN (SELECT id FROM remote_realms WHERE server_id = $1)"
  /// The reason of registrations that ended so; of ``Providers/Reason``.
  private static let disabled = "upstreamDisabled"

  /// How many live registrations of a server are the other bouncer's.
  package func count(of server: Int64) async throws -> (encrypted: Int64, legacy: Int64) {
    let row = try await database.query(
      """
      SELECT (SELECT COUNT(*) FROM registrations WHERE \(Self.encrypted) AND ended_at IS NULL),
        (SELECT COUNT(*) FROM registrations WHERE wire = 2 AND server_id = $1 AND upstream IS NOT NULL)
      """, .integer(server)
    ).returned
    return (try row.int64(0), try row.int64(1))
  }

  // MARK: Keys

  /// Keeps what a server signs in with, unless a key is kept already, and has tried at once what waits for it.
  package func keep(_ key: String, of server: Int64) async throws {
    try await update(
      server, "org_key = $2 WHERE server_id = $1 AND org_key IS NULL", sealed(key, .upstreamKey, server))
    _ = try await database.execute(Self.hastening(server, now()))
  }

  /// Makes due what waits because the other bouncer let nothing of a server in. What is just being tried again may then be
  /// tried by two: it was refused before.
  private static func hastening(_ server: Int64, _ now: Date) -> Statement {
    Statement(
      """
      UPDATE outbox SET due_at = $2
      WHERE due_at > $2 AND reason IN ('upstreamKeyMissing', 'upstreamKeyRefused', 'upstreamRealmRefused')
        AND route_id IN (SELECT id FROM outbox_routes WHERE provider = 'upstream' AND owner = $1)
      """, .integer(server << 2 | 1), .integer(now.milliseconds))
  }

  /// Records that the server is about to get this key there.
  ///
  /// - Parameter seconds: after which the call has ended that gives it.
  package func prepare(_ key: String, of server: Int64, within seconds: TimeInterval) async throws {
    try await update(
      server, "next_key = $2, due_at = $3, attempts = 0 WHERE server_id = $1",
      sealed(key, .upstreamNextKey, server), .integer((now() + seconds).milliseconds))
  }

  /// Records that the server has this key there.
  package func adopt(_ key: String, of server: Int64) async throws {
    try await update(
      server, "org_key = $2, next_key = NULL WHERE server_id = $1", sealed(key, .upstreamKey, server))
  }

  /// Records that a key that was prepared was refused, so that the server has the one before.
  package func withdraw(_ key: String, of server: Int64) async throws {
    guard let link = try await link(of: server), link.nextKey == key else { return }
    try await update(server, "next_key = NULL WHERE server_id = $1 AND next_key = $2", link.change)
  }

  /// Records that a link's key was taken, after a change that may have failed. Unless a report was due since then or the
  /// former key was refused, the call may still be on its way, and nothing is known.
  package func settle(_ link: Link) async throws {
    try await update(
      link.server, "next_key = NULL WHERE server_id = $1 AND next_key = $2 AND attempts > 0", link.change)
  }

  /// Records that a link's key was refused, so that the other one is tried.
  package func exchange(_ link: Link) async throws {
    try await update(
      link.server,
      """
      org_key = $2, next_key = $3, attempts = CASE attempts WHEN 0 THEN 1 ELSE attempts END
      WHERE server_id = $1 AND next_key = $4
      """,
      sealed(link.nextKey, .upstreamKey, link.server), sealed(link.key, .upstreamNextKey, link.server),
      link.change)
  }

  /// Keeps a server's realms, JSON, and has them reported.
  package func keep(realms: String?, of server: Int64) async throws {
    try await update(
      server,
      """
      realms = COALESCE($2, realms), due_at = CASE WHEN next_key IS NULL THEN $3 ELSE due_at END
      WHERE server_id = $1
      """,
      sealed(realms, .upstreamRealms, server), .integer(now().milliseconds))
  }

  private func update(_ server: Int64, _ change: String, _ values: Value...) async throws {
    defer { cache.clear() }
    _ = try await database.execute(
      Statement("UPDATE upstream_links SET \(change)", arguments: [.integer(server)] + values))
  }

  /// The value of `Authorization` of a server's calls there, and since when it is used; nil if its key is not known.
  package func signIn(of server: Int64) async -> (authorization: String, since: Date)? {
    guard let link = (try? await link(of: server)) ?? nil, let key = link.key,
      let row = try? await database.lookUp(
        "SELECT uuid FROM remote_servers WHERE id = $1", .integer(server)
      ).first, let uuid = try? row.text(0)
    else { return nil }
    return ("Basic " + Base64.encode("\(uuid):\(key)".utf8), link.enabledAt)
  }

  // MARK: Refusals

  /// Records that the other bouncer does not send for a server, as by its plan.
  ///
  /// - Returns: whether that was not recorded within the last hour.
  package func noteRefusal(of server: Int64) async throws -> Bool {
    defer { cache.clear() }
    let now = now()
    return try await !database.execute(
      Statement(
        """
        UPDATE upstream_links SET refused_at = $2 WHERE server_id = $1 AND (refused_at IS NULL OR refused_at <= $3)
        RETURNING server_id
        """, .integer(server), .integer(now.milliseconds), .integer((now - 3600).milliseconds))
    ).isEmpty
  }

  /// Records that it sends for the server.
  package func noteSent(for server: Int64) async throws {
    guard try await link(of: server)?.refusedAt != nil else { return }
    try await update(server, "refused_at = NULL WHERE server_id = $1")
  }

  // MARK: Devices that nobody knows

  /// Notes that a server without a second app has named devices that are not known here.
  ///
  /// - Returns: when it first did, and whether that is now.
  package func noteStrangers(of server: Int64) async throws -> (since: Date, isFirst: Bool) {
    let now = now()
    let row = try await database.lookUp(
      "SELECT strangers_at FROM remote_servers WHERE id = $1", .integer(server)
    ).first
    if let since = try row?.optionalDate(0) { return (since, false) }
    let noted = try await database.execute(
      Statement(
        "UPDATE remote_servers SET strangers_at = $2 WHERE id = $1 AND strangers_at IS NULL RETURNING id",
        .integer(server), .integer(now.milliseconds)))
    return (now, !noted.isEmpty)
  }

  /// The servers that did so within the last day: hostname, and since when.
  package func strangers() async throws -> [(server: String, since: Date)] {
    try await database.query(
      """
      SELECT hostname, strangers_at FROM remote_servers WHERE strangers_at >= $1 AND deactivated_at IS NULL
        AND id NOT IN (SELECT server_id FROM upstream_links) ORDER BY hostname_key
      """, .integer((now() - 86_400).milliseconds)
    ).map { (try $0.text(0), try $0.date(1)) }
  }

  /// What to do for a server that may have a second app.
  package static func adviceToEnable(_ hostname: String) -> String {
    "if it has the other app, say within the hour: push-bouncer server upstream enable \(hostname)"
  }

  // MARK: Work for later

  /// How many reports are passed on at once, and how many unregistrations.
  package static let (reportsAtOnce, unregistrationsAtOnce) = (8, 32)
  /// How many of those are of one server.
  private static let unregistrationsOfServer = 4

  /// The servers whose reports are to be passed on.
  package var reports: LeasedQueue {
    LeasedQueue(
      "upstream_links", key: "server_id", columns: "server_id",
      where: "org_key IS NOT NULL AND \(Self.isIdle(Self.reportsAtOnce))", database: database, now: now)
  }

  /// What the other bouncer is to be told of old apps' tokens that are no longer used.
  package var unregistrations: LeasedQueue {
    LeasedQueue(
      "upstream_unregistrations", columns: "server_id, user_id, user_uuid, kind, token_hash, form",
      where: Self.isIdle(Self.unregistrationsAtOnce), inTurnsOf: "server_id",
      share: Self.unregistrationsOfServer, database: database, now: now)
  }

  /// Of no server that is busy, of which there are so many at most.
  private static func isIdle(_ most: Int) -> String {
    "server_id NOT IN (\(Statement.placeholders(most, from: 4)))"
  }

  private static func busy(_ servers: Set<Int64>, most: Int) -> [Value] {
    servers.map(Value.integer) + Array(repeating: .integer(0), count: most - servers.count)
  }

  /// Takes servers whose reports are due, none that is busy.
  package func takeReports(
    _ limit: Int, besides busy: Set<Int64>, for seconds: TimeInterval
  ) async throws -> [(server: Int64, lease: LeasedQueue.Lease)] {
    try await reports.take(
      limit: limit, for: seconds, arguments: Self.busy(busy, most: Self.reportsAtOnce)
    ).map { (try $0.row.int64(0), $0.lease) }
  }

  /// The change of a server's link when the other bouncer has taken its reports up to these ids.
  package static let isGiven =
    Reports.List.allCases.enumerated().map { "\($1.given) = $\($0 + 5)" }.joined(separator: ", ")

  package struct Unregistration: Sendable {
    package let lease: LeasedQueue.Lease
    package let server: Int64
    /// Whether all tokens of the user are meant.
    package var isOfAll: Bool { token[0] == .null }
    /// The parameters of the call; nil if they do not open.
    package let form: [UInt8]?
    let user: [Value]
    let token: [Value]
  }

  /// Has the other bouncer told that a token, or (nil) all tokens of a user, are no longer to be used.
  package func unregister(
    _ token: PushToken?, of user: LegacyUser, server: Int64, form: [UInt8]
  ) async throws {
    let (names, hash) = (user.arguments(at: server), Value.integer(token.map(storageKey.tokenHash)))
    let sealed = storageKey.seal(form, at: SealedColumn.upstreamForm.place(names + [hash]))
    _ = try await database.execute(
      Statement(
        """
        INSERT INTO upstream_unregistrations
          (server_id, user_id, user_uuid, kind, token_hash, form, due_at, attempts)
        VALUES ($1, $2, $3, $4, $5, $6, $7, 0)
        """,
        arguments: names + [
          .integer(token?.kind.storage), hash, .bytes(sealed), .integer(now().milliseconds),
        ]))
  }

  /// Takes a few due unregistrations of each server that is not busy, servers in turn.
  package func takeUnregistrations(
    _ limit: Int, besides busy: Set<Int64>, for seconds: TimeInterval
  ) async throws -> [Unregistration] {
    try await unregistrations.take(
      limit: limit, for: seconds, arguments: Self.busy(busy, most: Self.unregistrationsAtOnce)
    ).map { lease, row in
      let server = try row.int64(0)
      let place = SealedColumn.upstreamForm.place(Array(row.values[0...2]) + [row.values[4]])
      return Unregistration(
        lease: lease, server: server, form: storageKey.open(try row.bytes(5), at: place),
        user: Array(row.values[1...2]), token: Array(row.values[3...4]))
    }
  }

  /// Ends a job. What was registered again meanwhile is told again, with its next notification: nobody knows which
  /// call came first.
  package func finish(_ job: Unregistration) async throws {
    let removal = unregistrations.removal(of: job.lease)
    try await database.write { connection in
      try connection.run(
        Statement(
          """
          UPDATE registrations SET upstream = 0
          WHERE wire = 2 AND upstream = 1 AND \(RegistrationStore.ofUser)
            \(job.isOfAll ? "" : "AND kind = $4 AND token_hash = $5")
          """, arguments: [.integer(job.server)] + job.user + (job.isOfAll ? [] : job.token)))
      try connection.run(removal)
    }
  }
}
