package import Delivery
internal import HTTP
package import Providers

/// Web Push of the Nextcloud side: who may subscribe, and the way to those who have
/// (`Documentation/Protocols/Nextcloud.md` 5.6).
package struct NextcloudWebPush: Sendable {
  /// Their subscriptions.
  package let subscriptions: NextcloudSubscriptions
  /// The public key that subscriptions are bound to; nil where Web Push is switched off as a provider.
  let vapidKey: String?
  /// Whether anybody may subscribe, and is sent anything.
  let isEnabled: Bool
  /// `nextcloud.webpush_browsers`: so may those who have signed in with the account's API key.
  let allowsBrowsers: Bool
  /// Whether a subscription's host may be called.
  let accepts: @Sendable (WebPushSubscription) async -> Bool
  /// What is sent goes like everything that providers get: with the outbox behind it.
  let deliverer: Deliverer

  /// Web Push by its parts.
  ///
  /// - Parameter isEnabled: `nextcloud.webpush`, which counts for nothing where there is no key.
  package init(
    subscriptions: NextcloudSubscriptions, vapidKey: String?, isEnabled: Bool, allowsBrowsers: Bool,
    accepts: @escaping @Sendable (WebPushSubscription) async -> Bool, deliverer: Deliverer
  ) {
    self.subscriptions = subscriptions
    self.vapidKey = vapidKey
    self.isEnabled = isEnabled && vapidKey != nil
    self.allowsBrowsers = allowsBrowsers
    self.accepts = accepts
    self.deliverer = deliverer
  }

  /// A user's active subscriptions, if any are sent anything.
  func subscriptions(of user: Int64) async throws -> [NextcloudSubscription] {
    isEnabled ? try await subscriptions.active(of: user) : []
  }

  /// What it adds to the capability `push`.
  var capabilities: [JSON] {
    guard isEnabled else { return [] }
    return allowsBrowsers ? ["webpush", "webpush-browsers"] : ["webpush"]
  }
}
