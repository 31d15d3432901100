internal import NIOCore
internal import Providers
internal import Sealing
internal import Wire

/// The body of `push/e2ee/notify` (`spec/zulip.md` B.14).
struct NotifyRequest {
  /// One notification for one token.
  struct Item {
    /// What a chat server may say to APNs.
    struct APNsContent {
      let pushType: APNsNotification.PushType
      let priority: Int
      let payload: ByteBuffer
    }

    /// What a chat server may say to FCM.
    struct FCMContent {
      let priority: FCMMessage.Priority
      let data: [String: String]
    }

    /// For whom, and what.
    enum Content {
      case apns(APNsContent)
      case fcm(FCMContent)
    }

    let tokenID: TokenID
    let content: Content

    var kind: PushToken.Kind {
      switch content {
      case .apns: .apns
      case .fcm: .fcm
      }
    }
  }

  let realmUUID: String
  let items: [Item]

  init(_ body: Field) throws(APIError) {
    realmUUID = try body["realm_uuid"].string()
    items = try body["push_requests"].map(Item.init)
  }
}

extension NotifyRequest.Item {
  /// An item with `http_headers` is for APNs, one with `fcm_priority` for FCM.
  fileprivate init(_ field: Field) throws(APIError) {
    guard let id = TokenID(base64: try field["token_id"].string()) else {
      throw field["token_id"].error("has invalid format")
    }
    tokenID = id
    if let headers = field["http_headers"].present {
      content = .apns(try APNsContent(headers: headers, payload: field["payload"]))
    } else if let priority = field["fcm_priority"].present {
      content = .fcm(try FCMContent(priority: priority, payload: field["payload"]))
    } else {
      throw field["http_headers"].error("field is missing")
    }
  }
}

extension NotifyRequest.Item.APNsContent {
  /// What a phone shows until its app has decrypted the rest.
  private static let placeholder: JSON = ["mutable-content": 1, "alert": ["title": "New notification"]]

  fileprivate init(headers: Field, payload: Field) throws(APIError) {
    guard case .integer(let priority) = try headers["apns_priority"].existing(),
      [10, 5, 1].contains(priority)
    else { throw APIError("Invalid \(headers["apns_priority"].path)") }
    self.priority = Int(priority)
    pushType = try headers["apns_push_type"].choice(APNsNotification.PushType.self)
    let body: JSON = [
      "push_key_id": .integer(try payload["push_key_id"].integer()),
      "encrypted_data": .string(try payload["encrypted_data"].string()),
      "aps": try Self.aps(payload["aps"]),
    ]
    self.payload = ByteBuffer(bytes: body.bytes)
  }

  /// Integers, and objects of texts.
  private static func aps(_ field: Field) throws(APIError) -> JSON {
    guard let field = field.ifSent else { return placeholder }
    let object = try field.members()
    for member in object.members {
      switch member.value {
      case .integer: continue
      case .object(let texts):
        for text in texts.members { _ = try field[member.name][text.name].string() }
      default: throw field[member.name].error("is not an integer")
      }
    }
    return .object(object)
  }
}

extension NotifyRequest.Item.FCMContent {
  fileprivate init(priority: Field, payload: Field) throws(APIError) {
    self.priority = try priority.choice(FCMMessage.Priority.self)
    data = [
      "push_key_id": String(try payload["push_key_id"].integer()),
      "encrypted_data": try payload["encrypted_data"].string(),
    ]
  }
}
