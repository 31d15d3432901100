package import Delivery
internal import Foundation
internal import HTTP
package import Providers
internal import Registrations

/// A Web Push subscription that gets a Nextcloud user's notifications without any proxy
/// (`Documentation/Protocols/Nextcloud.md` 5.6).
package struct NextcloudSubscription: Sendable, Hashable {
  /// Who has it: there is one of each.
  package struct Holder: Sendable, Hashable {
    let user: Int64
    /// The app password that the app has signed in with; nil for the account's API key.
    let appPassword: Int64?

    package init(user: Int64, appPassword: Int64?) {
      self.user = user
      self.appPassword = appPassword
    }
  }

  let id: Int64
  let holder: Holder
  /// Where its messages go, and what encrypts them.
  let target: WebPushSubscription
  let appTypes: AppTypes
  /// When it was last registered, in whole milliseconds: one that was renewed since does not end.
  let registeredAt: Date
  /// Whether its push service has called a message too long since.
  let wantsShort: Bool

  /// What deliveries know it by.
  var reference: RegistrationReference {
    RegistrationReference(.nextcloudWebPush, id: id, registeredAt: registeredAt)
  }

  /// Who answers for it: the user, who has chosen the push service.
  var owner: Owner { .user(holder.user) }
}

/// The apps whose notifications a subscription is for, as it was told: names with commas between them.
package struct AppTypes: Sendable, Hashable {
  /// Longer ones are refused.
  static let maximumBytes = 256

  let text: String

  package init(_ text: String) { self.text = text }

  /// Whether notifications of an app are meant: it is named, or `all` is and the app is not with a hyphen before it.
  /// Those that the Talk app shows go by the name of `talk`.
  func contain(_ app: String) -> Bool {
    let app = Array((PushUrgency.isTalk(app) ? "talk" : app).utf8)
    let names = text.utf8.split(separator: UInt8(ascii: ","))
    func isNamed(_ name: some Collection<UInt8>) -> Bool { names.contains { $0.elementsEqual(name) } }
    return isNamed(app) || isNamed("all".utf8) && !isNamed([UInt8(ascii: "-")] + app)
  }
}

/// Web Push of the Nextcloud side: who may subscribe, and the way to those who have
/// (`Documentation/Protocols/Nextcloud.md` 5.6).
package struct NextcloudWebPush: Sendable {
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
