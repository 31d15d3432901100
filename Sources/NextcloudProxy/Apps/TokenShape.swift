internal import Providers

/// What a text that may be a push token looks like.
enum TokenShape: Hashable {
  /// 64 to 200 hexadecimal digits, an even number of them: APNs' or PushKit's, and FCM's alphabet has
  /// them too.
  case apns
  /// Two such with one space between, as Talk on iOS sends them.
  case apnsAndPushKit
  /// 32 to 4096 letters, digits, `_`, `-` and `:`, or a Firebase installation id.
  case fcm

  init?(_ token: String) {
    let parts = token.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    switch parts.count {
    case 1 where Self.isAPNs(parts[0]): self = .apns
    case 2 where parts.allSatisfy(Self.isAPNs): self = .apnsAndPushKit
    case 1 where FCMMessage.isInstallationID(token): self = .fcm
    case 1 where (32...4096).contains(parts[0].count) && parts[0].allSatisfy(Self.isFCM): self = .fcm
    default: return nil
    }
  }

  private static func isAPNs(_ token: Substring.UTF8View) -> Bool {
    (64...200).contains(token.count) && token.count.isMultiple(of: 2) && token.allSatisfy(isHexadecimal)
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
      UInt8(ascii: "A")...UInt8(ascii: "F"):
      true
    default: false
    }
  }

  private static func isFCM(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
      UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: ":"):
      true
    default: false
    }
  }
}
