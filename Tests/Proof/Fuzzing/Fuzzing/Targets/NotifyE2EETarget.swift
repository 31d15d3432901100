import NIOCore
import Sealing

@testable import HTTP
@testable import Providers
@testable import ZulipBouncer

/// Bodies of `push/e2ee/notify`: what is sent is within the providers' limits, and JSON.
enum NotifyE2EETarget: FuzzTarget {
  static let name = "notify-e2ee"

  static func run(_ bytes: [UInt8]) throws {
    guard let json = try? JSON.parse(ByteBuffer(bytes: bytes), cutBelow: NotifyRequest.depth) else { return }
    let body = Field(json, path: "request")
    _ = try? body["realm_uuid"].string()
    guard let request = try? NotifyRequest(body) else { return }
    for item in request.items {
      try check(TokenID(base64: item.tokenID.base64) == item.tokenID, "a token's id reads as it is written")
      if item.kind == .apns {
        try check(item.payload.readableBytes <= 5120, "APNs takes no more than 5120 bytes")
        let payload = try? JSON.parse(item.payload)
        try check(payload?["encrypted_data"] != nil && payload?["aps"] != nil, "a payload for APNs is whole")
      } else {
        try check(
          (try? JSON.parse(item.body))?["push_key_id"]?.integer, is: item.pushKeyID, "FCM's data is JSON")
      }
    }
  }
}
