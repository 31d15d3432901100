import Basics
import Foundation

@testable import HTTP
@testable import Providers

/// Web Push subscriptions as tokens, their endpoints, and `Retry-After`.
enum WebPushSubscriptionTarget: FuzzTarget {
  static let name = "webpush-subscription"

  static func run(_ bytes: [UInt8]) throws {
    let text = String(decoding: bytes, as: UTF8.self)
    for token in [text, WebPushSubscription.tokenPrefix + Base64URL.encode(bytes)] {
      guard let subscription = try? WebPushSubscription(token: token) else { continue }
      try check(subscription.token.hasBytes(of: token), "a token keeps its spelling")
      let again = try? WebPushSubscription(
        endpoint: subscription.endpoint.url, p256dh: Base64URL.encode(subscription.publicKey),
        auth: Base64URL.encode(subscription.secret))
      try check(again == subscription, "a subscription is what it is made of")
      try check(
        (try? WebPushSubscription(token: again?.token ?? "")) == subscription,
        "its own spelling reads the same")
    }
    try check(Base64URL.decode(Base64URL.encode(bytes)) == bytes, "base64url reads as it is written")
    if let endpoint = WebPushEndpoint(text) { try look(at: endpoint) }
    if let date = RetryAfter.date(text, now: APNsAnswerTarget.now) {
      let pause = date.timeIntervalSince(APNsAnswerTarget.now)
      try check((0...RetryAfter.limit).contains(pause), "nobody makes us wait for \(pause) s")
    }
  }

  private static func look(at endpoint: WebPushEndpoint) throws {
    try check(endpoint.path.hasPrefix("/"), "a path begins with /")
    try check(
      endpoint.host == endpoint.host.lowercased() && !endpoint.host.isEmpty, "a host is in lower case")
    try check((1...65535).contains(endpoint.port), "a port is one")
    let again = WebPushEndpoint(endpoint.origin + endpoint.path)
    let isSame = again.map {
      ($0.host, $0.port, $0.authority, $0.path) == (
        endpoint.host, endpoint.port, endpoint.authority, endpoint.path
      )
    }
    // The path may get a slash that makes it too long.
    try check(
      isSame ?? (endpoint.url.utf8.count >= WebPushEndpoint.maximumBytes - 8), "an origin and a path are all")
  }
}
