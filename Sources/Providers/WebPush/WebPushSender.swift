import Crypto
import Foundation
import NIOCore
import NIOHPACK

/// Sends what goes to one push service.
struct WebPushSender: Sendable {
  /// RFC 8030 wants a `TTL` in each request: four weeks, as FCM has it.
  static let timeToLive = 28 * 86_400

  let authority: String
  let authorized: AuthorizedTransport
  let now: @Sendable () -> Date

  func request(_ message: WebPushMessage, authorization: String) -> Result<ProviderRequest, Unsendable> {
    guard message.body.readableBytes <= WebPushMessage.maximumBody else {
      return .failure(Unsendable(outcome: .rejected(.payloadTooLarge)))
    }
    var headers: HPACKHeaders = [
      ":method": "POST", ":scheme": "https", ":authority": authority,
      ":path": message.subscription.endpoint.path, "authorization": authorization,
      "content-encoding": "aes128gcm", "content-type": "application/octet-stream",
      "ttl": "\(max(0, message.timeToLive ?? Self.timeToLive))", "urgency": message.urgency.rawValue,
    ]
    if let collapseID = message.collapseID {
      headers.add(name: "topic", value: Self.topic(collapseID, for: message.subscription))
    }
    // An empty one would be refused; that the key is a point on the curve was seen when the subscription was read.
    return .success(
      ProviderRequest(
        headers: headers,
        body: (try? WebPushEncryption.encrypt(message.body, for: message.subscription)) ?? ByteBuffer()))
  }

  /// 32 characters of base64url (RFC 8030 section 5.4). The push service cannot tell, and not try out, what they stand for.
  private static func topic(_ collapseID: String, for subscription: WebPushSubscription) -> String {
    let key = SymmetricKey(data: subscription.secret)
    return Base64URL.encode(
      Array(HMAC<SHA256>.authenticationCode(for: Data(collapseID.utf8), using: key)).prefix(24))
  }

  func meaning(of answer: ProviderResponse) -> (outcome: Outcome, remedy: Remedy) {
    let outcome = Outcome(webPush: answer, now: now)
    return (outcome, .afterWebPush(outcome))
  }
}
