import Basics
package import Delivery
import Foundation
import HTTP
import HTTPClient
import Providers
import Registrations

/// A Web Push subscription that gets a Nextcloud user's notifications without a proxy
/// (`Documentation/Protocols/Nextcloud.md` 5.6).
package struct NextcloudSubscription: Sendable, Hashable {
  /// The login that a subscription belongs to; each has at most one.
  package struct Holder: Sendable, Hashable {
    let user: Int64
    /// Id of the app password that the app has signed in with; nil for the account's API key.
    let appPassword: Int64?

    package init(user: Int64, appPassword: Int64?) {
      self.user = user
      self.appPassword = appPassword
    }
  }

  /// Refers to this registration in a delivery.
  let reference: RegistrationReference
  let holder: Holder
  /// Its endpoint and keys.
  let target: WebPushSubscription
  let appTypes: AppTypes
  /// Whether its push service has refused a message as too long since the last registration.
  let wantsShort: Bool

  /// The user, who has chosen the push service.
  var owner: Owner { .user(holder.user) }
}

/// The apps whose notifications a subscription is for: names separated by commas, as they were sent.
package struct AppTypes: Sendable, Hashable {
  /// Maximum length in bytes; longer texts are refused.
  static let maximumBytes = 256

  let text: String

  package init(_ text: String) { self.text = text }

  /// Whether the subscription is for an app's notifications: the app is named, or `all` is and the app is not
  /// excluded with a hyphen. Apps that Talk shows count as `talk`.
  func contain(_ app: String) -> Bool {
    let app = Array((PushUrgency.isTalk(app) ? "talk" : app).utf8)
    let names = text.utf8.split(separator: UInt8(ascii: ","))
    func isNamed(_ name: some Collection<UInt8>) -> Bool { names.contains { $0.elementsEqual(name) } }
    return isNamed(app) || isNamed("all".utf8) && !isNamed([UInt8(ascii: "-")] + app)
  }
}

/// Web Push of the Nextcloud side: who may subscribe, and how messages are sent
/// (`Documentation/Protocols/Nextcloud.md` 5.6).
package struct NextcloudWebPush: Sendable {
  package let subscriptions: NextcloudSubscriptions
  private let settings: NextcloudServerSettings
  /// Sends messages like those of all providers, with the outbox behind it.
  let deliverer: Deliverer

  package init(
    subscriptions: NextcloudSubscriptions, _ settings: NextcloudServerSettings, deliverer: Deliverer
  ) {
    self.subscriptions = subscriptions
    self.settings = settings
    self.deliverer = deliverer
  }

  /// The VAPID public key that subscriptions are bound to; nil if Web Push is switched off as a provider.
  var vapidKey: String? { deliverer.providers.vapidPublicKey }
  /// Whether anyone may subscribe and is sent messages.
  var isEnabled: Bool { settings.webPush && vapidKey != nil }
  /// Whether callers signed in with the account's API key may subscribe too.
  var allowsBrowsers: Bool { settings.webPushBrowsers }

  /// A user's active subscriptions; none if Web Push is disabled.
  func subscriptions(of user: Int64) async throws -> [NextcloudSubscription] {
    isEnabled ? try await subscriptions.active(of: user) : []
  }

  /// Additions to the capability `push`.
  var capabilities: [JSON] {
    guard isEnabled else { return [] }
    return allowsBrowsers ? ["webpush", "webpush-browsers"] : ["webpush"]
  }
}
