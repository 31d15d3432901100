package import Foundation
internal import HTTP

/// Constants that bouncer and chat server must agree on.
package enum Zulip {
  /// The text that a phone shows until its app has decrypted the notification.
  package static let placeholder = "New notification"
  /// The maximum number of messages in one removal; the newest are kept.
  package static let maximumRemovals = 200
  /// The seconds after which a device's registration that has not arrived is given up.
  package static let registrationLifetime: TimeInterval = 86_400
}

/// The bundle id of an iOS app: `^[.a-zA-Z0-9-]+$` (`Documentation/Protocols/Zulip.md` 2.5).
package enum AppID {
  package static func isValid(_ text: String) -> Bool { text.isName(1..., with: ".-") }
}
