internal import Providers

/// What an app sends to subscribe, in the order in which it is checked
/// (`Documentation/Protocols/Nextcloud.md` 5.6).
enum SubscriptionParameters {
  /// A subscription as `endpoint`, `uaPublicKey` and `auth` tell it. That its host may be called is not looked at.
  static func target(endpoint: String, key: String, secret: String) throws(OCSAnswer) -> WebPushSubscription {
    // The endpoint comes last, whatever else is wrong.
    guard isAccepted(key: key, secret: anySecret) else { throw .bad("INVALID_P256DH") }
    guard isAccepted(key: key, secret: secret) else { throw .bad("INVALID_AUTH") }
    guard let target = try? WebPushSubscription(endpoint: endpoint, p256dh: key, auth: secret) else {
      throw .bad("INVALID_ENDPOINT")
    }
    return target
  }

  /// The apps that a subscription is for; nil is no text that can be kept.
  static func appTypes(_ text: String?) throws(OCSAnswer) -> AppTypes {
    guard let text else { throw .bad("INVALID_APP_TYPES") }
    guard text.utf8.count <= AppTypes.maximumBytes else { throw .bad("TOO_MANY_APP_TYPES") }
    return AppTypes(text)
  }

  private static let anyEndpoint = "https://push.example.org/"
  private static let anySecret = "AAAAAAAAAAAAAAAAAAAAAA"

  private static func isAccepted(key: String, secret: String) -> Bool {
    (try? WebPushSubscription(endpoint: anyEndpoint, p256dh: key, auth: secret)) != nil
  }
}
