internal import Crypto

/// A device's token from its push provider. Never logged, because anyone who has it can address the device.
package struct PushToken: Sendable, Hashable {
  package enum Kind: String, Sendable, Hashable, CaseIterable {
    /// APNs; hexadecimal.
    case apns
    /// FCM; opaque text.
    case fcm
  }

  package enum Malformed: Error, Hashable, CustomStringConvertible {
    /// Empty, or more than 4096 bytes.
    case length
    /// An APNs token that is not hexadecimal.
    case notHexadecimal

    /// Zulip's error texts.
    package var description: String {
      switch self {
      case .length: "Empty or invalid length token"
      case .notHexadecimal: "Invalid APNS token"
      }
    }
  }

  package let kind: Kind

  /// The token as spelled.
  package let text: String

  /// Maximum size in bytes of a token of Apple or Google, several times what they give out: 64 hexadecimal digits, and about
  /// 160 characters. Only a Web Push subscription may be longer.
  package static let longest = 1024

  /// Parses a token of 1 to 4096 bytes. An APNs token must consist of pairs of hexadecimal digits; ASCII
  /// white space between pairs is accepted, as by Python's `bytes.fromhex`.
  package init(_ text: String, kind: Kind) throws(Malformed) {
    guard (1...4096).contains(text.utf8.count) else { throw .length }
    if kind == .apns, !Self.isHexadecimal(text.utf8) { throw .notHexadecimal }
    self.kind = kind
    self.text = text
  }

  /// The id by which chat servers refer to the token.
  package var id: TokenID { TokenID(token: text) }

  /// The same for all spellings of a token: lower case for APNs, unchanged for FCM.
  package var canonical: String { kind == .apns ? text.lowercased() : text }

  /// What logs show instead: the first 8 hex digits of the token's SHA-256.
  package var fingerprint: String { Self.fingerprint(of: text) }

  /// What logs show instead of a secret text: the first 8 hex digits of its SHA-256.
  package static func fingerprint(of text: String) -> String {
    SHA256.hash(data: Array(text.utf8)).prefix(4).map { byte in
      (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }.joined()
  }

  private static func isHexadecimal(_ text: String.UTF8View) -> Bool {
    var half = false
    for byte in text {
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
        UInt8(ascii: "A")...UInt8(ascii: "F"):
        half.toggle()
      case 0x09...0x0D, 0x20:
        if half { return false }
      default:
        return false
      }
    }
    return !half
  }
}
