import Foundation

/// base64url without padding (RFC 7515 2), which JWTs and Web Push use throughout.
enum Base64URL {
  /// The bytes; nil for anything with padding or characters outside the alphabet.
  static func decode(_ text: some StringProtocol) -> Data? {
    guard isAlphabet(text) else { return nil }
    let standard = String(text).replacing("-", with: "+").replacing("_", with: "/")
    return Data(base64Encoded: standard + String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4))
  }

  static func encode(_ bytes: some DataProtocol) -> String {
    Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
      .replacing("=", with: "")
  }

  /// Whether a text has only characters of the alphabet.
  static func isAlphabet(_ text: some StringProtocol) -> Bool {
    text.utf8.allSatisfy {
      switch $0 {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
        true
      default: false
      }
    }
  }
}
