import Foundation
import HTTP
import NIOCore
import NIOHPACK
import Providers

/// A push to APNs, checked as Apple checks it but for the provider token (Apple: "Sending notification requests to
/// APNs").
enum APNsRequest {
  private static let pushTypes: Set<String> = [
    "alert", "background", "complication", "controls", "fileprovider", "liveactivity", "location", "mdm",
    "pushtotalk", "voip", "widgets",
  ]

  /// The device token that a path names.
  static func token(in path: Substring) throws(Refusal) -> String {
    let prefix = "/3/device"
    guard path.hasPrefix(prefix) else { throw .apns(.badPath) }
    let rest = path.dropFirst(prefix.count)
    if rest.isEmpty || rest == "/" { throw .apns(.missingDeviceToken) }
    guard rest.first == "/", !rest.dropFirst().contains("/") else { throw .apns(.badPath) }
    return String(rest.dropFirst())
  }

  /// The id that the request gives the notification, in lower case, as the answer repeats it.
  static func id(_ headers: HPACKHeaders) throws(Refusal) -> String? {
    let ids = headers["apns-id"]
    guard ids.count <= 1 else { throw .apns(.duplicateHeaders) }
    if let id = ids.first, UUID(uuidString: id) == nil { throw .apns(.badMessageID) }
    return ids.first?.lowercased()
  }

  /// Checks all but the id and the provider token.
  /// - Parameters:
  ///   - topics: what the key may push to; a bundle also serves its `.voip`, `.complication` and other suffixes.
  ///   - isRegistered: whether a malformed token is to pass all the same.
  static func check(_ request: Request, token: String, topics: Set<String>, isRegistered: (String) -> Bool)
    throws(Refusal)
  {
    var topic: String?
    var pushType: String?
    var priority: String?
    var expiration: String?
    var collapseID: String?
    func set(_ field: inout String?, _ value: String) throws(Refusal) {
      guard field == nil else { throw .apns(.duplicateHeaders) }
      field = value
    }
    for (name, value, _) in request.headers {
      switch name {
      case "apns-topic": try set(&topic, value)
      case "apns-push-type": try set(&pushType, value)
      case "apns-priority": try set(&priority, value)
      case "apns-expiration": try set(&expiration, value)
      case "apns-collapse-id": try set(&collapseID, value)
      default: break
      }
    }
    guard let topic, !topic.isEmpty else { throw .apns(.missingTopic) }
    guard allows(topic, topics) else { throw .apns(.topicDisallowed) }
    if let pushType, !pushTypes.contains(pushType) { throw .apns(.invalidPushType) }
    if let priority, !["1", "5", "10"].contains(priority) { throw .apns(.badPriority) }
    if pushType == "background", priority == "10" { throw .apns(.badPriority) }
    if let expiration, UInt32(expiration) == nil { throw .apns(.badExpirationDate) }
    if let collapseID, collapseID.utf8.count > 64 { throw .apns(.badCollapseID) }
    guard isWellFormed(token) || isRegistered(token) else { throw .apns(.badDeviceToken) }
    let limit = pushType == "voip" ? 5120 : 4096
    guard request.body.readableBytes <= limit else { throw .apns(.payloadTooLarge) }
    // An object with an object `aps`; the rest is the app's business.
    guard case .object = (try? JSON.parse(request.body))?["aps"] else { throw .apns(.payloadEmpty) }
  }

  private static func allows(_ topic: String, _ topics: Set<String>) -> Bool {
    if topics.contains(topic) { return true }
    guard let dot = topic.lastIndex(of: ".") else { return false }
    return ["voip", "complication", "pushkit", "push-type"].contains(topic[topic.index(after: dot)...])
      && topics.contains(String(topic[..<dot]))
  }

  /// Hex of any even length from 6 on, so that tests can use short ones; all zeros is the token that cannot exist.
  private static func isWellFormed(_ token: String) -> Bool {
    token.utf8.count >= 6 && token.utf8.count.isMultiple(of: 2) && token.utf8.allSatisfy(\.isHexDigit)
      && token.utf8.contains { $0 != UInt8(ascii: "0") }
  }
}
