package import Foundation
package import HTTP
package import Providers
import Sealing

/// The contents of a registration that a phone seals to its bouncer (`Documentation/Protocols/Zulip.md` 5.2).
package struct PushRegistration {
  package static let gateway = "webpush"

  /// The seconds after which a registration that has not arrived is given up.
  package static let lifetime: TimeInterval = 86_400

  package let token: PushToken
  /// The app's bundle id: required for APNs, absent for FCM.
  package let iosAppID: String?
  /// Whom it was sealed for: nil for a Zulip server's bouncer, ``gateway`` for the Web Push gateway. What was sealed for one is
  /// not taken by the other, so that a chat server cannot register its users' phones where their logout does not reach.
  package let audience: String?
  /// When the phone created it, in seconds since 1970.
  let timestamp: Int64
  /// Its members that are not known here.
  package private(set) var additions = Additions()

  /// Reads the opened JSON; nil if it is invalid.
  package init?(_ plaintext: [UInt8]) {
    guard let json = try? JSON.parse(plaintext), let text = json["token"]?.string,
      let kind = json["token_kind"]?.string.flatMap(PushToken.Kind.init),
      let token = try? PushToken(text, kind: kind),
      let timestamp = json["timestamp"].flatMap(Self.lenientInteger)
    else { return nil }
    switch (kind, json["ios_app_id"] ?? .null) {
    case (.apns, .string(let id)) where AppID.isValid(id): iosAppID = id
    case (.fcm, .null): iosAppID = nil
    default: return nil
    }
    switch json["audience"] ?? .null {
    case .null: audience = nil
    case .string(let text): audience = text
    default: return nil
    }
    self.token = token
    self.timestamp = timestamp
    additions.addMembers(
      of: json, at: "encrypted_push_registration",
      except: ["token", "token_kind", "ios_app_id", "timestamp", "audience"])
  }

  /// Zulip's bouncer accepts `5`, `5.0` and `"5"` as five.
  private static func lenientInteger(_ json: JSON) -> Int64? {
    switch json {
    case .integer(let value): value
    case .number(let text): Double(text).flatMap(Int64.init(exactly:))
    case .string(let text): Int64(text.strippingWhitespace())
    default: nil
    }
  }

  /// Whether it was created too long ago. One from the future is accepted, since clocks differ.
  package func isExpired(at now: Date) -> Bool {
    now.timeIntervalSince1970 - Double(timestamp) > Self.lifetime
  }
}

/// The bundle id of an iOS app: `^[.a-zA-Z0-9-]{1,255}$` (`Documentation/Protocols/Zulip.md` 2.5).
package enum AppID {
  package static func isValid(_ text: String) -> Bool { text.isName(1...255, with: ".-") }
}
