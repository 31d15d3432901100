import Foundation
import JWTKit
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

/// Sends what one key serves, to one of Apple's environments.
struct APNsSender: Sendable {
  let authority: String
  let authorized: AuthorizedTransport
  let now: @Sendable () -> Date

  func request(
    _ notification: APNsNotification, topic: String, authorization: String
  ) -> Result<ProviderRequest, Unsendable> {
    APNsRequest.make(notification, topic: topic, authority: authority, authorization: authorization)
  }

  func meaning(of answer: ProviderResponse) -> (outcome: Outcome, remedy: Remedy) {
    let outcome = Outcome(apns: answer, now: now)
    return (outcome, .afterAPNs(outcome))
  }
}

/// APNs' provider token (Apple, "Establishing a token-based connection to APNs"): ES256 over the
/// team and the time, valid for an hour, and not to be changed more often than every 20 minutes.
enum APNsProviderToken {
  /// When a token is replaced.
  static let lifetime: TimeInterval = 45 * 60
  /// When it serves no more: some minutes before Apple stops to take it.
  static let end: TimeInterval = 57 * 60
  /// The rules that Apple sets.
  static let limits = TokenCache.Limits(minimumAge: 20 * 60)

  /// `iat` in whole seconds: Apple takes no fractions.
  struct Claims: JWTPayload {
    var iss: String
    var iat: Int

    func verify(using algorithm: some JWTAlgorithm) {}
  }

  /// A new token.
  static func make(for credential: APNsCredential, now: Date) async -> Result<AccessToken, TokenFailure> {
    let issued = Int(now.timeIntervalSince1970)
    do {
      let keys = JWTKeyCollection()
      await keys.add(ecdsa: try ES256PrivateKey(pem: credential.privateKey))
      let token = try await keys.sign(
        Claims(iss: credential.teamID, iat: issued),
        header: ["alg": "ES256", "kid": .string(credential.keyID)])
      let date = Date(timeIntervalSince1970: TimeInterval(issued))
      return .success(
        AccessToken(
          authorization: "bearer \(token)", issuedAt: date, renewAt: date.addingTimeInterval(lifetime),
          expiresAt: date.addingTimeInterval(end)))
    } catch {
      return .failure(.refused(.invalidProviderToken))
    }
  }
}

extension UUID {
  /// The UUID in lower case; `uuidString` goes through `printf`.
  var lowercaseText: String {
    String(unsafeUninitializedCapacity: 36) { text in
      withUnsafeBytes(of: uuid) { bytes in
        var end = 0
        func append(_ byte: UInt8) {
          text[end] = byte
          end += 1
        }
        func digit(_ nibble: UInt8) -> UInt8 { nibble < 10 ? 0x30 + nibble : 0x57 + nibble }
        for (index, byte) in bytes.enumerated() {
          if [4, 6, 8, 10].contains(index) { append(UInt8(ascii: "-")) }
          append(digit(byte >> 4))
          append(digit(byte & 0xf))
        }
        return end
      }
    }
  }
}
