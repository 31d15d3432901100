internal import Basics
internal import Crypto
internal import Foundation
internal import HTTPClient
internal import Providers
internal import Registrations
internal import SQL
internal import Sealing

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

  private static let ofAnyRealm = "g.realm_id IN (SELECT id FROM remote_realms)"

  func run(_ query: DeviceQuery) throws -> Matches {
    switch query {
    case .tokenID(let id):
      return Matches(devices: try devices("\(Self.ofAnyRealm) AND g.token_id = $2", .integer(id.storage)))
    case .fingerprint(let digits):
      let first = Int64(bitPattern: UInt64(digits) << 32)
      return Matches(
        devices: try devices(
          "\(Self.ofAnyRealm) AND g.token_id BETWEEN $2 AND $3", .integer(first),
          .integer(first | 0xFFFF_FFFF)))
    case .token(let text): return Matches(devices: try token(text))
    case .user(let user, nil): return Matches(devices: try self.user(user))
    case .user(let user, let server?):
      let servers = try self.servers(named: server)
      return Matches(
        devices: try servers.flatMap { try self.user(user, at: $0.id) }, isScopeKnown: !servers.isEmpty)
    case .identifier(let bytes):
      return Matches(devices: try devices("g.device_identifier = $2", .bytes(bytes)))
    case .registration(let wire, let id):
      return Matches(devices: try devices("g.id = $2 AND g.wire = $3", .integer(id), .integer(wire)))
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
      try devices("g.token_hash = $2 AND g.kind = $3", .integer(hash), .integer(kind))
    }
    // Talk's token pairs are found by the hash of both tokens, the Nextcloud server side's Web Push
    // subscriptions by their endpoint.
    let sha512 = Value.bytes(Array(SHA512.hash(data: Array(text.utf8))))
    found += try devices("g.seen_at IS NOT NULL AND g.token_hash = 0 AND g.token_sha512 = $2", sha512)
    let endpoint = (try? WebPushSubscription(token: text))?.endpoint.url ?? text
    return found
      + (try devices(
        "g.account_id IS NOT NULL AND g.endpoint_hash = $2", .bytes(storageKey.hash(endpoint: endpoint))))
  }

  private func user(_ user: String, at server: Int64? = nil) throws -> [FoundDevice] {
    let place = server == nil ? "g.server_id IN (SELECT id FROM remote_servers)" : "g.server_id = $3"
    let column = Int64(user) == nil ? "user_uuid" : "user_id"
    guard let value = Int64(user).map(Value.integer) ?? UUID(uuidString: user).map({ .text($0.canonical) })
    else { return [] }
    return try devices(
      "\(place) AND g.\(column) = $2", arguments: [value] + (server.map { [.integer($0)] } ?? []))
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
        servers: try Set(realms.map(\.server)).sorted().flatMap { try self.servers("id = $1", .integer($0)) })
    }
    let users =
      try user(name)
      + devices(
        "g.account_id IN (SELECT id FROM users WHERE username_key = $2 OR email_key = $2)",
        .text(name.lowercased()))
    if !users.isEmpty { return Matches(devices: users) }
    let key = ["\\", "%", "_"].reduce(Hostname.key(of: name)) { $0.replacing($1, with: "\\\($1)") }
    return Matches(servers: try self.servers("hostname_key LIKE $1 ESCAPE '\\'", .text("%\(key)%")))
  }

  private func servers(named name: String) throws -> [RemoteServer] {
    if let uuid = UUID(uuidString: name) { return try servers("uuid = $1", .text(uuid.canonical)) }
    return try servers("hostname_key = $1", .text(Hostname.key(of: name)))
  }

  private func servers(_ condition: String, _ value: Value) throws -> [RemoteServer] {
    try connection.query(
      Statement(
        """
        SELECT \(RemoteServer.columns) FROM remote_servers WHERE \(condition) ORDER BY hostname_key LIMIT 100
        """, value)
    ).map(RemoteServer.init)
  }

  private func realms(named name: String, of server: Int64? = nil) throws -> [(id: Int64, server: Int64)] {
    var (condition, values): (String, [Value]) =
      UUID(uuidString: name).map { ("uuid = $1", [.text($0.canonical)]) } ?? ("host = $1", [.text(name)])
    if let server {
      condition += " AND server_id = $2"
      values.append(.integer(server))
    }
    return try connection.query(
      Statement(
        "SELECT id, server_id FROM remote_realms WHERE \(condition) ORDER BY id LIMIT 100", arguments: values)
    ).map { (try $0.int64("id"), try $0.int64("server_id")) }
  }

  private static let ofServer = """
    (g.wire = \(Wire.legacy.sql) AND g.server_id = $2 OR g.realm_id IN (SELECT id FROM remote_realms WHERE server_id = $2) AND g.token_id IS NOT NULL)
    """
  private static let ofRealm = """
    (g.realm_id = $2 AND g.token_id IS NOT NULL
      OR g.wire = \(Wire.legacy.sql) AND g.realm_id = $2 AND g.server_id IN (SELECT id FROM remote_servers))
    """

  private func devices(ofServer server: Int64) throws -> [FoundDevice] {
    try devices(Self.ofServer, .integer(server))
  }

  private func devices(ofRealm realm: Int64) throws -> [FoundDevice] {
    try devices(Self.ofRealm, .integer(realm))
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
      for (condition, values) in try parts(of: selection, wire, after: start, size: size)
      where rows.count <= size {
        rows += try self.rows(
          condition, arguments: values,
          order: "g.realm_id NULLS FIRST, g.\(wire == .e2ee ? "token_id" : "id")",
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

  /// SQL conditions, with their arguments from `$2` on, for the rows of a selection and kind that follow a mark. Where there
  /// are several, each is answered by an index: one for the rest of the mark's realm, others for later realms. None reads
  /// rows before the mark, or another server's.
  private func parts(
    of selection: DeviceSearch.Selection, _ wire: Wire, after mark: DeviceSearch.Mark?,
    size: Int
  ) throws -> [(String, [Value])] {
    let realm = Value.integer(mark?.realm ?? 0)
    let last = Value.integer(mark?.last ?? .min)
    let realms = "SELECT id FROM remote_realms WHERE server_id = $2"
    switch (selection, wire) {
    case (.server(let server), .legacy):
      let own = "g.wire = \(Wire.legacy.sql) AND g.server_id = $2"
      let isWithoutRealm = realm == .integer(0)
      return [
        (
          "\(own) AND g.id > $3 AND g.realm_id \(isWithoutRealm ? "IS NULL" : "= $4")",
          [.integer(server), last] + (isWithoutRealm ? [] : [realm])
        ), ("\(own) AND g.realm_id > $3", [.integer(server), realm]),
      ]
    case (.server(let server), _):
      // Not one query for all of them: PostgreSQL would read every server's, in their order.
      let next = try connection.query(
        Statement(
          """
          SELECT m.id FROM remote_realms m WHERE m.server_id = $1 AND m.id > $2
            AND (SELECT 1 FROM registrations g WHERE g.realm_id = m.id AND g.token_id IS NOT NULL LIMIT 1) = 1
          ORDER BY m.id LIMIT $3
          """, .integer(server), realm, .integer(Int64(size) + 1))
      ).map { try $0.value("id") }
      return [
        ("g.realm_id = $3 AND g.token_id > $4 AND r.server_id = $2", [.integer(server), realm, last])
      ] + next.map { ("g.realm_id = $2 AND g.token_id IS NOT NULL", [$0]) }
    case (.realm(let realm, let server), .legacy):
      return [
        (
          "g.wire = \(Wire.legacy.sql) AND g.server_id = $2 AND g.realm_id = $3 AND g.id > $4",
          [.integer(server), .integer(realm), last]
        )
      ]
    case (.realm(let realm, _), _):
      return [("g.realm_id = $2 AND g.token_id > $3", [.integer(realm), last])]
    case (.user(let user, let server), .legacy):
      return [
        (
          """
          g.wire = \(Wire.legacy.sql) AND g.server_id = $2 AND (g.user_id = $3 OR g.user_uuid = $4)
            AND (COALESCE(g.realm_id, 0) > $5 OR COALESCE(g.realm_id, 0) = $5 AND g.id > $6)
          """, [.integer(server), .integer(user.id), .text(user.uuid?.canonical), realm, last]
        )
      ]
    case (.token(let token, let server), .e2ee):
      return [
        (
          "g.realm_id IN (\(realms) AND id > $4) AND g.token_id = $3",
          [.integer(server), .integer(token.storage), realm]
        )
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
        SELECT id FROM registrations WHERE failed_by = $3 AND failed_at >= $2 ORDER BY failed_at DESC LIMIT $1)
      AND COALESCE(g.server_id, r.server_id) = $3
      """, arguments: [.integer(time.milliseconds), .integer(server)], order: "g.failed_at DESC, g.id")
  }

  // MARK: Reading

  private func devices(_ condition: String, _ values: Value...) throws -> [FoundDevice] {
    try devices(condition, arguments: values)
  }

  private func devices(
    _ condition: String, arguments: [Value], order: String = "g.wire, g.id"
  ) throws -> [FoundDevice] {
    try rows(condition, arguments: arguments, order: order, limit: limit).compactMap {
      try FoundDevice($0, storageKey)
    }
  }

  private func rows(_ condition: String, arguments: [Value], order: String, limit: Int64) throws -> [Row] {
    try connection.query(
      Statement(
        "\(FoundDevice.select) WHERE \(condition) ORDER BY \(order) LIMIT $1",
        arguments: [.integer(limit)] + arguments))
  }
}
