import Basics
import Delivery
import Foundation
package import HTTP
import HTTPClient
import Logging
import NIOCore
package import Providers
import Registrations
package import Sealing

/// A request of `push/e2ee/notify`: notifications for several devices.
package struct NotifyRequest: Sendable {
  /// Nesting depth to which a body is read: ``Item/maximumDepth``, the levels around a payload, and one more,
  /// so that a payload that is too deep can be recognized.
  static let depth = Item.maximumDepth + 4

  /// Maximum number of items in a request. Stock servers send one for each device of one user.
  static let mostItems = 1000

  package private(set) var items: [Item]
  /// Its members that are not known here, a JSON object, if they may have to be passed on; nil for none.
  private(set) var more: String?
  /// The items that cannot be sent.
  private(set) var faults = ItemFaults()
  /// Its members and values that are not known here.
  private(set) var additions = Additions()

  package init(_ items: [Item]) { self.items = items }

  /// Reads a body. Items that cannot be read are left out, because a refused request loses all of its
  /// notifications for good. If no item can be read, or there are more than any server sends, the request is refused.
  ///
  /// - Parameter keepingSources: whether items may have to be passed on as they came.
  init(_ body: Field, keepingSources: Bool = false) throws(APIError) {
    items = []
    additions.addMembers(of: body.value, except: Known.request)
    let others = keepingSources ? Additions.members(of: body.value, except: Known.request) : [:]
    if !others.members.isEmpty { more = JSON.object(others).text }
    let elements = try body["push_requests"].elements()
    guard elements.count <= Self.mostItems else {
      throw body["push_requests"].error("has too many elements (limit: \(Self.mostItems))")
    }
    for element in elements {
      do throws(ItemFault) {
        items.append(try Item(element, keepingSource: keepingSources, &additions))
      } catch {
        faults.add(error)
      }
    }
    if items.isEmpty, let error = faults.first { throw error }
  }

  /// The names of the members that are known, made once.
  fileprivate enum Known {
    static let request: [Name] = ["realm_uuid", "push_requests"]
    static let item: [Name] = ["token_id", "http_headers", "fcm_priority", "payload"]
    static let headers: [Name] = ["apns_priority", "apns_push_type"]
    static let payload: [Name] = ["push_key_id", "encrypted_data", "aps"]
  }

  /// Bytes of memory that it takes, about.
  var memory: Int { items.reduce(0) { $0 + $1.memory } }

  /// One notification for one token.
  package struct Item: Sendable {
    /// The item as it was sent, JSON; nil unless it may have to be passed on.
    private(set) var source: ByteBuffer?
    /// The unencrypted part, for the provider.
    package enum Shape: Sendable {
      /// The part for APNs. `aps` is passed on unchecked, because its members change with each version of chat servers.
      case apns(pushType: APNsNotification.PushType, priority: Int, aps: JSON.Object?)
      /// The part for FCM.
      case fcm(priority: FCMMessage.Priority)
    }

    /// Deepest nesting of a payload.
    static let maximumDepth = 64

    package let tokenID: TokenID
    package let pushKeyID: Int64
    /// The ciphertext for the phone, in base64.
    package let encryptedData: String
    package private(set) var shape: Shape
    /// The body for APNs; empty for FCM.
    let payload: ByteBuffer
    /// The data for FCM, whose values are text; empty for APNs.
    let data: [String: String]
  }
}

extension NotifyRequest.Item {
  package init(tokenID: TokenID, pushKeyID: Int64, encryptedData: String, _ shape: Shape) throws(ItemFault) {
    self.tokenID = tokenID
    self.pushKeyID = pushKeyID
    self.encryptedData = encryptedData
    self.shape = shape
    let isWithinLimits: Bool
    switch shape {
    case .apns(let pushType, _, let aps):
      let json: JSON = [
        "push_key_id": .integer(pushKeyID), "encrypted_data": .string(encryptedData),
        "aps": aps.map(JSON.object) ?? Self.placeholder,
      ]
      payload = ByteBuffer(bytes: json.bytes)
      data = [:]
      isWithinLimits = payload.readableBytes <= APNsNotification.maximumPayload(pushType)
    case .fcm:
      payload = ByteBuffer()
      data = ["push_key_id": String(pushKeyID), "encrypted_data": encryptedData]
      isWithinLimits = FCMMessage.size(of: data) <= FCMMessage.maximumData
    }
    guard isWithinLimits else { throw .tooLarge }
  }

  /// The text that a phone shows until its app has decrypted the rest.
  private static let placeholder: JSON = [
    "mutable-content": 1, "alert": ["title": .string(Zulip.placeholder)],
  ]

  /// An item with `http_headers` is for APNs, one with `fcm_priority` for FCM. Unknown members are ignored, and unknown
  /// values count as the default of Apple and Google, since the notification would be lost otherwise.
  fileprivate init(
    _ field: Field, keepingSource: Bool, _ additions: inout Additions
  ) throws(ItemFault) {
    let payload = field["payload"]
    additions.addMembers(
      of: field.value, at: "push_requests[]",
      except: NotifyRequest.Known.item)
    additions.addMembers(
      of: payload.value, at: "push_requests[].payload",
      except: NotifyRequest.Known.payload)
    let (id, keyID, data, shape): (TokenID, Int64, String, Shape)
    do throws(APIError) {
      guard let known = TokenID(base64: try field["token_id"].string()) else {
        throw field["token_id"].error("has invalid format")
      }
      id = known
      var apns: (pushType: APNsNotification.PushType, priority: Int)?
      var fcm = FCMMessage.Priority.normal
      if let headers = field["http_headers"].present {
        additions.addMembers(
          of: headers.value, at: "push_requests[].http_headers",
          except: NotifyRequest.Known.headers)
        let type: APNsNotification.PushType = try headers["apns_push_type"].choice(
          or: .alert, &additions)
        apns = (type, try Self.priority(headers["apns_priority"], of: type, &additions))
      } else if let priority = field["fcm_priority"].present {
        fcm = try priority.choice(or: .normal, &additions)
      } else {
        throw field["http_headers"].error("field is missing")
      }
      keyID = try payload["push_key_id"].integer()
      data = try payload["encrypted_data"].string()
      shape =
        if let apns {
          .apns(
            pushType: apns.pushType, priority: apns.priority, aps: try payload["aps"].ifSent?.members())
        } else {
          .fcm(priority: fcm)
        }
    } catch {
      throw .malformed(error)
    }
    guard (payload.value?.depth ?? 0) <= Self.maximumDepth else { throw .tooDeep }
    try self.init(tokenID: id, pushKeyID: keyID, encryptedData: data, shape)
    if keepingSource { source = field.value.map { ByteBuffer(bytes: $0.bytes) } }
    // `aps` is in the payload and in the source, where it takes a fraction of the memory.
    if case .apns(let pushType, let priority, _) = shape {
      self.shape = .apns(pushType: pushType, priority: priority, aps: nil)
    }
  }

  var memory: Int {
    512 + 2 * encryptedData.utf8.count + payload.readableBytes + (source?.readableBytes ?? 0)
  }

  private static func priority(
    _ field: Field, of type: APNsNotification.PushType, _ additions: inout Additions
  ) throws(APIError) -> Int {
    guard case .integer(let priority) = try field.existing() else { throw .invalid(field.path) }
    if [10, 5, 1].contains(priority) { return Int(priority) }
    additions.addValue("\(priority)", of: field.name)
    // Apple refuses a background push of any other.
    return type == .background ? 5 : 10
  }

  /// An item of the built-in server as JSON.
  package var json: JSON {
    var payload: JSON.Object = [
      "push_key_id": .integer(pushKeyID), "encrypted_data": .string(encryptedData),
    ]
    switch shape {
    case .apns(let pushType, let priority, let aps):
      if let aps { payload["aps"] = .object(aps) }
      return [
        "token_id": .string(tokenID.base64),
        "http_headers": [
          "apns_priority": .integer(Int64(priority)), "apns_push_type": .string(pushType.rawValue),
        ],
        "payload": .object(payload),
      ]
    case .fcm(let priority):
      return [
        "token_id": .string(tokenID.base64), "fcm_priority": .string(priority.rawValue),
        "payload": .object(payload),
      ]
    }
  }

  package var kind: PushToken.Kind {
    if case .apns = shape { .apns } else { .fcm }
  }

  /// Whether it only removes notifications. In Zulip only what is shown is urgent.
  var isBackground: Bool {
    switch shape {
    case .apns(let pushType, _, _): pushType == .background
    case .fcm(let priority): priority == .normal
    }
  }

  /// Whether it may be a test: it is shown, and short. What is sealed cannot be read.
  var mayBeTest: Bool {
    let sealed = encryptedData.utf8.count / 4 * 3
    return !isBackground && (SecretBox.overhead + 1...SecretBox.overhead + Self.longestTest).contains(sealed)
  }

  /// Maximum size in bytes of a test. A message has its ids, sender and content as well, and is longer.
  private static let longestTest = 200

  /// The JSON for Web Push.
  var body: ByteBuffer {
    let body: JSON = ["push_key_id": .integer(pushKeyID), "encrypted_data": .string(encryptedData)]
    return ByteBuffer(bytes: body.bytes)
  }

  /// The push for a registration; nil for an APNs registration that names no app.
  func push(for registration: Registration) throws(ItemFault) -> Push? {
    switch shape {
    case .apns(let pushType, let priority, _):
      guard let topic = registration.iosAppID else { return nil }
      return .apns(
        APNsNotification(
          token: registration.token.text, topic: topic, payload: payload, pushType: pushType,
          priority: priority, environment: registration.environment))
    case .fcm(let priority):
      return try Push(toAndroid: registration.token, data: data, body: body, priority: priority)
    }
  }
}

extension Field {
  /// The text as one of the cases; `usual` if it is unknown.
  fileprivate func choice<Choice: RawRepresentable>(
    or usual: Choice, _ additions: inout Additions
  ) throws(APIError) -> Choice where Choice.RawValue == String {
    guard let text = try existing().string else { throw APIError.invalid(path) }
    if let choice = Choice(rawValue: text) { return choice }
    additions.addValue(text, of: name)
    return usual
  }
}
