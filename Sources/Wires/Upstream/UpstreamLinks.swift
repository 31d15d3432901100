package import Foundation
internal import HTTPClient
package import Providers
package import Registrations
package import SQL
package import Sealing

/// The chat servers that have an upstream link: devices of theirs are registered with the upstream bouncer
/// (`upstream.url`). They use the same id and key at both bouncers.
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

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date
  private let cache = ReadCache<Int64, Link?>(maximum: 10_000)

  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
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
    let server = try row.int64("server_id")
    func open(_ column: SealedColumn) throws -> String? {
      try row.optionalBytes(column.name).flatMap {
        storageKey.openText($0, at: column.place(.integer(server)))
      }
    }
    return Link(
      server: server, key: try open(.upstreamKey), nextKey: try open(.upstreamNextKey),
      realms: try open(.upstreamRealms), enabledAt: try row.date("enabled_at"),
      reportedAt: try row.optionalDate("reported_at"), failure: try row.optionalText("failure"),
      refusedAt: try row.optionalDate("refused_at"), change: try row.value("next_key"))
  }

  private func sealed(_ text: String?, _ column: SealedColumn, _ server: Int64) -> Value {
    .bytes(text.map { storageKey.seal($0, at: column.place(.integer(server))) })
  }

  /// The hostname of a chat server; nil if it is not there any more.
  package func hostname(of server: Int64) async throws -> String? {
    try await database.query("SELECT hostname FROM remote_servers WHERE id = $1", .integer(server)).first?
      .text("hostname")
  }

  // MARK: On and off

  /// Switches a server's link on, or anew: then its key is forgotten, and old apps' FCM tokens are tried here again
  /// before they are passed on. Registrations that ended when it was switched off live again, and what waits for the
  /// upstream bouncer is tried at once.
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
    "UPDATE registrations SET elsewhere = NULL, delivered_at = NULL WHERE wire = 2 AND server_id = $1 AND elsewhere IS NOT NULL"
  private static let encrypted =
    "elsewhere IS NOT NULL AND token_id IS NOT NULL AND realm_id IN (SELECT id FROM remote_realms WHERE server_id = $1)"
  /// The reason of registrations that ended so.
  private static let disabled = Reason.upstreamDisabled

  /// How many live registrations of a server are upstream.
  package func count(of server: Int64) async throws -> (encrypted: Int64, legacy: Int64) {
    let row = try await database.query(
      """
      SELECT (SELECT COUNT(*) FROM registrations WHERE \(Self.encrypted) AND ended_at IS NULL) AS encrypted,
        (SELECT COUNT(*) FROM registrations WHERE wire = 2 AND server_id = $1 AND elsewhere IS NOT NULL) AS legacy
      """, .integer(server)
    ).returned
    return (try row.int64("encrypted"), try row.int64("legacy"))
  }

  // MARK: Keys

  /// Keeps what a server signs in with, unless a key is kept already, and has tried at once what waits for it.
  package func keep(_ key: String, of server: Int64) async throws {
    try await update(
      server, "org_key = $2 WHERE server_id = $1 AND org_key IS NULL", sealed(key, .upstreamKey, server))
    _ = try await database.execute(Self.hastening(server, now()))
  }

  /// Makes due what waits because the upstream bouncer let nothing of a server in. What is just being tried again may
  /// then be tried by two: it was refused before.
  private static func hastening(_ server: Int64, _ now: Date) -> Statement {
    Statement(
      """
      UPDATE outbox SET due_at = $2
      WHERE due_at > $2 AND reason IN ('upstreamKeyMissing', 'upstreamKeyRefused', 'upstreamRealmRefused')
        AND route_id IN (SELECT id FROM outbox_routes WHERE provider = 'upstream' AND owner = $1)
      """, .integer(Owner.chatServer(server).id), .integer(now.milliseconds))
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
  private func signIn(of server: Int64) async -> (authorization: String, since: Date)? {
    guard let link = (try? await link(of: server)) ?? nil, let key = link.key,
      let row = try? await database.lookUp(
        "SELECT uuid FROM remote_servers WHERE id = $1", .integer(server)
      ).first, let uuid = try? row.text("uuid")
    else { return nil }
    return ("Basic " + Base64.encode("\(uuid):\(key)".utf8), link.enabledAt)
  }

  /// The upstream bouncer as a provider; nil without an address.
  package func provider(at url: URL?) -> PushProviders.Configuration.Upstream? {
    guard let url else { return nil }
    return .init(url: url) { owner in
      guard let server = owner.chatServer else { return nil }
      return await signIn(of: server).map { .init($0.authorization, since: $0.since) }
    }
  }

  // MARK: Refusals

  /// Records that the upstream bouncer does not send for a server, as by its plan.
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

  /// Notes that a server without a link has named devices that are not known here.
  ///
  /// - Returns: when it first did, and whether that is now.
  package func noteStrangers(of server: Int64) async throws -> (since: Date, isFirst: Bool) {
    let now = now()
    let row = try await database.lookUp(
      "SELECT strangers_at FROM remote_servers WHERE id = $1", .integer(server)
    ).first
    if let since = try row?.optionalDate("strangers_at") { return (since, false) }
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
    ).map { (try $0.text("hostname"), try $0.date("strangers_at")) }
  }

  /// What to do for a server that may need a link.
  package static func adviceToEnable(_ hostname: String) -> String {
    "if the upstream bouncer serves it too, run within the hour: push-bouncer server upstream enable \(hostname)"
  }

  // MARK: Registrations

  /// Moves old apps' registrations upstream, if their servers have a link. One that was ever reached from here stays: its
  /// token is of this service's project, whatever a wrong key has a provider say now.
  ///
  /// - Returns: those that are upstream now.
  package func takeOver(_ foreign: [RegistrationReference]) async throws -> Set<RegistrationReference> {
    try await database.write { connection in
      try Set(
        foreign.sorted { $0.id < $1.id }.filter { registration in
          try connection.run(
            Statement(
              """
              UPDATE registrations SET elsewhere = COALESCE(elsewhere, 0)
              WHERE id = $1 AND registered_at = $2 AND (delivered_at IS NULL OR elsewhere IS NOT NULL)
                AND server_id IN (SELECT server_id FROM upstream_links)
              """, arguments: registration.arguments)) > 0
        })
    }
  }

  /// Records that the upstream bouncer has these registrations.
  package func confirm(_ ids: [Int64]) async throws {
    try await database.run(
      "UPDATE registrations SET elsewhere = 1 WHERE id IN ($list)", list: ids.map { .integer($0) })
  }
}
