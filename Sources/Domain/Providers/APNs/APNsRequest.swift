import Basics
import Crypto
import Foundation
import HTTPClient
import NIOCore
import NIOHPACK

/// A notification as an HTTP/2 request (Apple, "Sending notification requests to APNs").
extension APNsNotification {
  /// - Throws: what is wrong with the notification. A notification whose fields would break the connection
  ///   for other requests, or be misread, is not sent.
  func request(
    from sender: Sender, target topic: String, _ authorization: String
  ) throws(Sender.Unsendable) -> ProviderRequest {
    guard (1...4096).contains(token.utf8.count), token.hasOnlyBytes(where: \.isAlphanumeric) else {
      throw .init(outcome: .suspect(.badDeviceToken))
    }
    guard fits else { throw .init(outcome: .rejected(.payloadTooLarge)) }
    var headers = HPACKHeaders()
    headers.reserveCapacity(12)
    headers.add(name: ":method", value: "POST")
    headers.add(name: ":scheme", value: "https")
    headers.add(name: ":authority", value: sender.origin.authority)
    // Headers that differ with each request stay out of HPACK's table, where they would displace the headers
    // that requests share.
    headers.add(name: ":path", value: "/3/device/" + token, indexing: .neverIndexed)
    headers.add(name: "authorization", value: authorization)
    headers.add(name: "apns-topic", value: topic)
    headers.add(name: "apns-push-type", value: pushType.rawValue)
    headers.add(name: "apns-id", value: id.hyphenated, indexing: .nonIndexable)
    if let priority = priority.map({ priority in
      // Apple refuses 10 for what shows nothing.
      pushType == .background ? min(priority, 5) : priority
    }) {
      headers.add(name: "apns-priority", value: String(priority))
    }
    if let expiration {
      let seconds = Int64(max(0, min(expiration.timeIntervalSince1970, 4_102_444_800)))
      headers.add(name: "apns-expiration", value: String(seconds), indexing: .nonIndexable)
    }
    if let collapseID {
      guard collapseID.utf8.count <= 64, collapseID.utf8.allSatisfy({ (0x20...0x7e).contains($0) }) else {
        throw .init(outcome: .rejected(.badCollapseID))
      }
      headers.add(name: "apns-collapse-id", value: collapseID, indexing: .nonIndexable)
    }
    return ProviderRequest(headers: headers, body: payload)
  }
}

/// APNs' provider token (Apple, "Establishing a token-based connection to APNs"): ES256 over the
/// team and the time, valid for an hour, and not to be changed more often than every 20 minutes.
enum APNsProviderToken {
  /// Age at which a token is renewed.
  static let lifetime: TimeInterval = 45 * 60
  /// Age at which a token is no longer used: some minutes before Apple refuses it.
  static let end: TimeInterval = 57 * 60
  static let limits = TokenCache.Limits(minimumAge: 20 * 60)

  /// `iat` in whole seconds: Apple takes no fractions.
  private struct Claims: Encodable {
    let iss: String
    let iat: Int
  }

  static func make(for credential: APNsCredential, now: Date) -> Result<AccessToken, TokenFailure> {
    let issued = Int(now.timeIntervalSince1970)
    guard let key = try? P256.Signing.PrivateKey(pemRepresentation: credential.privateKey),
      let token = try? JWT.sign(
        header: ["alg": "ES256", "kid": credential.keyID],
        claims: Claims(iss: credential.teamID, iat: issued),
        with: { try key.signature(for: $0).rawRepresentation })
    else { return .failure(.refused(.invalidProviderToken)) }
    let date = Date(timeIntervalSince1970: TimeInterval(issued))
    return .success(
      AccessToken(
        authorization: "bearer \(token)", issuedAt: date, renewAt: date.addingTimeInterval(lifetime),
        expiresAt: date.addingTimeInterval(end)))
  }
}
