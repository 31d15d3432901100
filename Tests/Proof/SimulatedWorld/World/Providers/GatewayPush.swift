import Foundation
import HTTPClient
import NIOHPACK
import Providers

/// What the Web Push gateway has put into a push.
struct GatewayPush: Sendable {
  let subscription: String
  let encoding, cryptoKey, encryption: String?
  /// As the app decodes it; nil if it waits.
  let body: [UInt8]?
  /// Names the body that waits.
  let message: String?
  /// Bytes, of which the provider takes so many.
  let size: Int
  /// Until when the provider keeps it, in seconds since 1970, or for how many seconds; nil: it tries once.
  let expiration, timeToLive: Double?

  /// Returns nil if a push is not the gateway's.
  init?(_ request: ProviderRequest, _ text: String, provider: Route.Provider) {
    // No value has a character that JSON escapes.
    let names = ["subscription", "encoding", "crypto_key", "encryption", "body", "message", "topic"]
    let members = Dictionary(
      uniqueKeysWithValues: names.compactMap { name in
        text.between("\"\(name)\":\"", "\"").map { (name, $0) }
      })
    guard provider == .apns || provider == .fcm, let subscription = members["subscription"] else {
      return nil
    }
    self.subscription = subscription
    (encoding, message) = (members["encoding"], members["message"])
    // As the sender's headers have them.
    cryptoKey = members["crypto_key"].map { "dh=\($0)" }
    encryption = members["encryption"].map { "salt=\($0)" }
    body = members["body"].flatMap(ReceivedPush.decoded).map(Array.init)
    size =
      provider == .apns
      ? text.utf8.count : members.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
    let expiration = request.headers.first(name: "apns-expiration").flatMap(Double.init)
    self.expiration = expiration == 0 ? nil : expiration
    timeToLive = text.between(#""ttl":""#, "s\"").flatMap(Double.init)
  }

  var label: String? { body.flatMap(Self.label) }

  /// The label in a body.
  static func label(_ body: [UInt8]) -> String? {
    String(decoding: body.prefix(200), as: UTF8.self).between(World.plaintext, "\"")
  }
}
