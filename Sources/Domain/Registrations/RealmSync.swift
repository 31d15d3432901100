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

  func attributes(of realm: RealmDescription, server: Int64) -> [Value] {
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
          "UPDATE remote_realms SET \(RealmDescription.setAttributes) WHERE id = $1",
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

extension RealmDescription {
  /// SQL for what an upload may change of a realm; its arguments from `$2` on are ``attributes``.
  static let setAttributes = """
    realm_id = $2, host = $3, name = $4, is_system_bot_realm = $5, authentication_methods = $6, org_type = $7,
    is_deactivated = $8, is_locally_deleted = 0
    """

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
