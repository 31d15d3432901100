package import HTTP
internal import NIOCore
package import Providers
package import Sealing

/// What `push/e2ee/notify` is to send: a notification for each of some devices.
package struct NotifyRequest: Sendable {
  /// One notification for one token.
  package struct Item: Sendable {
    /// How a notification goes to its provider, who cannot read it.
    package enum Shape: Sendable {
      /// As chat servers may have APNs handle it. What may stand in `aps` changes with each of their versions.
      case apns(pushType: APNsNotification.PushType, priority: Int, aps: JSON.Object?)
      case fcm(priority: FCMMessage.Priority)
    }

    /// What a chat server may say to APNs.
    struct APNsContent {
      let pushType: APNsNotification.PushType
      let priority: Int
      let payload: ByteBuffer
    }

    /// What a chat server may say to FCM.
    struct FCMContent {
      let priority: FCMMessage.Priority
      let pushKeyID: Int64
      let encryptedData: String

      /// As FCM takes it, which knows nothing but text.
      var data: [String: String] { ["push_key_id": String(pushKeyID), "encrypted_data": encryptedData] }

      /// As JSON, for Web Push.
      var body: ByteBuffer {
        let body: JSON = ["push_key_id": .integer(pushKeyID), "encrypted_data": .string(encryptedData)]
        return ByteBuffer(bytes: body.bytes)
      }
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

  private(set) var items: [Item] = []
  /// What cannot be sent.
  private(set) var faults = ItemFaults()

  /// For nobody yet.
  package init() {}

  /// Adds a notification; one that cannot be sent is left out.
  package mutating func add(_ item: @autoclosure () throws(ItemFault) -> Item) {
    do throws(ItemFault) {
      items.append(try item())
    } catch {
      faults.add(error)
    }
  }

  /// A body whose items can be read, or some of them: a refused request loses all its notifications for good, so
  /// one that cannot be sent goes alone. Nothing is lost by refusing one of which nothing could be read.
  init(_ body: Field) throws(APIError) {
    for element in try body["push_requests"].elements() { add(try Item(element)) }
    if items.isEmpty, let error = faults.first { throw error }
  }
}

extension NotifyRequest.Item {
  /// How deep a payload may be nested.
  static let maximumDepth = 64

  /// A notification by its parts.
  ///
  /// - Parameter encryptedData: what the phone opens, in base64.
  package init(tokenID: TokenID, pushKeyID: Int64, encryptedData: String, _ shape: Shape) throws(ItemFault) {
    self.tokenID = tokenID
    switch shape {
    case .apns(let pushType, let priority, let aps):
      let payload: JSON = [
        "push_key_id": .integer(pushKeyID), "encrypted_data": .string(encryptedData),
        "aps": aps.map(JSON.object) ?? Self.placeholder,
      ]
      content = .apns(
        APNsContent(pushType: pushType, priority: priority, payload: ByteBuffer(bytes: payload.bytes)))
    case .fcm(let priority):
      content = .fcm(FCMContent(priority: priority, pushKeyID: pushKeyID, encryptedData: encryptedData))
    }
    guard content.isWithinLimits else { throw .tooLarge }
  }

  /// What a phone shows until its app has decrypted the rest.
  private static let placeholder: JSON = [
    "mutable-content": 1, "alert": ["title": .string(Zulip.placeholder)],
  ]

  /// An item with `http_headers` is for APNs, one with `fcm_priority` for FCM. Members that nobody knows are
  /// passed over.
  fileprivate init(_ field: Field) throws(ItemFault) {
    let payload = field["payload"]
    let (id, keyID, data, shape): (TokenID, Int64, String, Shape)
    do throws(APIError) {
      guard let known = TokenID(base64: try field["token_id"].string()) else {
        throw field["token_id"].error("has invalid format")
      }
      id = known
      if let headers = field["http_headers"].present {
        guard case .integer(let priority) = try headers["apns_priority"].existing(),
          [10, 5, 1].contains(priority)
        else { throw APIError.invalid(headers["apns_priority"].path) }
        let pushType = try headers["apns_push_type"].choice(APNsNotification.PushType.self)
        (keyID, data) = try Self.sealed(payload)
        shape = .apns(
          pushType: pushType, priority: Int(priority), aps: try payload["aps"].ifSent?.members())
      } else if let priority = field["fcm_priority"].present {
        let priority = try priority.choice(FCMMessage.Priority.self)
        (keyID, data) = try Self.sealed(payload)
        shape = .fcm(priority: priority)
      } else {
        throw field["http_headers"].error("field is missing")
      }
    } catch {
      throw .malformed(error)
    }
    guard (payload.value?.depth ?? 0) <= Self.maximumDepth else { throw .tooDeep }
    try self.init(tokenID: id, pushKeyID: keyID, encryptedData: data, shape)
  }

  private static func sealed(_ payload: Field) throws(APIError) -> (Int64, String) {
    (try payload["push_key_id"].integer(), try payload["encrypted_data"].string())
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
