internal import Crypto

/// A device's address with its push provider: a credential of that device, so it is never logged.
package struct PushToken: Sendable, Hashable {
  /// Whose token it is.
  package enum Kind: String, Sendable, Hashable, CaseIterable {
    /// Apple's, hexadecimal.
    case apns
    /// Google's, opaque text.
    case fcm
  }

  /// Why a text is no token.
  package enum Malformed: Error, Hashable, CustomStringConvertible {
    /// Empty, or more than 4096 bytes.
    case length
    /// An APNs token that is not hexadecimal.
    case notHexadecimal

    /// In Zulip's words.
    package var description: String {
      switch self {
      case .length: "Empty or invalid length token"
      case .notHexadecimal: "Invalid APNS token"
      }
    }
  }

  /// Whose token it is.
  package let kind: Kind

  /// The token exactly as it was spelled.
  package let text: String

  /// Reads a token of 1 to 4096 bytes; an APNs token must be pairs of hexadecimal digits, between
  /// which ASCII white space is tolerated (as Python's `bytes.fromhex` does).
  package init(_ text: String, kind: Kind) throws(Malformed) {
    guard (1...4096).contains(text.utf8.count) else { throw .length }
    if kind == .apns, !Self.isHexadecimal(text.utf8) { throw .notHexadecimal }
    self.kind = kind
    self.text = text
  }

  /// The id under which chat servers know the token.
  package var id: TokenID { TokenID(token: text) }

  /// The spelling under which two texts are the same token: lower case for APNs, exact for FCM.
  package var canonical: String { kind == .apns ? text.lowercased() : text }

  /// What a log may show: the first 8 hex digits of the token's SHA-256.
  package var fingerprint: String { Self.fingerprint(of: text) }

  /// What a log may show of a secret text: the first 8 hex digits of its SHA-256.
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
