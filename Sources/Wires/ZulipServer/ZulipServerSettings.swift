package import Basics
package import Foundation

/// Settings of the built-in chat-server side.
package struct ZulipServerSettings: Sendable {
  package init() {}

  /// The bouncer with which the built-in chat server registers devices.
  package enum Bouncer: Sendable, Hashable {
    /// The bouncer of this process.
    case local
    /// No bouncer, and therefore no push notifications.
    case off
    /// Another bouncer at this address; `orgID` and `orgKey` authenticate this server there.
    case remote(URL)
  }

  @Setting(
    "server.bouncer", "local", .bouncer,
    "bouncer of the built-in chat-server side: local (this program), another one's URL, or off")
  package var bouncer: Bouncer

  @Setting(
    "server.org_id", .text("6b6f9a52-3c1e-4f0e-9d8a-0c8f6f0b7a11"),
    "id of the built-in chat-server side at another bouncer")
  package var orgID: String?

  @Setting(
    "server.org_key", .text("what that bouncer has given"),
    "key of the built-in chat-server side at another bouncer", secrecy: .whole)
  package var orgKey: String?

  @Setting(
    "server.removals_as_alerts", "false", .flag,
    "removals reach iPhones as alerts, for apps with Apple's filtering entitlement; others would show them")
  package var sendsRemovalsAsAlerts: Bool
}

extension SettingShape<ZulipServerSettings.Bouncer> {
  package static var bouncer: SettingShape {
    SettingShape(expected: "local, off, or a bouncer's URL", example: "https://push.example.org") {
      text throws(SettingError) in
      switch text {
      case "local": return .local
      case "off": return .off
      default: return try SettingShape<URL>.parse(text).map { .remote($0) }
      }
    }
  }
}
