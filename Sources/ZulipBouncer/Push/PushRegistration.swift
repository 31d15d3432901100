internal import Foundation
internal import HTTP
internal import Sealing

/// What a phone seals for its bouncer (`Documentation/Protocols/Zulip.md` 5.2).
struct PushRegistration {
  /// The device's token.
  let token: PushToken
  /// The app's bundle id: there for APNs, absent for FCM.
  let iosAppID: String?
  /// When the phone made it, in seconds since 1970.
  let timestamp: Int64

  /// Reads the opened JSON; nil if anything about it is wrong.
  init?(_ plaintext: [UInt8]) {
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
    self.token = token
    self.timestamp = timestamp
  }

  /// Upstream takes `5`, `5.0` and `"5"` for five.
  private static func lenientInteger(_ json: JSON) -> Int64? {
    switch json {
    case .integer(let value): value
    case .number(let text): Double(text).flatMap(Int64.init(exactly:))
    case .string(let text): Int64(text.strippingWhitespace())
    default: nil
    }
  }

  /// Whether it was made too long ago. Clocks differ, so one from the future is not refused.
  func isExpired(at now: Date) -> Bool {
    now.timeIntervalSince1970 - Double(timestamp) > Zulip.registrationLifetime
  }
}
