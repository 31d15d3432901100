internal import NIOCore
internal import Providers
internal import Sealing
internal import Wire

/// The body of `push/e2ee/notify`: a realm, and a notification for each of some devices.
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

  /// How deep a body is read: deeper than ``Item/maximumDepth`` by the levels around a payload, and by one
  /// more, which tells a payload that is too deep.
  static let depth = Item.maximumDepth + 4

  let realmUUID: String
  let items: [Item]
  /// What cannot be sent.
  let faults: ItemFaults

  /// A body whose items can be read, or some of them: a refused request loses all its notifications for good, so
  /// one that cannot be sent goes alone. Nothing is lost by refusing one of which nothing could be read.
  init(_ body: Field) throws(APIError) {
    realmUUID = try body["realm_uuid"].string()
    var items: [Item] = []
    var faults = ItemFaults()
    for element in try body["push_requests"].elements() {
      do throws(ItemFault) {
        items.append(try Item(element))
      } catch {
        faults.add(error)
      }
    }
    if items.isEmpty, let error = faults.first { throw error }
    self.items = items
    self.faults = faults
  }
}

extension NotifyRequest.Item {
  /// How deep a payload may be nested.
  static let maximumDepth = 64

  /// An item with `http_headers` is for APNs, one with `fcm_priority` for FCM. Members that nobody knows are
  /// passed over.
  fileprivate init(_ field: Field) throws(ItemFault) {
    do throws(APIError) {
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
    } catch {
      throw .malformed(error)
    }
    guard (field["payload"].value?.depth ?? 0) <= Self.maximumDepth else { throw .tooDeep }
    guard content.isWithinLimits else { throw .tooLarge }
  }
}

extension NotifyRequest.Item.Content {
  /// Whether its provider takes as much: 4096 bytes, of a call 5120.
  fileprivate var isWithinLimits: Bool {
    switch self {
    case .apns(let content): content.payload.readableBytes <= (content.pushType == .voip ? 5120 : 4096)
    case .fcm(let content): content.data.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count } <= 4096
    }
  }
}

extension NotifyRequest.Item.APNsContent {
  /// What a phone shows until its app has decrypted the rest.
  private static let placeholder: JSON = ["mutable-content": 1, "alert": ["title": "New notification"]]

  /// `aps` goes to Apple as it came: what may stand in it changes with each version of the chat server.
  fileprivate init(headers: Field, payload: Field) throws(APIError) {
    guard case .integer(let priority) = try headers["apns_priority"].existing(),
      [10, 5, 1].contains(priority)
    else { throw APIError("Invalid \(headers["apns_priority"].path)") }
    self.priority = Int(priority)
    pushType = try headers["apns_push_type"].choice(APNsNotification.PushType.self)
    let body: JSON = [
      "push_key_id": .integer(try payload["push_key_id"].integer()),
      "encrypted_data": .string(try payload["encrypted_data"].string()),
      "aps": try payload["aps"].ifSent.map { aps throws(APIError) in .object(try aps.members()) }
        ?? Self.placeholder,
    ]
    self.payload = ByteBuffer(bytes: body.bytes)
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
