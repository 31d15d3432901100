import Foundation
import HTTP
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
    guard provider == .apns || provider == .fcm, text.contains(#""subscription":""#),
      let json = try? JSON.parse(text)
    else { return nil }
    let members = provider == .apns ? json : json["message"]?["data"] ?? .null
    guard let subscription = members["subscription"]?.string else { return nil }
    self.subscription = subscription
    encoding = members["encoding"]?.string
    cryptoKey = members["crypto_key"]?.string
    encryption = members["encryption"]?.string
    body = members["body"]?.string.flatMap(ReceivedPush.decoded).map(Array.init)
    message = members["message"]?.string
    if case .object(let data) = members, provider == .fcm {
      size = data.members.reduce(0) {
        $0 + $1.name.description.utf8.count + ($1.value.string?.utf8.count ?? 0)
      }
    } else {
      size = text.utf8.count
    }
    let expiration = request.headers.first(name: "apns-expiration").flatMap(Double.init)
    self.expiration = expiration == 0 ? nil : expiration
    timeToLive = json["message"]?["android"]?["ttl"]?.string.flatMap { Double($0.dropLast()) }
  }

  var label: String? { body.flatMap(Self.label) }

  /// The label in a body.
  static func label(_ body: [UInt8]) -> String? {
    String(decoding: body.prefix(200), as: UTF8.self).between(World.plaintext, "\"")
  }
}
