import Foundation

/// Base64url without padding (RFC 4648 section 5), as Web Push writes bytes.
enum Base64URL {
  /// The text of some bytes.
  static func encode(_ bytes: Data) -> String {
    String(
      bytes.base64EncodedString().compactMap { character in
        switch character {
        case "+": "-"
        case "/": "_"
        case "=": nil
        default: character
        }
      })
  }

  /// The bytes of a text; nil if it is none of base64url.
  static func decode(_ text: String) -> Data? {
    guard text.utf8.allSatisfy(isLetter) else { return nil }
    let plain = text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 } as [Character]
    return Data(base64Encoded: String(plain) + String(repeating: "=", count: (4 - plain.count % 4) % 4))
  }

  /// Whether a text can stand in a path as an id does.
  static func isID(_ text: String) -> Bool {
    (1...64).contains(text.utf8.count) && text.utf8.allSatisfy(isLetter)
  }

  private static func isLetter(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
      true
    default: false
    }
  }
}
