internal import Crypto
internal import Foundation
internal import Providers
internal import Registrations
internal import SQL
internal import Sealing
internal import Storage

/// A search for devices within one snapshot.
struct SnapshotSearch {
  let connection: any Connection
  let storageKey: StorageKey
  let limit: Int64

  func run(_ query: DeviceQuery) throws -> ([FoundDevice], [DeviceSearch.Server], hasServer: Bool) {
    switch query {
    case .tokenID(let id):
      return (
        try e2ee("e.realm_id IN (SELECT id FROM remote_realms) AND e.token_id = $2", .integer(id.storage)),
        [], true
      )
    case .fingerprint(let digits):
      let first = Int64(bitPattern: UInt64(digits) << 32)
      return (
        try e2ee(
          "e.realm_id IN (SELECT id FROM remote_realms) AND e.token_id BETWEEN $2 AND $3", .integer(first),
          .integer(first | 0xFFFF_FFFF)), [], true
      )
    case .token(let text): return (try token(text), [], true)
    case .user(let user, let server):
      guard let server else { return (try self.user(user), [], true) }
      let servers = try self.servers(named: server)
      return (try servers.flatMap { try self.user(user, at: $0.id) }, [], !servers.isEmpty)
    case .identifier(let bytes): return (try nextcloud("n.device_identifier = $2", .bytes(bytes)), [], true)
    case .registration(let kind, let id):
      switch RegistrationReference.Kind(rawValue: kind) {
      case .e2ee: return (try e2ee("e.id = $2", .integer(id)), [], true)
      case .legacy: return (try legacy("l.id = $2", .integer(id)), [], true)
      case .nextcloud: return (try nextcloud("n.id = $2", .integer(id)), [], true)
      case .nextcloudWebPush: return (try subscriptions("w.id = $2", .integer(id)), [], true)
      case nil: return ([], [], true)
      }
    case .server(let name, let realm):
      let servers = try self.servers(named: name)
      guard let realm else {
        return (try servers.flatMap { try devices(ofServer: $0.id) }, servers, !servers.isEmpty)
      }
      let realms = try servers.flatMap { try self.realms(named: realm, of: $0.id) }
      return (try realms.flatMap { try devices(ofRealm: $0.id, at: $0.server) }, servers, !realms.isEmpty)
    case .name(let name): return try named(name)
    }
  }

  private func token(_ text: String) throws -> [FoundDevice] {
    var devices: [FoundDevice] = []
    for kind in PushToken.Kind.allCases {
      guard let token = try? PushToken(text, kind: kind) else { continue }
      let hash = Value.integer(storageKey.tokenHash(of: token))
      devices += try e2ee("e.token_hash = $2 AND e.kind = $3", hash, .integer(kind.storage))
      devices += try legacy("l.token_hash = $2 AND l.kind = $3", hash, .integer(kind.storage))
    }
    devices += try nextcloud("n.token_hash = $2", .bytes(Array(SHA512.hash(data: Array(text.utf8)))))
    // Those of the Nextcloud server side are known by their endpoint.
    let endpoint = (try? WebPushSubscription(token: text))?.endpoint.url ?? text
    let hash = storageKey.hash(endpoint: endpoint)
    return devices + (try subscriptions("w.endpoint_hash = $2", .bytes(hash)))
  }

  private func user(_ user: String, at server: Int64? = nil) throws -> [FoundDevice] {
    let place = server == nil ? "l.server_id IN (SELECT id FROM remote_servers)" : "l.server_id = $3"
    let more: [Value] = server.map { [.integer($0)] } ?? []
    if let id = Int64(user) { return try legacy("\(place) AND l.user_id = $2", [.integer(id)] + more) }
    guard let uuid = UUID(uuidString: user) else { return [] }
    return try legacy("\(place) AND l.user_uuid = $2", [.text(uuid.canonical)] + more)
  }

  /// A hostname, or the UUID of a server, a realm or a user; else what is a part of hostnames.
  private func named(_ name: String) throws -> ([FoundDevice], [DeviceSearch.Server], hasServer: Bool) {
    let servers = try servers(named: name)
    if !servers.isEmpty { return (try servers.flatMap { try devices(ofServer: $0.id) }, servers, true) }
    let realms = try realms(named: name)
    if !realms.isEmpty {
      let servers = try Set(realms.map(\.server)).sorted().flatMap {
        try self.servers("id = $1", .integer($0))
      }
      return (try realms.flatMap { try devices(ofRealm: $0.id, at: $0.server) }, servers, true)
    }
    let users =
      try user(name)
      + subscriptions(
        "w.user_id IN (SELECT id FROM users WHERE username_key = $2 OR email_key = $2)",
        .text(name.lowercased()))
    if !users.isEmpty { return (users, [], true) }
    let pattern =
      "%\(Hostname.key(of: name).replacing("\\", with: "\\\\").replacing("%", with: "\\%").replacing("_", with: "\\_"))%"
    return ([], try self.servers("hostname_key LIKE $1 ESCAPE '\\'", .text(pattern)), false)
  }

  private func servers(named name: String) throws -> [DeviceSearch.Server] {
    if let uuid = UUID(uuidString: name) { return try servers("uuid = $1", .text(uuid.canonical)) }
    return try servers("hostname_key = $1", .text(Hostname.key(of: name)))
  }

  private func servers(_ condition: String, _ value: Value) throws -> [DeviceSearch.Server] {
    try connection.query(
      Statement(
        "SELECT id, uuid, hostname FROM remote_servers WHERE \(condition) ORDER BY hostname_key LIMIT 100",
        value)
    ).map { .init(id: try $0.int64(0), uuid: try $0.text(1), hostname: try $0.text(2)) }
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
    ).map { (try $0.int64(0), try $0.int64(1)) }
  }

  private func devices(ofServer server: Int64) throws -> [FoundDevice] {
    try e2ee("e.realm_id IN (SELECT id FROM remote_realms WHERE server_id = $2)", .integer(server))
      + legacy("l.server_id = $2", .integer(server))
  }

  private func devices(ofRealm realm: Int64, at server: Int64) throws -> [FoundDevice] {
    try e2ee("e.realm_id = $2", .integer(realm))
      + legacy("l.server_id = $2 AND l.realm_id = $3", .integer(server), .integer(realm))
  }

  // MARK: Reading

  private func e2ee(_ condition: String, _ values: Value...) throws -> [FoundDevice] {
    let rows = try connection.query(
      Statement(
        """
        SELECT e.id, e.kind, e.ios_app_id, e.registered_at, e.delivered_at, e.failure, e.failed_at,
          \(waiting(.e2ee, "e")), s.uuid, s.hostname, s.deactivated_at, r.uuid, r.host, r.is_deactivated,
          e.token_id, k.public_key, e.expired_at, CASE e.kind WHEN 2 THEN e.token END, e.realm_id
        FROM e2ee_registrations e JOIN remote_realms r ON r.id = e.realm_id
          JOIN remote_servers s ON s.id = r.server_id LEFT JOIN bouncer_keys k ON k.id = e.bouncer_key_id
          LEFT JOIN held_deaths h ON h.kind = 1 AND h.registration_id = e.id AND h.registered_at = e.registered_at
        WHERE \(condition) ORDER BY e.id LIMIT $1
        """, arguments: [.integer(limit)] + values))
    return try rows.map { row in
      let id = TokenID(storage: try row.int64(17))
      // Who registered counts as an Android device may have a subscription in the place of a token.
      let token = try row.optionalBytes(20).flatMap {
        storageKey.openText($0, at: E2EERegistrations.place(realm: try row.int64(21), id))
      }
      return try FoundDevice(
        .e2ee, row, way: Way(try row.int64(1), token), tokenID: id, fingerprint: id.fingerprint,
        bouncerKey: try row.optionalText(18), expiredAt: try row.optionalDate(19)
      )
    }
  }

  private func legacy(_ condition: String, _ values: Value...) throws -> [FoundDevice] {
    try legacy(condition, values)
  }

  private func legacy(_ condition: String, _ values: [Value]) throws -> [FoundDevice] {
    let rows = try connection.query(
      Statement(
        """
        SELECT l.id, l.kind, l.ios_app_id, l.registered_at, l.delivered_at, l.failure, l.failed_at,
          \(waiting(.legacy, "l")), s.uuid, s.hostname, s.deactivated_at, r.uuid, r.host, r.is_deactivated,
          l.token, l.server_id, l.user_id, l.user_uuid
        FROM legacy_registrations l JOIN remote_servers s ON s.id = l.server_id
          LEFT JOIN remote_realms r ON r.id = l.realm_id
          LEFT JOIN held_deaths h ON h.kind = 2 AND h.registration_id = l.id AND h.registered_at = l.registered_at
        WHERE \(condition) ORDER BY l.id LIMIT $1
        """, arguments: [.integer(limit)] + values))
    return try rows.map { row in
      let (number, uuid) = (try row.optionalInt64(19), try row.optionalText(20))
      let token = storageKey.openText(
        try row.bytes(17),
        at: LegacyRegistrations.place(server: try row.int64(18), user: .integer(number), uuid: .text(uuid)))
      return try FoundDevice(
        .legacy, row, way: Way(try row.int64(1), token),
        tokenID: token.map(TokenID.init(token:)), fingerprint: token.map(PushToken.fingerprint),
        user: uuid ?? number.map(String.init))
    }
  }

  private func nextcloud(_ condition: String, _ value: Value) throws -> [FoundDevice] {
    let rows = try connection.query(
      Statement(
        """
        SELECT n.id, n.kind, n.app, n.registered_at, n.delivered_at, n.failure, n.failed_at,
          \(waiting(.nextcloud, "n")), NULL, NULL, NULL, NULL, NULL, NULL,
          n.target, n.device_identifier, n.token, n.user_key
        FROM nextcloud_devices n
          LEFT JOIN held_deaths h ON h.kind = 3 AND h.registration_id = n.id AND h.registered_at = n.registered_at
        WHERE \(condition) ORDER BY n.id LIMIT $1
        """, .integer(limit), value))
    return try rows.map { row in
      let identifier = try row.bytes(18)
      let place = SealedColumn.nextcloudToken.place(.bytes(identifier), .bytes(try row.bytes(20)))
      // Of Talk's two tokens the first is the one for notifications.
      let token = storageKey.openText(try row.bytes(19), at: place)?.prefix { $0 != " " }
      return try FoundDevice(
        .nextcloud, row,
        way: Way(
          provider: [1: "apns", 2: "fcm", 3: "pushkit"][try row.int64(1)], target: try row.optionalText(17)),
        fingerprint: token.map { PushToken.fingerprint(of: String($0)) },
        identifier: Base64.encode(identifier))
    }
  }

  /// Web Push of the Nextcloud server side's users.
  private func subscriptions(_ condition: String, _ value: Value) throws -> [FoundDevice] {
    let rows = try connection.query(
      Statement(
        """
        SELECT w.id, 0, NULL, w.registered_at, w.delivered_at, w.failure, w.failed_at,
          \(waiting(.nextcloudWebPush, "w")), NULL, NULL, NULL, NULL, NULL, NULL,
          w.user_id, w.endpoint_hash, w.token, u.username
        FROM nextcloud_webpush w JOIN users u ON u.id = w.user_id
          LEFT JOIN held_deaths h ON h.kind = 4 AND h.registration_id = w.id AND h.registered_at = w.registered_at
        WHERE \(condition) ORDER BY w.id LIMIT $1
        """, .integer(limit), value))
    return try rows.map { row in
      let place = SealedColumn.nextcloudSubscription.place(
        .integer(try row.int64(17)), .bytes(try row.bytes(18)))
      let token = storageKey.openText(try row.bytes(19), at: place)
      return try FoundDevice(
        .nextcloudWebPush, row, way: Way(PushToken.Kind.fcm.storage, token),
        fingerprint: token.map { PushToken.fingerprint(of: $0) }, user: try row.text(20))
    }
  }

  /// The outbox and what is held back, for columns 7 to 10.
  private func waiting(_ kind: RegistrationReference.Kind, _ table: String) -> String {
    let entries =
      "FROM outbox o WHERE o.registration_id = \(table).id AND o.registration_kind = \(kind.rawValue)"
    return "(SELECT COUNT(*) \(entries)), (SELECT MIN(o.created_at) \(entries)), h.reason, h.first_said_at"
  }
}

/// Whose service a device is reached by, and where there; nothing of an endpoint but its host.
private struct Way {
  var provider: String?
  var target: String?

  init(provider: String?, target: String?) { (self.provider, self.target) = (provider, target) }

  /// - Parameter kind: as it is kept.
  init(_ kind: Int64, _ token: String?) {
    provider = PushToken.Kind(storage: kind)?.rawValue
    guard kind == PushToken.Kind.fcm.storage, let token, WebPushSubscription.isToken(token) else { return }
    provider = Route.Provider.webPush.rawValue
    target = (try? WebPushSubscription(token: token))?.endpoint.authority
  }
}

extension FoundDevice {
  /// From the columns that all kinds have in the same places.
  fileprivate init(
    _ kind: RegistrationReference.Kind, _ row: Row, way: Way, tokenID: TokenID? = nil, fingerprint: String?,
    bouncerKey: String? = nil, user: String? = nil,
    identifier: String? = nil, expiredAt: Date? = nil
  ) throws {
    func place(_ index: Int, _ isDeactivated: Bool) throws -> Place? {
      guard let uuid = try row.optionalText(index), let host = try row.optionalText(index + 1) else {
        return nil
      }
      return Place(uuid: uuid, host: host, isDeactivated: isDeactivated)
    }
    func failure(_ index: Int) throws -> Failure? {
      guard let reason = try row.optionalText(index), let at = try row.optionalDate(index + 1) else {
        return nil
      }
      return Failure(reason: reason, at: at)
    }
    self.init(
      row: .init(kind: kind, id: try row.int64(0)), provider: way.provider ?? "unknown",
      app: try row.optionalText(2),
      target: way.target, tokenID: tokenID, fingerprint: fingerprint, bouncerKey: bouncerKey,
      server: try place(11, try row.optionalInt64(13) != nil),
      realm: try place(14, try row.optionalInt64(16).map { $0 != 0 } ?? false), user: user,
      identifier: identifier, registeredAt: try row.date(3), expiredAt: expiredAt,
      deliveredAt: try row.optionalDate(4), failure: try failure(5), held: try failure(9),
      waiting: try row.int64(7), waitingSince: try row.optionalDate(8))
  }
}

extension TokenID {
  /// The first half of the id is what logs show of the token.
  fileprivate var fingerprint: String {
    let digits = String(UInt64(bitPattern: storage) >> 32, radix: 16)
    return String(repeating: "0", count: 8 - digits.count) + digits
  }
}
