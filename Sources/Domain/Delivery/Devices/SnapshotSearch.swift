import Basics
import Crypto
import Foundation
import HTTPClient
import Providers
import Registrations
import SQL
import Sealing

/// A search for devices, within one read transaction.
struct SnapshotSearch {
  let connection: any Connection
  let storageKey: StorageKey
  let limit: Int64

  /// The matches of a search.
  struct Matches {
    var devices: [FoundDevice] = []
    var servers: [RemoteServer] = []
    /// Whether the server, and the realm named with it, are known.
    var isScopeKnown = true
  }

  private static let ofAnyRealm: SQLText = "g.realm_id IN (SELECT id FROM remote_realms)"

  func run(_ query: DeviceQuery) throws -> Matches {
    switch query {
    case .tokenID(let id):
      return Matches(devices: try devices("\(Self.ofAnyRealm) AND g.token_id = \(id.storage)"))
    case .fingerprint(let digits):
      let first = Int64(bitPattern: UInt64(digits) << 32)
      return Matches(
        devices: try devices(
          "\(Self.ofAnyRealm) AND g.token_id BETWEEN \(first) AND \(first | 0xFFFF_FFFF)"))
    case .token(let text): return Matches(devices: try token(text))
    case .user(let user, nil): return Matches(devices: try self.user(user))
    case .user(let user, let server?):
      let servers = try self.servers(named: server)
      return Matches(
        devices: try servers.flatMap { try self.user(user, at: $0.id) }, isScopeKnown: !servers.isEmpty)
    case .identifier(let bytes):
      return Matches(devices: try devices("g.device_identifier = \(.bytes(bytes))"))
    case .registration(let wire, let id):
      return Matches(devices: try devices("g.id = \(id) AND g.wire = \(wire)"))
    case .server(let name, nil):
      let servers = try self.servers(named: name)
      return Matches(
        devices: try servers.flatMap { try devices(ofServer: $0.id) }, servers: servers,
        isScopeKnown: !servers.isEmpty)
    case .server(let name, let realm?):
      let servers = try self.servers(named: name)
      let realms = try servers.flatMap { try self.realms(named: realm, of: $0.id) }
      return Matches(
        devices: try realms.flatMap { try devices(ofRealm: $0.id) }, servers: servers,
        isScopeKnown: !realms.isEmpty)
    case .name(let name): return try named(name)
    }
  }

  private func token(_ text: String) throws -> [FoundDevice] {
    let hashes = PushToken.Kind.allCases.compactMap { kind in
      (try? PushToken(text, kind: kind)).map { (hash: storageKey.tokenHash(of: $0), kind: kind.storage) }
    }
    var found = try hashes.flatMap { hash, kind in
      try devices("g.token_hash = \(hash) AND g.kind = \(kind)")
    }
    // Talk's token pairs are found by the hash of both tokens, the Nextcloud server side's Web Push
    // subscriptions by their endpoint.
    let sha512 = Value.bytes(Array(SHA512.hash(data: Array(text.utf8))))
    found += try devices("g.seen_at IS NOT NULL AND g.token_hash = 0 AND g.token_sha512 = \(sha512)")
    let endpoint = (try? WebPushSubscription(token: text))?.endpoint.url ?? text
    let hash = Value.bytes(storageKey.hash(endpoint: endpoint))
    return found + (try devices("g.account_id IS NOT NULL AND g.endpoint_hash = \(hash)"))
  }

  private func user(_ user: String, at server: Int64? = nil) throws -> [FoundDevice] {
    let place: SQLText =
      server.map { "g.server_id = \($0)" } ?? "g.server_id IN (SELECT id FROM remote_servers)"
    if let number = Int64(user) { return try devices("\(place) AND g.user_id = \(number)") }
    guard let uuid = UUID(uuidString: user) else { return [] }
    return try devices("\(place) AND g.user_uuid = \(.text(uuid.canonical))")
  }

  /// Searches by a hostname, or by the UUID of a server, a realm or a user; if nothing has that name, by a
  /// part of hostnames.
  private func named(_ name: String) throws -> Matches {
    let servers = try self.servers(named: name)
    if !servers.isEmpty {
      return Matches(devices: try servers.flatMap { try devices(ofServer: $0.id) }, servers: servers)
    }
    let realms = try self.realms(named: name)
    if !realms.isEmpty {
      return Matches(
        devices: try realms.flatMap { try devices(ofRealm: $0.id) },
        servers: try Set(realms.map(\.server)).sorted().flatMap { try self.servers("id = \($0)") })
    }
    let account = Value.text(name.lowercased())
    let users =
      try user(name)
      + devices(
        "g.account_id IN (SELECT id FROM users WHERE username_key = \(account) OR email_key = \(account))")
    if !users.isEmpty { return Matches(devices: users) }
    let key = ["\\", "%", "_"].reduce(Hostname.key(of: name)) { $0.replacing($1, with: "\\\($1)") }
    return Matches(servers: try self.servers("hostname_key LIKE \(.text("%\(key)%")) ESCAPE '\\'"))
  }

  private func servers(named name: String) throws -> [RemoteServer] {
    if let uuid = UUID(uuidString: name) { return try servers("uuid = \(.text(uuid.canonical))") }
    return try servers("hostname_key = \(.text(Hostname.key(of: name)))")
  }

  private func servers(_ condition: SQLText) throws -> [RemoteServer] {
    try rows(
      "SELECT \(sql: RemoteServer.columns) FROM remote_servers WHERE \(condition) ORDER BY hostname_key LIMIT 100"
    )
    .map(RemoteServer.init)
  }

  private func realms(named name: String, of server: Int64? = nil) throws -> [(id: Int64, server: Int64)] {
    let named: SQLText =
      UUID(uuidString: name).map { "uuid = \(.text($0.canonical))" } ?? "host = \(.text(name))"
    let own: SQLText = server.map { " AND server_id = \($0)" } ?? ""
    return try rows("SELECT id, server_id FROM remote_realms WHERE \(named)\(own) ORDER BY id LIMIT 100")
      .map { (try $0.int64("id"), try $0.int64("server_id")) }
  }

  private func devices(ofServer server: Int64) throws -> [FoundDevice] {
    try devices(
      """
      (g.wire = \(sql: Wire.legacy.sql) AND g.server_id = \(server)
        OR g.realm_id IN (SELECT id FROM remote_realms WHERE server_id = \(server)) AND g.token_id IS NOT NULL)
      """)
  }

  private func devices(ofRealm realm: Int64) throws -> [FoundDevice] {
    try devices(
      """
      (g.realm_id = \(realm) AND g.token_id IS NOT NULL OR g.wire = \(sql: Wire.legacy.sql)
        AND g.realm_id = \(realm) AND g.server_id IN (SELECT id FROM remote_servers))
      """)
  }

  /// A page of a chat server's registrations: the encrypted ones, then the legacy ones, each in the order of an index.
  ///
  /// - Parameter last: the end of the page before.
  /// - Returns: the end of this page, if more follow.
  func page(
    _ selection: DeviceSearch.Selection, after last: DeviceSearch.Mark?, size: Int
  ) throws -> (devices: [FoundDevice], end: DeviceSearch.Mark?) {
    var rows: [Row] = []
    for wire in [Wire.e2ee, .legacy] where rows.count <= size {
      guard (last?.wire ?? 0) <= wire.rawValue else { continue }
      let start = last?.wire == wire.rawValue ? last : nil
      for condition in try parts(of: selection, wire, after: start, size: size) where rows.count <= size {
        rows += try found(
          condition, order: "g.realm_id NULLS FIRST, g.\(wire == .e2ee ? "token_id" : "id")",
          limit: Int64(size + 1 - rows.count))
      }
    }
    let shown = rows.prefix(size)
    let end =
      try rows.count > size
      ? shown.last.map { row in
        let isLegacy = try row.int64("wire") == Wire.legacy.rawValue
        return DeviceSearch.Mark(
          wire: try row.int64("wire"), realm: try row.optionalInt64("realm_id") ?? 0,
          last: try row.int64(isLegacy ? "id" : "token_id"))
      } : nil
    return (try shown.compactMap { try FoundDevice($0, storageKey) }, end)
  }

  /// Conditions for the rows of a selection and kind that follow a mark. Where there are several, each is answered by an index: one for the rest of the mark's realm, others for later realms. None reads
  /// rows before the mark, or another server's.
  private func parts(
    of selection: DeviceSearch.Selection, _ wire: Wire, after mark: DeviceSearch.Mark?,
    size: Int
  ) throws -> [SQLText] {
    let realm = mark?.realm ?? 0
    let last = mark?.last ?? .min
    let isLegacy: SQLText = "g.wire = \(sql: Wire.legacy.sql)"
    switch (selection, wire) {
    case (.server(let server), .legacy):
      let own: SQLText = "\(isLegacy) AND g.server_id = \(server)"
      let isOfRealm: SQLText = realm == 0 ? "IS NULL" : "= \(realm)"
      return [
        "\(own) AND g.id > \(last) AND g.realm_id \(isOfRealm)", "\(own) AND g.realm_id > \(realm)",
      ]
    case (.server(let server), _):
      // Not one query for all of them: PostgreSQL would read every server's, in their order.
      let next = try rows(
        """
        SELECT m.id FROM remote_realms m WHERE m.server_id = \(server) AND m.id > \(realm)
          AND (SELECT 1 FROM registrations g WHERE g.realm_id = m.id AND g.token_id IS NOT NULL LIMIT 1) = 1
        ORDER BY m.id LIMIT \(Int64(size) + 1)
        """
      ).map { try $0.value("id") }
      return ["g.realm_id = \(realm) AND g.token_id > \(last) AND r.server_id = \(server)"]
        + next.map { "g.realm_id = \($0) AND g.token_id IS NOT NULL" }
    case (.realm(let realm, let server), .legacy):
      return ["\(isLegacy) AND g.server_id = \(server) AND g.realm_id = \(realm) AND g.id > \(last)"]
    case (.realm(let realm, _), _):
      return ["g.realm_id = \(realm) AND g.token_id > \(last)"]
    case (.user(let user, let server), .legacy):
      return [
        """
        \(isLegacy) AND g.server_id = \(server)
          AND (g.user_id = \(.integer(user.id)) OR g.user_uuid = \(.text(user.uuid?.canonical)))
          AND (COALESCE(g.realm_id, 0) > \(realm) OR COALESCE(g.realm_id, 0) = \(realm) AND g.id > \(last))
        """
      ]
    case (.token(let token, let server), .e2ee):
      return [
        """
        g.realm_id IN (SELECT id FROM remote_realms WHERE server_id = \(server) AND id > \(realm))
          AND g.token_id = \(token.storage)
        """
      ]
    case (.user, _), (.token, _): return []
    }
  }

  /// A chat server's registrations with a notification that was refused since a time, the latest refusal first. Reads no
  /// more rows than the limit; registrations that have moved to another server are left out.
  func failures(ofServer server: Int64, since time: Date) throws -> [FoundDevice] {
    try devices(
      """
      g.id IN (
        SELECT id FROM registrations WHERE failed_by = \(server) AND failed_at >= \(time.milliseconds)
        ORDER BY failed_at DESC LIMIT \(limit))
      AND COALESCE(g.server_id, r.server_id) = \(server)
      """, order: "g.failed_at DESC, g.id")
  }

  // MARK: Reading

  private func devices(_ condition: SQLText, order: String = "g.wire, g.id") throws -> [FoundDevice] {
    try found(condition, order: order, limit: limit).compactMap { try FoundDevice($0, storageKey) }
  }

  private func found(_ condition: SQLText, order: String, limit: Int64) throws -> [Row] {
    try rows("\(sql: FoundDevice.select) WHERE \(condition) ORDER BY \(sql: order) LIMIT \(limit)")
  }

  private func rows(_ text: SQLText) throws -> [Row] {
    try connection.query(Statement(text.sql, arguments: text.arguments))
  }
}

/// A part of a statement: what stands in it in the place of a value is an argument.
private struct SQLText: ExpressibleByStringInterpolation, StringInterpolationProtocol {
  typealias StringInterpolation = SQLText

  /// The text before each argument, and after the last.
  private var texts: [String]
  private(set) var arguments: [Value] = []

  /// The text, with arguments numbered from `$1`.
  var sql: String {
    zip(1..., texts.dropLast()).map { number, text in "\(text)$\(number)" }.joined() + (texts.last ?? "")
  }

  init(literalCapacity: Int, interpolationCount: Int) { texts = [""] }
  init(stringLiteral text: String) { texts = [text] }
  init(stringInterpolation condition: SQLText) { self = condition }

  mutating func appendLiteral(_ text: String) { texts[texts.count - 1] += text }

  mutating func appendInterpolation(sql: String) { appendLiteral(sql) }

  mutating func appendInterpolation(_ value: Value) {
    arguments.append(value)
    texts.append("")
  }

  mutating func appendInterpolation(_ number: Int64) { appendInterpolation(.integer(number)) }

  mutating func appendInterpolation(_ other: SQLText) {
    appendLiteral(other.texts[0])
    texts += other.texts.dropFirst()
    arguments += other.arguments
  }
}
