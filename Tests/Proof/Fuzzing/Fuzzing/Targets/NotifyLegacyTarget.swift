import NIOCore

@testable import HTTP
@testable import ZulipBouncer

/// Bodies of `push/notify`: what APNs gets is JSON, and the ids of a removal stay numbers, the largest of them.
enum NotifyLegacyTarget: FuzzTarget {
  static let name = "notify-legacy"

  static func run(_ bytes: [UInt8]) throws {
    guard let json = try? JSON.parse(ByteBuffer(bytes: bytes)) else { return }
    let body = Field(json, path: "request")
    _ = try? body["user_uuid"].string()
    _ = try? body["user_id"].integer()
    _ = try? (body["apple_devices"].elements().count, body["android_devices"].elements().count)
    guard let notification = try? LegacyNotification(body) else { return }
    let payload = try? JSON.parse(notification.apnsPayload)
    try check(
      payload?["aps"] != nil || (payload == nil && json.depth >= JSON.maximumDepth), "APNs gets JSON with aps"
    )
    let data = notification.fcmData
    try check(data.keys.allSatisfy(\.isStorable), "an app can read the names of what FCM gets")
    if case .object(let sent)? = json["gcm_payload"], sent["event"]?.string == "remove",
      let ids = data["zulip_message_ids"], sent["zulip_message_ids"]?.string?.isEmpty == false
    {
      let numbers = ids.split(separator: ",").map { Int64($0) }
      try check(numbers.count <= Zulip.maximumRemovals && !numbers.contains(nil), "ids to remove are numbers")
    }
    _ = notification.fcmPriority
  }
}
