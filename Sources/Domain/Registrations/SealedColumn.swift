import Foundation
package import Providers
package import SQL
package import Sealing

/// The sealed columns, with what each value is bound to: the columns by which a notification finds the row
/// and which never change. Where they do change, the value is sealed again.
package enum SealedColumn: String, Sendable, CaseIterable {
  case registrationToken = "registrations.token"
  case outboxPush = "outbox.push"
  case upstreamKey = "upstream_links.org_key"
  case upstreamNextKey = "upstream_links.next_key"
  case upstreamRealms = "upstream_links.realms"
  case upstreamForm = "upstream_unregistrations.form"
  case ownerSecret = "realms.owner_secret"
  case pushKey = "devices.push_key"
  case userToken = "legacy_tokens.token"
  case unregisteredToken = "legacy_unregistrations.token"
  case nextcloudKey = "nextcloud_keys.private_key"
  case vapidKey = "vapid_keys.private_key"
  case gatewayBody = "gateway_messages.body"
  case notificationSubject = "nextcloud_notifications.subject"
  case notificationMessage = "nextcloud_notifications.message"
  case notificationObjectType = "nextcloud_notifications.object_type"
  case notificationObjectID = "nextcloud_notifications.object_id"

  package var table: String { String(rawValue.prefix { $0 != "." }) }

  package var name: String { String(rawValue.drop { $0 != "." }.dropFirst()) }

  package var identity: [String] {
    switch self {
    case .registrationToken:
      // A legacy registration is not bound to its realm, which may be added later.
      [
        "CASE WHEN token_id IS NOT NULL THEN realm_id END", "token_id", "server_id", "user_id", "user_uuid",
        "device_identifier", "user_key", "account_id", "endpoint_hash",
      ]
    case .outboxPush: ["registration_id"]
    case .upstreamKey, .upstreamNextKey, .upstreamRealms: ["server_id"]
    case .upstreamForm: ["server_id", "user_id", "user_uuid", "token_hash"]
    case .ownerSecret: ["uuid"]
    case .pushKey, .vapidKey, .gatewayBody: ["id"]
    case .userToken: ["user_id"]
    case .unregisteredToken: ["user_uuid"]
    case .nextcloudKey: ["user_id"]
    case .notificationSubject, .notificationMessage, .notificationObjectType, .notificationObjectID:
      ["user_id", "nid"]
    }
  }

  /// The columns of the table's primary key.
  var key: [String] {
    switch self {
    case .nextcloudKey: ["user_id"]
    case .upstreamKey, .upstreamNextKey, .upstreamRealms: ["server_id"]
    case .notificationSubject, .notificationMessage, .notificationObjectType, .notificationObjectID:
      ["user_id", "nid"]
    case .registrationToken, .outboxPush, .upstreamForm, .ownerSecret, .pushKey, .userToken,
      .unregisteredToken,
      .vapidKey, .gatewayBody:
      ["id"]
    }
  }

  /// The sealed place of a value in the row with these values of ``identity``.
  package func place(_ row: Value...) -> SealedPlace { place(row) }

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
  /// The sealed place of a registration's token; the arguments are the columns that identify it on its wire.
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
  /// The first 64 bits of the keyed hash of a text.
  package func number(_ text: String, for purpose: Purpose) -> Int64 {
    hash(text, for: purpose).prefix(8).reduce(0) { $0 << 8 | Int64($1) }
  }

  private static let tokenHashPurpose = StorageKey.Purpose("registrations.token_hash")

  /// 64 bits of a keyed hash of a token's canonical spelling, the same for all registrations of the token. It
  /// serves to find rows; the sealed token is then decisive.
  package func tokenHash(of token: PushToken) -> Int64 {
    number(token.canonical, for: Self.tokenHashPurpose)
  }

  /// A keyed hash of a Web Push endpoint, which is looked up by it and not stored in clear.
  package func hash(endpoint url: String) -> [UInt8] {
    hash(url, for: Purpose("registrations.endpoint_hash"))
  }
}

extension PushToken.Kind {
  /// The value in the database, and Zulip's number of the token kinds.
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
