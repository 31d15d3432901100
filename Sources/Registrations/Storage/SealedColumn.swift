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
