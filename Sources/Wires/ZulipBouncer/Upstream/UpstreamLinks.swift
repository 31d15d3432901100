import Basics
package import Foundation
import HTTP
import HTTPClient
package import Providers
package import Registrations
package import SQL
package import Sealing

/// The upstream links of chat servers. A server with a link has devices that are registered with the upstream bouncer
/// (`upstream.url`), and uses the same id and key at both bouncers.
package struct UpstreamLinks: Sendable {
  /// A chat server's link. "There" is at the upstream bouncer.
  package struct Link: Sendable, Hashable {
    /// Row id of the server.
    package let server: Int64
    /// The key with which the server signs in there; nil until its next call here.
    package let key: String?
    /// The key that it may have there instead, because a change of keys was interrupted.
    package let nextKey: String?
    /// Its realms with their secrets, as it last reported them, in JSON; or a form with them and with parameters of its report
    /// that are not known here.
    package let realms: String?
    package let enabledAt: Date
    /// The time at which the upstream bouncer last accepted a report.
    package let reportedAt: Date?
    /// The reason why it did not accept a later report.
    package let failure: String?
    /// The time, to the hour, at which it last refused to send for the server, for example because of the server's plan;
    /// nil if it sends.
    package let refusedAt: Date?
    /// `nextKey` as it is stored, which differs after every change of keys.
    let change: Value

    /// What is passed on of its last report besides rows and versions: its realms as JSON, and parameters that are not known
    /// here.
    package var reported: [(String, String)] {
      guard let realms else { return [] }
      if realms.hasPrefix("[") { return [("realms", realms)] }
      return (Form.parse(Array(realms.utf8)) ?? []).map { ($0.name.text, $0.value) }
    }
  }

  private static let columns =
    "server_id, org_key, next_key, realms, enabled_at, reported_at, failure, refused_at"

  private static let select = "SELECT \(columns) FROM upstream_links WHERE server_id = $1"

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
    let link = try await database.lookUp(Self.select, .integer(server)).first.map(self.link)
    cache.keep(link, for: server, readAt: readAt)
    return link
  }

  /// All links.
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

  func sealed(_ text: String?, _ column: SealedColumn, _ server: Int64) -> Value {
    .bytes(text.map { storageKey.seal($0, at: column.place(.integer(server))) })
  }

  /// The hostname of a chat server; nil if it is not there any more.
  package func hostname(of server: Int64) async throws -> String? {
    try await database.query("SELECT hostname FROM remote_servers WHERE id = $1", .integer(server)).first?
      .text("hostname")
  }

  // MARK: Switching on and off

  /// Switches a server's link on. If it was on, its key is that of its next call or, if that is refused, the one that it had;
  /// where two keys are in question already, they stay so. Old apps' FCM tokens are tried here again before they are passed on. Registrations that ended when the link was switched off become valid again. What waits for the
  /// upstream bouncer is tried once the server's next call brings its key.
  package func enable(_ server: Int64) async throws {
    defer { cache.clear() }
    let now = now()
    try await database.write { [self] connection in
      let former = try connection.query(Self.select, .integer(server)).first.map(link)
      let arguments: [Value] = [
        .integer(server), .integer(now.milliseconds), sealed(former?.key, .upstreamNextKey, server),
      ]
      try connection.run(
        Statement(
          """
          INSERT INTO upstream_links (server_id, enabled_at, due_at, attempts) VALUES ($1, $2, $2, 0)
          ON CONFLICT (server_id) DO UPDATE SET enabled_at = $2, failure = NULL, refused_at = NULL,
            org_key = CASE WHEN upstream_links.next_key IS NULL THEN NULL ELSE upstream_links.org_key END,
            due_at = CASE WHEN upstream_links.next_key IS NULL THEN $2 ELSE upstream_links.due_at END,
            attempts = CASE WHEN upstream_links.next_key IS NULL THEN 1 ELSE upstream_links.attempts END,
            next_key = COALESCE(upstream_links.next_key, $3),
            \(Reports.List.allCases.map { "\($0.acceptedColumn) = 0" }.joined(separator: ", "))
          """, arguments: arguments))
      try connection.run("UPDATE remote_servers SET unknown_named_at = NULL WHERE id = $1", .integer(server))
      try connection.run(Self.forgetLegacy, .integer(server))
      try connection.run(
        """
        UPDATE registrations SET ended_at = NULL, \(RegistrationReference.clearFailureAndHold)
        WHERE \(Self.encrypted) AND ended_at IS NOT NULL AND failure = '\(Self.disabled)'
        """, .integer(server))
    }
  }

  /// Switches a server's link off, forgets its key, and ends the registrations made through it.
  ///
  /// - Returns: how many registrations ended.
  package func disable(_ server: Int64) async throws -> Int {
    defer { cache.clear() }
    let now = now()
    return try await database.write { connection in
      try connection.run("DELETE FROM upstream_links WHERE server_id = $1", .integer(server))
      try connection.run("DELETE FROM upstream_unregistrations WHERE server_id = $1", .integer(server))
      // The operator has said that no other bouncer knows the server's devices: unknown ones are reported at once.
      try connection.run("UPDATE remote_servers SET unknown_named_at = 0 WHERE id = $1", .integer(server))
      try connection.run(Self.forgetLegacy, .integer(server))
      return try connection.run(
        """
        UPDATE registrations SET ended_at = $2, failure = '\(Self.disabled)', failed_at = $2, failed_by = $1
        WHERE \(Self.encrypted) AND ended_at IS NULL
        """, .integer(server), .integer(now.milliseconds))
    }
  }

  private static let forgetLegacy =
    "UPDATE registrations SET elsewhere = NULL, delivered_at = NULL WHERE wire = \(Wire.legacy.sql) AND server_id = $1 AND elsewhere IS NOT NULL"
  private static let encrypted =
    "elsewhere IS NOT NULL AND token_id IS NOT NULL AND realm_id IN (SELECT id FROM remote_realms WHERE server_id = $1)"
  /// The reason of registrations that ended because the link was switched off.
  private static let disabled = Reason.upstreamDisabled

  /// Number of a server's live registrations at the upstream bouncer.
  package func count(of server: Int64) async throws -> (encrypted: Int64, legacy: Int64) {
    let row = try await database.query(
      """
      SELECT (SELECT COUNT(*) FROM registrations WHERE \(Self.encrypted) AND ended_at IS NULL) AS encrypted,
        (SELECT COUNT(*) FROM registrations WHERE wire = \(Wire.legacy.sql) AND server_id = $1 AND elsewhere IS NOT NULL) AS legacy
      """, .integer(server)
    ).returned
    return (try row.int64("encrypted"), try row.int64("legacy"))
  }

  /// Stores a server's realms, as JSON, with parameters of its report that are not known here, and makes its report due.
  ///
  /// - Parameters:
  ///   - realms: nil: they stay as they are.
  ///   - more: replaces what there was, unless there is nothing of both.
  package func keep(realms: String?, with more: [(String, String)] = [], of server: Int64) async throws {
    var realms = realms
    if !more.isEmpty {
      let present = try await link(of: server)?.reported.first { $0.0 == "realms" }?.1
      let fields = ((realms ?? present).map { [("realms", $0)] } ?? []) + more
      realms = String(decoding: Form.encode(fields.map { (name: $0.0, value: $0.1) }), as: UTF8.self)
    }
    try await update(
      server,
      """
      realms = COALESCE($2, realms), due_at = CASE WHEN next_key IS NULL THEN $3 ELSE due_at END
      WHERE server_id = $1
      """,
      sealed(realms, .upstreamRealms, server), .integer(now().milliseconds))
  }

  func update(_ server: Int64, _ change: String, _ values: Value...) async throws {
    defer { cache.clear() }
    _ = try await database.execute(
      Statement("UPDATE upstream_links SET \(change)", arguments: [.integer(server)] + values))
  }

  /// The value of `Authorization` in a server's calls to the upstream bouncer, and the time since when it is used; nil if its
  /// key is not known.
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

  /// Records that the upstream bouncer refuses to send for a server, for example because of its plan.
  ///
  /// - Returns: whether that was not recorded within the last hour.
  package func recordRefusal(of server: Int64) async throws -> Bool {
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

  /// Records that the upstream bouncer sends for a server.
  package func recordAccepted(for server: Int64) async throws {
    guard try await link(of: server)?.refusedAt != nil else { return }
    try await update(server, "refused_at = NULL WHERE server_id = $1")
  }

  // MARK: Unknown devices

  /// Records that a server without a link has named devices that are not known here.
  ///
  /// - Returns: the time at which it first did, and whether this is the first time.
  package func recordUnknownDevices(of server: Int64) async throws -> (since: Date, isFirst: Bool) {
    let now = now()
    let row = try await database.lookUp(
      "SELECT unknown_named_at FROM remote_servers WHERE id = $1", .integer(server)
    ).first
    if let since = try row?.optionalDate("unknown_named_at") { return (since, false) }
    let changed = try await database.execute(
      Statement(
        "UPDATE remote_servers SET unknown_named_at = $2 WHERE id = $1 AND unknown_named_at IS NULL RETURNING id",
        .integer(server), .integer(now.milliseconds)))
    return (now, !changed.isEmpty)
  }

  /// The servers that began to name unknown devices within the last day: hostname, and the time at which they began.
  package func serversWithUnknownDevices() async throws -> [(server: String, since: Date)] {
    try await database.query(
      """
      SELECT hostname, unknown_named_at FROM remote_servers WHERE unknown_named_at >= $1 AND deactivated_at IS NULL
        AND id NOT IN (SELECT server_id FROM upstream_links) ORDER BY hostname_key
      """, .integer((now() - 86_400).milliseconds)
    ).map { (try $0.text("hostname"), try $0.date("unknown_named_at")) }
  }

  /// Advice for a server that may need a link.
  package static func adviceToEnable(_ hostname: String) -> String {
    "if the upstream bouncer serves it too, run within the hour: push-bouncer server upstream enable \(hostname)"
  }

  // MARK: Registrations

  /// Moves old apps' registrations upstream, if their servers have a link. One to which something was ever delivered from
  /// here stays: its token is of this service's project, and a mismatch comes from a wrong key.
  ///
  /// - Returns: the registrations that are upstream now.
  package func moveUpstream(_ foreign: [RegistrationReference]) async throws -> Set<RegistrationReference> {
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
