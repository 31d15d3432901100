import Crypto
import Foundation

/// SHA-512 in lower-case hex.
enum SHA512Hex {
  static func of(_ text: String) -> String {
    SHA512.hash(data: Data(text.utf8)).map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }
      .joined()
  }
}
