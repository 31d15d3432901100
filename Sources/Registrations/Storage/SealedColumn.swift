package import Foundation
package import SQL
package import Sealing

/// The columns whose values are sealed, by table and column, each with what of a row its value is bound to: what a
/// notification finds the row by, and what never changes. Where it does change, the value is sealed anew.
package enum SealedColumn: String, Sendable, CaseIterable {
  case registrationToken = "registrations.token"
  case outboxPush = "outbox.push"
  case ownerSecret = "realms.owner_secret"
  case pushKey = "devices.push_key"
  case userToken = "legacy_tokens.token"
  case unregisteredToken = "legacy_unregistrations.token"
  case nextcloudKey = "nextcloud_keys.private_key"
  case vapidKey = "vapid_keys.private_key"
  case notificationSubject = "nextcloud_notifications.subject"
  case notificationMessage = "nextcloud_notifications.message"
  case notificationObjectType = "nextcloud_notifications.object_type"
  case notificationObjectID = "nextcloud_notifications.object_id"

  /// The table.
  package var table: String { String(rawValue.prefix { $0 != "." }) }

  /// The column in it.
  package var name: String { String(rawValue.drop { $0 != "." }.dropFirst()) }

  /// The columns, or SQL expressions, that a value is bound to.
  package var identity: [String] {
    switch self {
    case .registrationToken:
      // A legacy registration's realm may be told later.
      [
        "CASE WHEN token_id IS NOT NULL THEN realm_id END", "token_id", "server_id", "user_id", "user_uuid",
        "device_identifier", "user_key", "account_id", "endpoint_hash",
      ]
    case .outboxPush: ["registration_id"]
    case .ownerSecret: ["uuid"]
    case .pushKey, .vapidKey: ["id"]
    case .userToken: ["user_id"]
    case .unregisteredToken: ["user_uuid"]
    case .nextcloudKey: ["user_id"]
    case .notificationSubject, .notificationMessage, .notificationObjectType, .notificationObjectID:
      ["user_id", "nid"]
    }
  }

  /// The place of a value in the row with these values of ``identity``.
  package func place(_ row: Value...) -> SealedPlace { place(row) }

  /// The place of a value in the row with these values of ``identity``.
  package func place(_ row: [Value]) -> SealedPlace {
    precondition(row.count == identity.count)
    var place = SealedPlace(column: rawValue)
    for value in row {
      switch value {
      case .null: place.append(nil)
      case .integer(let number): place.append(number)
      case .text(let text): place.append(text: text)
      case .bytes(let bytes): place.append(bytes: bytes)
      }
    }
    return place
  }
}

extension SealedPlace {
  /// Where the token of a registration stands; each wire gives what it knows its registrations by.
  package static func token(
    realm: Value = .null, tokenID: Value = .null, server: Value = .null, user: Value = .null,
    uuid: Value = .null,
    identifier: Value = .null, userKey: Value = .null, account: Value = .null, endpoint: Value = .null
  ) -> SealedPlace {
    SealedColumn.registrationToken.place(
      realm, tokenID, server, user, uuid, identifier, userKey, account, endpoint)
  }
}

extension StorageKey {
  private static let tokenHashPurpose = StorageKey.Purpose("registrations.token_hash")

  /// 64 bits of a keyed hash of a token's canonical spelling: the same for the same
  /// token, whoever registers it. Enough to find rows by; the sealed token has the last word.
  package func tokenHash(of token: PushToken) -> Int64 {
    let hash = hash(token.canonical, for: Self.tokenHashPurpose)
    return Int64(bitPattern: hash.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
  }
}

extension PushToken.Kind {
  /// As the database keeps it, and as Zulip numbers the legacy kinds.
  package var storage: Int64 {
    switch self {
    case .apns: 1
    case .fcm: 2
    }
  }

  package init?(storage: Int64) {
    switch storage {
    case 1: self = .apns
    case 2: self = .fcm
    default: return nil
    }
  }
}

extension StorageKey {
  /// What stands for a Web Push endpoint in the database, so that it is found without being kept in clear.
  package func hash(endpoint url: String) -> [UInt8] {
    hash(url, for: Purpose("registrations.endpoint_hash"))
  }
}

extension Row {
  /// A time kept as milliseconds.
  package func date(_ index: Int) throws(DatabaseError) -> Date {
    Date(milliseconds: try int64(index))
  }

  /// A time kept as milliseconds, or nil for NULL.
  package func optionalDate(_ index: Int) throws(DatabaseError) -> Date? {
    try optionalInt64(index).map(Date.init(milliseconds:))
  }

  /// A UUID kept as text.
  package func uuid(_ index: Int) throws(DatabaseError) -> UUID {
    guard let uuid = UUID(uuidString: try text(index)) else {
      throw DatabaseError(.typeMismatch, "column \(index) holds no UUID")
    }
    return uuid
  }
}

extension Date {
  /// The time as the database keeps it: milliseconds since 1970 UTC.
  package var milliseconds: Int64 { Int64((timeIntervalSince1970 * 1000).rounded()) }

  /// The time of a database's milliseconds.
  package init(milliseconds: Int64) {
    self.init(timeIntervalSince1970: Double(milliseconds) / 1000)
  }

  /// The present cut to what the database can tell apart, so that a time read back is equal.
  package var stored: Date { Date(milliseconds: milliseconds) }
}

extension UUID {
  /// As the database and Zulip's wire spell it: lower case, with hyphens.
  package var canonical: String { uuidString.lowercased() }
}
