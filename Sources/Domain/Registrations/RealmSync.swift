package import Foundation
package import SQL
package import Sealing

/// Applies the lists of realms that chat servers upload.
package struct RealmSync: Sendable {
  /// A realm belongs to another server, which has not released it, or is listed twice.
  package struct DuplicateRealm: Error, Hashable {
    package let realm: UUID

    package init(realm: UUID) { self.realm = realm }
  }

  /// The list would give a server more realms than it can have.
  package struct TooManyRealms: Error {}

  /// Maximum number of realms of a server, including those that it has deleted. It is more than one report can list.
  package static let mostRealms: Int64 = 50_000

  /// The changes made by a part of a list.
  package struct Changes: Sendable {
    /// The realms that were taken over from another server.
    package fileprivate(set) var takeovers: [Takeover] = []
    /// Number of rows of realms that were written.
    fileprivate var realms = 0
    /// Number of rows added to the audit log.
    fileprivate var events = 0
    /// The same by weight.
    fileprivate var weight = 0

    /// Number of rows, those of the audit log by weight.
    package var rows: Int { realms + weight }

    package init() {}
  }

  package static let ownerSecretPurpose = StorageKey.Purpose("remote_realms.owner_secret")

  let storageKey: StorageKey
  let now: @Sendable () -> Date
  private let most: Int64

  /// - Parameter most: maximum number of realms of a server.
  package init(
    storageKey: StorageKey, now: @escaping @Sendable () -> Date, most: Int64 = mostRealms
  ) {
    self.storageKey = storageKey
    self.now = now
    self.most = most
  }

  /// Audited events of a realm, with Zulip's numbers.
  private enum RealmEvent: Int64 {
    case valueUpdated = 20001
    case locallyDeleted = 20003
    case locallyDeletedRestored = 20004
  }

  /// Makes the realms of a server match the list (`Documentation/Protocols/Zulip.md` 4.3): new ones are
  /// added, known ones updated, the others marked as deleted. Each change adds an audit row.
  ///
  /// - Returns: the realms that were taken over from another server.
  /// - Throws: ``DuplicateRealm``, ``TooManyRealms``.
  package func apply(
    _ realms: [RealmDescription], server: Int64, on connection: any Connection
  ) throws -> [Takeover] {
    let changes = try apply(realms[...], of: realms, server: server, on: connection)
    let missing = try Self.missing(from: realms, server: server, on: connection)
    try markDeleted(missing[...], server: server, on: connection)
    return changes.takeovers
  }

  /// Adds and updates the realms of a part of the list.
  ///
  /// - Throws: ``DuplicateRealm``, ``TooManyRealms``.
  package func apply(
    _ part: ArraySlice<RealmDescription>, of realms: [RealmDescription], server: Int64,
    on connection: any Connection
  ) throws -> Changes {
    var known: [UUID: KnownRealm] = [:]
    let names = part.map { Value.text($0.uuid.canonical) }
    for row in try connection.query(KnownRealm.select, .integer(server), list: names) {
      let realm = try KnownRealm(row: row)
      known[realm.realm.uuid] = realm
    }
    var changes = Changes()
    var added = 0
    var moved: Set<Int64> = []
    for realm in part {
      if let before = known.removeValue(forKey: realm.uuid) {
        try update(before, to: realm, server: server, &changes, on: connection)
      } else if try insert(realm, server: server, on: connection) {
        added += 1
      } else if let takeover = try takeOver(
        realm, of: realms, server: server, moved: &moved, on: connection)
      {
        changes.takeovers.append(takeover)
        added += 1
      }
    }
    for former in moved {
      try moveLegacyRegistrations(ofRealm: nil, from: former, to: server, on: connection)
    }
    changes.realms += added
    if added > 0 {
      let count = try connection.query(
        "SELECT COUNT(*) AS count FROM remote_realms WHERE server_id = $1", .integer(server)
      ).returned.int64("count")
      guard count <= most else { throw TooManyRealms() }
    }
    try Reports.count(changes.events, of: server, on: connection)
    return changes
  }

  /// A realm that is missing from its server's latest list.
  package struct MissingRealm: Sendable {
    fileprivate let id: Int64
    fileprivate let realmID: Int64
  }

  package static func missing(
    from realms: [RealmDescription], server: Int64, on connection: any Connection
  ) throws -> [MissingRealm] {
    let listed = Set(realms.map(\.uuid))
    return try connection.query(
      "SELECT id, realm_id, uuid FROM remote_realms WHERE server_id = $1 AND is_locally_deleted = 0",
      .integer(server)
    ).compactMap { row in
      guard !listed.contains(try row.uuid("uuid")) else { return nil }
      return MissingRealm(id: try row.int64("id"), realmID: try row.optionalInt64("realm_id") ?? 0)
    }
  }

  /// Marks as deleted those realms that are still the server's.
  @discardableResult
  package func markDeleted(
    _ missing: ArraySlice<MissingRealm>, server: Int64, on connection: any Connection
  ) throws -> Changes {
    var changes = Changes()
    for realm in missing {
      let marked = try connection.run(
        """
        UPDATE remote_realms SET is_locally_deleted = 1 WHERE id = $1 AND server_id = $2 AND is_locally_deleted = 0
        """, .integer(realm.id), .integer(server))
      guard marked == 1 else { continue }
      changes.realms += 1
      try audit(.locallyDeleted, realm: realm.realmID, server: server, &changes, on: connection)
    }
    try Reports.count(changes.events, of: server, on: connection)
    return changes
  }

  /// Returns false if the realm exists already.
  private func insert(_ realm: RealmDescription, server: Int64, on connection: any Connection) throws -> Bool
  {
    try connection.run(
      Statement(
        """
        INSERT INTO remote_realms
          (uuid, realm_id, host, name, is_system_bot_realm, authentication_methods, org_type, is_deactivated,
           server_id, owner_secret_hash, date_created, is_locally_deleted)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0)
        ON CONFLICT (uuid) DO NOTHING
        """,
        arguments: [.text(realm.uuid.canonical)] + attributes(of: realm, server: server))) == 1
  }

  private func attributes(of realm: RealmDescription, server: Int64) -> [Value] {
    realm.attributes + [
      .integer(server), .bytes(storageKey.hash(realm.ownerSecret, for: Self.ownerSecretPurpose)),
      .integer(realm.dateCreated.milliseconds),
    ]
  }

  private func update(
    _ before: KnownRealm, to realm: RealmDescription, server: Int64, _ changes: inout Changes,
    on connection: any Connection
  ) throws {
    if before.isLocallyDeleted || before.realm.attributes != realm.attributes {
      changes.realms += 1
      try connection.run(
        Statement(
          "UPDATE remote_realms SET \(setAttributes) WHERE id = $1",
          arguments: [.integer(before.id)] + realm.attributes))
    }
    for change in before.changes(to: realm) {
      try audit(.valueUpdated, change, realm: realm.realmID, server: server, &changes, on: connection)
    }
    if before.isLocallyDeleted {
      try audit(.locallyDeletedRestored, realm: realm.realmID, server: server, &changes, on: connection)
    }
  }

  private func audit(
    _ event: RealmEvent, _ extraData: String = "{}", realm: Int64, server: Int64,
    _ changes: inout Changes, on connection: any Connection
  ) throws {
    changes.events += 1
    changes.weight += Reports.weight(extraData.utf8.count)
    try connection.run(
      """
      INSERT INTO remote_realm_audit_log
        (server_id, realm_id, event_type, event_time, backfilled, extra_data)
      VALUES ($1, $2, $3, $4, 0, $5)
      """,
      .integer(server), .integer(realm), .integer(event.rawValue), .integer(now().milliseconds),
      .text(extraData))
  }
}

/// SQL for what an upload may change of a realm; its arguments from `$2` on are
/// ``RealmDescription/attributes``.
private let setAttributes = """
  realm_id = $2, host = $3, name = $4, is_system_bot_realm = $5, authentication_methods = $6, org_type = $7,
  is_deactivated = $8, is_locally_deleted = 0
  """

extension RealmDescription {
  fileprivate var attributes: [Value] {
    [
      .integer(realmID), .text(host), .text(name), .flag(isSystemBotRealm), .text(authenticationMethods),
      .integer(orgType), .flag(isDeactivated),
    ]
  }
}

/// A realm before a sync.
private struct KnownRealm {
  static let select = """
    SELECT id, is_locally_deleted, uuid, realm_id, host, name, is_system_bot_realm, authentication_methods,
      org_type, is_deactivated, date_created
    FROM remote_realms WHERE server_id = $1 AND uuid IN ($list)
    """

  let id: Int64
  let isLocallyDeleted: Bool
  /// The realm without its secret, of which only a hash is stored.
  let realm: RealmDescription

  init(row: Row) throws {
    id = try row.int64("id")
    isLocallyDeleted = try row.flag("is_locally_deleted")
    realm = RealmDescription(
      realmID: try row.optionalInt64("realm_id") ?? 0, uuid: try row.uuid("uuid"), ownerSecret: "",
      host: try row.text("host"),
      name: try row.text("name"), orgType: try row.int64("org_type"),
      dateCreated: try row.date("date_created"),
      isDeactivated: try row.flag("is_deactivated"), isSystemBotRealm: try row.flag("is_system_bot_realm"),
      authenticationMethods: try row.text("authentication_methods"))
  }

  /// The changed attributes as JSON, each with its old and new value, in the order in which they are audited.
  func changes(to new: RealmDescription) -> [String] {
    func json(_ text: String) -> String {
      let encoder = JSONEncoder()
      encoder.outputFormatting = .withoutEscapingSlashes
      // Encoding a text never fails.
      return (try? encoder.encode(text)).map { String(decoding: $0, as: UTF8.self) } ?? "null"
    }
    return [
      ("host", json(realm.host), json(new.host)), ("org_type", "\(realm.orgType)", "\(new.orgType)"),
      ("name", json(realm.name), json(new.name)),
      ("authentication_methods", realm.authenticationMethods, new.authenticationMethods),
      ("realm_deactivated", "\(realm.isDeactivated)", "\(new.isDeactivated)"),
      ("is_system_bot_realm", "\(realm.isSystemBotRealm)", "\(new.isSystemBotRealm)"),
    ].filter { !$0.1.utf8.elementsEqual($0.2.utf8) }.map { name, old, new in
      #"{"attr_name":"\#(name)","old_value":\#(old),"new_value":\#(new)}"#
    }
  }
}

extension RealmSync {
  /// Seconds for which a proof of a hostname counts as proof that the server has moved to it.
  private static let proofLifetime: TimeInterval = 3600

  /// A realm that has moved from one server to another.
  package struct Takeover: Sendable, Hashable {
    package let realm: UUID
    /// Row id of the server that had it.
    package let previousServer: Int64
    /// Whether the new server knew the owner secret, so that the registrations stay.
    package let keepsRegistrations: Bool
  }

  /// Moves a realm to a server if its present one has released it, by deactivating it or by being
  /// deactivated; or if the operator has released it; or if the present server is the same server under another
  /// hostname (``hasMoved(_:to:with:on:)``).
  ///
  /// A server that knows the owner secret has the realm's own data: its registrations stay, except those
  /// under a user's number, which may be another user's there. With another secret it is a different realm,
  /// and the registrations end.
  ///
  /// - Parameters:
  ///   - realms: all realms that the server lists.
  ///   - moved: the servers that turned out to be this one. The caller moves their legacy registrations.
  /// - Returns: nil if the realm stays because the server lists it as deactivated.
  /// - Throws: ``DuplicateRealm`` if the realm is not free.
  func takeOver(
    _ realm: RealmDescription, of realms: [RealmDescription], server: Int64, moved: inout Set<Int64>,
    on connection: any Connection
  ) throws -> Takeover? {
    guard let row = try connection.query(selectOwned, .text(realm.uuid.canonical)).first else {
      throw DuplicateRealm(realm: realm.uuid)
    }
    let id = try row.int64("id")
    let owner = try row.int64("server_id")
    guard owner != server else { throw DuplicateRealm(realm: realm.uuid) }
    // A server still lists a realm that it has released, as deactivated.
    guard !realm.isDeactivated else { return nil }
    let isReleased = try row.optionalDate("released_until").map { now() < $0 } ?? false
    let isFree = try row.flag("is_deactivated") || isReleased || row.optionalInt64("deactivated_at") != nil
    let isSame = storageKey.matches(
      realm.ownerSecret, hash: try row.bytes("owner_secret_hash"), for: Self.ownerSecretPurpose)
    if !isFree, !moved.contains(owner) {
      guard isSame, try hasMoved(owner, to: server, with: realms, on: connection) else {
        throw DuplicateRealm(realm: realm.uuid)
      }
      moved.insert(owner)
    }
    let taken = try connection.run(
      Statement(
        """
        UPDATE remote_realms SET \(setAttributes), server_id = $9, owner_secret_hash = $10, date_created = $11,
          last_request_at = NULL, released_until = NULL
        WHERE id = $1 AND server_id = $12
        """,
        arguments: [.integer(id)] + attributes(of: realm, server: server) + [.integer(owner)]))
    guard taken == 1 else { throw DuplicateRealm(realm: realm.uuid) }
    if !isSame {
      try connection.run(
        "DELETE FROM registrations WHERE realm_id = $1 AND token_id IS NOT NULL", .integer(id))
      try connection.run(deleteLegacy, .integer(owner), .integer(id))
    } else if !moved.contains(owner) {
      try connection.run("\(deleteLegacy) AND user_id IS NOT NULL", .integer(owner), .integer(id))
      try moveLegacyRegistrations(ofRealm: id, from: owner, to: server, on: connection)
    }
    return Takeover(realm: realm.uuid, previousServer: owner, keepsRegistrations: isSame)
  }

  /// Whether `server` is `owner` under a new hostname (`Documentation/Decisions` 0026): it has proved its
  /// hostname within the hour, later than the other one if that did too, and it lists every realm of the
  /// other with the right owner secret.
  private func hasMoved(
    _ owner: Int64, to server: Int64, with realms: [RealmDescription], on connection: any Connection
  ) throws -> Bool {
    let now = now()
    let lastProof = Statement(
      """
      SELECT server_id FROM remote_server_audit_log
      WHERE event_type = $1 AND server_id IN ($2, $3) AND event_time BETWEEN $4 AND $5 ORDER BY id DESC LIMIT 1
      """, .integer(ServerEvent.keyTransferred.rawValue), .integer(owner), .integer(server),
      .integer((now - Self.proofLifetime).milliseconds), .integer(now.milliseconds))
    guard try connection.query(lastProof).first?.int64("server_id") == server else { return false }
    let secrets = Dictionary(realms.map { ($0.uuid, $0.ownerSecret) }) { first, _ in first }
    return try connection.query(
      "SELECT uuid, owner_secret_hash FROM remote_realms WHERE server_id = $1 AND is_locally_deleted = 0",
      .integer(owner)
    ).allSatisfy { row in
      guard let secret = secrets[try row.uuid("uuid")] else { return false }
      return storageKey.matches(
        secret, hash: try row.bytes("owner_secret_hash"), for: Self.ownerSecretPurpose)
    }
  }

  /// Moves legacy registrations to a realm's new server.
  ///
  /// - Parameter realm: row id; nil for all of the former server's registrations.
  func moveLegacyRegistrations(
    ofRealm realm: Int64?, from owner: Int64, to server: Int64, on connection: any Connection
  ) throws {
    // Registrations that a phone has made with the new server already are not duplicated.
    try connection.run(
      """
      \(deleteLegacy) AND EXISTS (
        SELECT 1 FROM registrations n WHERE +n.server_id = $3
          AND (n.user_uuid = registrations.user_uuid OR n.user_id = registrations.user_id)
          AND n.kind = registrations.kind AND n.token_hash = registrations.token_hash)
      """, .integer(owner), .integer(realm), .integer(server))
    let rows = try connection.query(
      "SELECT id, user_id, user_uuid, token FROM \(ofLegacy)", .integer(owner), .integer(realm))
    for row in rows {
      // A sealed token is bound to its server, so it is sealed anew. A row whose token does not open is left,
      // for a node that can open it.
      let user = try row.value("user_id")
      let uuid = try row.value("user_uuid")
      func place(_ server: Int64) -> SealedPlace {
        RegistrationStore.place(server: server, user: user, uuid: uuid)
      }
      guard let token = storageKey.open(try row.bytes("token"), at: place(owner)) else { continue }
      try connection.run(
        "UPDATE registrations SET server_id = $2, token = $3 WHERE id = $1", .integer(try row.int64("id")),
        .integer(server), .bytes(storageKey.seal(token, at: place(server))))
    }
  }
}

private let selectOwned = """
  SELECT r.id, r.server_id, r.owner_secret_hash, r.is_deactivated, r.released_until, s.deactivated_at
  FROM remote_realms r JOIN remote_servers s ON s.id = r.server_id WHERE r.uuid = $1
  """
private let ofLegacy =
  "registrations WHERE wire = \(Wire.legacy.sql) AND server_id = $1 AND (realm_id = $2 OR $2 IS NULL)"
private let deleteLegacy = "DELETE FROM \(ofLegacy)"
