import Foundation
import NIOCore
import NIOFoundationCompat
import NIOHPACK

/// A push to APNs, checked as Apple checks it but for the provider token (Apple: "Sending notification requests to
/// APNs").
struct APNsRequest {
  let token: String
  let topic: String
  /// In lower case, as the answer repeats it: made here unless the request names one.
  let id: String

  private static let pushTypes: Set<String> = [
    "alert", "background", "complication", "controls", "fileprovider", "liveactivity", "location", "mdm",
    "pushtotalk", "voip", "widgets",
  ]

  /// The device token that a path names.
  static func token(in path: Substring) throws(APNsFailure) -> String {
    let prefix = "/3/device"
    guard path.hasPrefix(prefix) else { throw .init(.badPath) }
    let rest = path.dropFirst(prefix.count)
    if rest.isEmpty || rest == "/" { throw .init(.missingDeviceToken) }
    guard rest.first == "/", !rest.dropFirst().contains("/") else { throw .init(.badPath) }
    return String(rest.dropFirst())
  }

  /// Checks all but the provider token.
  /// - Parameters:
  ///   - topics: what the key may push to; a bundle also serves its `.voip`, `.complication` and other suffixes.
  ///   - isRegistered: whether a malformed token is to pass all the same.
  init(_ request: Request, token: String, topics: Set<String>, isRegistered: (String) -> Bool)
    throws(APNsFailure)
  {
    var topic: String?
    var pushType: String?
    var priority: String?
    var expiration: String?
    var id: String?
    var collapseID: String?
    func set(_ field: inout String?, _ value: String) throws(APNsFailure) {
      guard field == nil else { throw .init(.duplicateHeaders) }
      field = value
    }
    for (name, value, _) in request.headers {
      switch name {
      case "apns-topic": try set(&topic, value)
      case "apns-push-type": try set(&pushType, value)
      case "apns-priority": try set(&priority, value)
      case "apns-expiration": try set(&expiration, value)
      case "apns-id": try set(&id, value)
      case "apns-collapse-id": try set(&collapseID, value)
      default: break
      }
    }
    if let id, UUID(uuidString: id) == nil { throw .init(.badMessageID) }
    self.id = (id ?? UUID().uuidString).lowercased()
    self.token = token
    guard let topic, !topic.isEmpty else { throw .init(.missingTopic) }
    guard Self.allows(topic, topics) else { throw .init(.topicDisallowed) }
    self.topic = topic
    if let pushType, !Self.pushTypes.contains(pushType) { throw .init(.invalidPushType) }
    if let priority, !["1", "5", "10"].contains(priority) { throw .init(.badPriority) }
    if pushType == "background", priority == "10" { throw .init(.badPriority) }
    if let expiration, UInt32(expiration) == nil { throw .init(.badExpirationDate) }
    if let collapseID, collapseID.utf8.count > 64 { throw .init(.badCollapseID) }
    guard Self.isWellFormed(token) || isRegistered(token) else { throw .init(.badDeviceToken) }
    let limit = pushType == "voip" ? 5120 : 4096
    guard request.body.readableBytes > 0 else { throw .init(.payloadEmpty) }
    guard request.body.readableBytes <= limit else { throw .init(.payloadTooLarge) }
    guard (try? JSONDecoder().decode(Payload.self, from: request.body)) != nil else {
      throw .init(.payloadEmpty)
    }
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

  /// An object with an object `aps`; the rest is the app's business.
  private struct Payload: Decodable {
    enum CodingKeys: CodingKey { case aps }

    init(from decoder: any Decoder) throws {
      _ = try decoder.container(keyedBy: CodingKeys.self).nestedContainer(
        keyedBy: CodingKeys.self, forKey: .aps)
    }
  }
}

/// A push that APNs refuses.
struct APNsFailure: Error {
  var reason: APNsReason

  init(_ reason: APNsReason) {
    self.reason = reason
  }
}
