import Foundation
import NIOCore
import NIOHPACK

/// A notification as an HTTP/2 request (Apple, "Sending notification requests to APNs").
enum APNsRequest {
  /// The request, or what is wrong with the notification: what would break the request for the
  /// others on the connection, or be misread, never leaves.
  static func make(
    _ notification: APNsNotification, topic: String, authority: String, authorization: String
  ) -> Result<ProviderRequest, Unsendable> {
    let token = notification.token.utf8
    guard !token.isEmpty, token.count <= 4096, token.allSatisfy(isLetterOrDigit) else {
      return .failure(.init(outcome: .suspect(.badDeviceToken)))
    }
    var headers = HPACKHeaders()
    headers.reserveCapacity(12)
    headers.add(name: ":method", value: "POST")
    headers.add(name: ":scheme", value: "https")
    headers.add(name: ":authority", value: authority)
    // What differs with each request stays out of HPACK's table, where it would push out what is common to all.
    headers.add(name: ":path", value: "/3/device/" + notification.token, indexing: .neverIndexed)
    headers.add(name: "authorization", value: authorization)
    headers.add(name: "apns-topic", value: topic)
    headers.add(name: "apns-push-type", value: notification.pushType.rawValue)
    headers.add(name: "apns-id", value: notification.id.lowercaseText, indexing: .nonIndexable)
    if let priority = notification.priority {
      headers.add(name: "apns-priority", value: String(priority))
    }
    if let expiration = notification.expiration {
      let seconds = Int64(max(0, min(expiration.timeIntervalSince1970, 4_102_444_800)))
      headers.add(name: "apns-expiration", value: String(seconds), indexing: .nonIndexable)
    }
    if let collapseID = notification.collapseID {
      guard collapseID.utf8.count <= 64, collapseID.utf8.allSatisfy({ (0x20...0x7e).contains($0) }) else {
        return .failure(.init(outcome: .rejected(.badCollapseID)))
      }
      headers.add(name: "apns-collapse-id", value: collapseID, indexing: .nonIndexable)
    }
    let body = notification.payload
    return .success(ProviderRequest(headers: headers, body: body))
  }

  private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
      UInt8(ascii: "A")...UInt8(ascii: "Z"):
      true
    default: false
    }
  }
}
