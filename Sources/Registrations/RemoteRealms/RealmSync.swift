package import Foundation
package import SQL
package import Sealing

/// Takes in the lists of their realms that chat servers send.
package struct RealmSync: Sendable {
  /// A realm is another server's, which has not let it go, or stands in a list twice.
  package struct DuplicateRealm: Error, Hashable {
    package let realm: UUID
  }

  package static let ownerSecretPurpose = StorageKey.Purpose("remote_realms.owner_secret")

  let storageKey: StorageKey
  let now: @Sendable () -> Date

  package init(storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.storageKey = storageKey
    self.now = now
  }

  /// What is written down of a realm's life here, under Zulip's numbers.
  private enum RealmEvent: Int64 {
    case valueUpdated = 20001
    case locallyDeleted = 20003
    case locallyDeletedRestored = 20004
  }

  /// Makes the realms of a server those of the list (`Documentation/Protocols/Zulip.md` 4.3): new ones are
  /// taken in, known ones updated, the others marked as deleted. Each change leaves an audit row.
  ///
  /// - Returns: the realms that were another server's.
  /// - Throws: ``DuplicateRealm``.
  package func apply(
    _ realms: [RealmDescription], server: Int64, on connection: any Connection
  ) throws -> [Takeover] {
    var known: [UUID: KnownRealm] = [:]
    for row in try connection.query(Statement(selectRealms, .integer(server))) {
      let realm = try KnownRealm(row: row)
      known[realm.uuid] = realm
    }
    var takeovers: [Takeover] = []
    var moved: Set<Int64> = []
    for realm in realms {
      if let before = known.removeValue(forKey: realm.uuid) {
        try update(before, to: realm, server: server, on: connection)
      } else if try !insert(realm, server: server, on: connection),
        let takeover = try takeOver(realm, of: realms, server: server, moved: &moved, on: connection)
      {
        takeovers.append(takeover)
      }
    }
    for former in moved {
      try moveLegacyRegistrations(ofRealm: nil, from: former, to: server, on: connection)
    }
    for gone in known.values where !gone.isLocallyDeleted {
      try connection.run(
        Statement("UPDATE remote_realms SET is_locally_deleted = 1 WHERE id = $1", .integer(gone.id)))
      try audit(.locallyDeleted, realm: gone.realmID, server: server, on: connection)
    }
    return takeovers
  }

  /// Returns false if the realm is there.
  private func insert(_ realm: RealmDescription, server: Int64, on connection: any Connection) throws -> Bool
  {
    let inserted = try connection.run(
      Statement(
        """
        INSERT INTO remote_realms
          (server_id, uuid, owner_secret_hash, realm_id, host, name, is_system_bot_realm, authentication_methods,
           org_type, is_deactivated, is_locally_deleted, date_created)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11)
        ON CONFLICT (uuid) DO NOTHING
        """,
        .integer(server), .text(realm.uuid.canonical),
        .bytes(storageKey.hash(realm.ownerSecret, for: Self.ownerSecretPurpose)), .integer(realm.realmID),
        .text(realm.host), .text(realm.name), .flag(realm.isSystemBotRealm),
        .text(realm.authenticationMethods),
        .integer(realm.orgType), .flag(realm.isDeactivated), .integer(realm.dateCreated.milliseconds)))
    return inserted == 1
  }

  private func update(
    _ before: KnownRealm, to realm: RealmDescription, server: Int64, on connection: any Connection
  ) throws {
    let changes = before.changes(to: realm)
    if !changes.isEmpty || before.isLocallyDeleted || before.realmID != realm.realmID {
      try connection.run(
        Statement(
          """
          UPDATE remote_realms SET realm_id = $2, host = $3, name = $4, is_system_bot_realm = $5,
            authentication_methods = $6, org_type = $7, is_deactivated = $8, is_locally_deleted = 0
          WHERE id = $1
          """,
          .integer(before.id), .integer(realm.realmID), .text(realm.host), .text(realm.name),
          .flag(realm.isSystemBotRealm), .text(realm.authenticationMethods), .integer(realm.orgType),
          .flag(realm.isDeactivated)))
    }
    for change in changes {
      try audit(.valueUpdated, change.json, realm: realm.realmID, server: server, on: connection)
    }
    if before.isLocallyDeleted {
      try audit(.locallyDeletedRestored, realm: realm.realmID, server: server, on: connection)
    }
  }

  private func audit(
    _ event: RealmEvent, _ extraData: String = "{}", realm: Int64, server: Int64,
    on connection: any Connection
  ) throws {
    try connection.run(
      Statement(
        """
        INSERT INTO remote_realm_audit_log
          (server_id, realm_id, event_type, event_time, backfilled, extra_data)
        VALUES ($1, $2, $3, $4, 0, $5)
        """,
        .integer(server), .integer(realm), .integer(event.rawValue), .integer(now().milliseconds),
        .text(extraData)))
  }
}

private let selectRealms = """
  SELECT id, uuid, realm_id, host, name, is_system_bot_realm, authentication_methods, org_type, is_deactivated,
    is_locally_deleted
  FROM remote_realms WHERE server_id = $1
  """

/// A realm as it stands before a sync.
private struct KnownRealm {
  let id: Int64
  let uuid: UUID
  let realmID: Int64
  let host: String
  let name: String
  let isSystemBotRealm: Bool
  let authenticationMethods: String
  let orgType: Int64
  let isDeactivated: Bool
  let isLocallyDeleted: Bool

  init(row: Row) throws {
    id = try row.int64(0)
    uuid = try row.uuid(1)
    realmID = try row.optionalInt64(2) ?? 0
    host = try row.text(3)
    name = try row.text(4)
    isSystemBotRealm = try row.flag(5)
    authenticationMethods = try row.text(6)
    orgType = try row.int64(7)
    isDeactivated = try row.flag(8)
    isLocallyDeleted = try row.flag(9)
  }

  /// What differs, in the order in which it is audited.
  func changes(to realm: RealmDescription) -> [Change] {
    [
      Change("host", host, realm.host), Change("org_type", orgType, realm.orgType),
      Change("name", name, realm.name),
      Change("authentication_methods", json: authenticationMethods, realm.authenticationMethods),
      Change("realm_deactivated", isDeactivated, realm.isDeactivated),
      Change("is_system_bot_realm", isSystemBotRealm, realm.isSystemBotRealm),
    ].compactMap(\.self)
  }
}

/// An attribute with its old and its new value, each as JSON.
private struct Change {
  let name: String
  let old: String
  let new: String

  init?<Attribute: Encodable & Equatable>(_ name: String, _ old: Attribute, _ new: Attribute) {
    guard old != new else { return nil }
    self.init(name, json: Self.json(old), Self.json(new))
  }

  init?(_ name: String, json old: String, _ new: String) {
    guard old != new else { return nil }
    self.name = name
    self.old = old
    self.new = new
  }

  var json: String { #"{"attr_name":"\#(name)","old_value":\#(old),"new_value":\#(new)}"# }

  private static func json(_ value: some Encodable) -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .withoutEscapingSlashes
    // Text, integers and flags always encode.
    return (try? encoder.encode(value)).map { String(decoding: $0, as: UTF8.self) } ?? "null"
  }
}
