import Foundation
import NIOHPACK

/// The headers of a notification that APNs looks at, checked in one pass.
struct APNsHeaders {
  private(set) var method = ""
  private(set) var path = ""
  private(set) var authorization: String?
  private(set) var topic: String?
  private(set) var pushType: String?
  private(set) var priority: String?
  private(set) var expiration: String?
  private(set) var id: String?
  private(set) var collapseID: String?
  private(set) var hasDuplicates = false

  init(_ headers: HPACKHeaders) {
    for (name, value, _) in headers {
      switch name {
      case ":method": method = value
      case ":path": path = value
      case "authorization": take(value, \.authorization)
      case "apns-topic": take(value, \.topic)
      case "apns-push-type": take(value, \.pushType)
      case "apns-priority": take(value, \.priority)
      case "apns-expiration": take(value, \.expiration)
      case "apns-id": take(value, \.id)
      case "apns-collapse-id": take(value, \.collapseID)
      default: break
      }
    }
  }

  private mutating func take(_ value: String, _ field: WritableKeyPath<APNsHeaders, String?>) {
    if self[keyPath: field] != nil { hasDuplicates = true }
    self[keyPath: field] = value
  }

  static let pushTypes: Set<String> = [
    "alert", "background", "complication", "controls", "fileprovider", "liveactivity", "location", "mdm",
    "pushtotalk", "voip", "widgets",
  ]

  /// The device token in the path.
  func token() throws(APNsRefusal) -> String {
    guard path.hasPrefix("/3/device/") else { throw .badPath }
    let token = path.dropFirst(10)
    guard !token.isEmpty else { throw .missingDeviceToken }
    guard token.utf8.count >= 6, token.utf8.count.isMultiple(of: 2),
      token.utf8.allSatisfy({ byte in
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
          UInt8(ascii: "A")...UInt8(ascii: "F"):
          true
        default: false
        }
      })
    else { throw .badDeviceToken }
    return String(token)
  }

  /// Checks all but the path and the authorization; returns the topic.
  func check(topics: Set<String>) throws(APNsRefusal) -> String {
    guard let topic, !topic.isEmpty else { throw .missingTopic }
    guard topics.contains(topic) else { throw .topicDisallowed }
    guard let pushType, Self.pushTypes.contains(pushType) else { throw .invalidPushType }
    guard topic.hasSuffix(".voip") == (pushType == "voip") else { throw .topicDisallowed }
    guard priority == nil || priority == "10" || priority == "5" || priority == "1",
      pushType != "background" || priority == "5" || priority == "1"
    else { throw .badPriority }
    if let expiration, Int64(expiration).map({ $0 < 0 }) ?? true { throw .badExpirationDate }
    if let id, UUID(uuidString: id) == nil { throw .badMessageID }
    if let collapseID, collapseID.utf8.count > 64 { throw .badCollapseID }
    return topic
  }
}
