import Foundation

/// Base64url without padding (RFC 4648 section 5), as Web Push writes bytes.
enum Base64URL {
  static func encode(_ bytes: Data) -> String {
    bytes.base64EncodedString().replacingOccurrences(of: "+", with: "-")
      .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
  }

  /// Nil if the text has anything else in it.
  static func decode(_ text: String) -> Data? {
    guard text.utf8.allSatisfy({ !"+/=".utf8.contains($0) }) else { return nil }
    let standard = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
    return Data(base64Encoded: standard + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4))
  }

  /// Whether a text from outside is an id of the gateway's, and may stand in a path.
  static func isID(_ text: String) -> Bool { text.utf8.count <= 64 && decode(text)?.isEmpty == false }
}
