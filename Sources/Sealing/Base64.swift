internal import CSodium
internal import Foundation

/// Standard base64 (RFC 4648 section 4, padded), in the two readings the wires ask for.
package enum Base64 {
  /// Padded standard base64.
  package static func encode(_ bytes: some Collection<UInt8>) -> String {
    let length = (bytes.count + 2) / 3 * 4
    return Array(bytes).withUnsafeBufferPointer { bytes in
      String(unsafeUninitializedCapacity: length + 1) { text in
        text.withMemoryRebound(to: CChar.self) {
          // There is room for one byte at least: C ends a text with a byte 0.
          if let start = $0.baseAddress {
            sodium_bin2base64(start, $0.count, bytes.baseAddress, bytes.count, variant)
          }
        }
        return length
      }
    }
  }

  /// Only the canonical encoding of some bytes: alphabet, padding and unused bits all as they must be.
  package static func decodeStrictly(_ text: String) -> [UInt8]? {
    var text = text
    return text.withUTF8 { text in
      guard text.count % 4 == 0 else { return nil }
      let digits = text.prefix(text.count - text.suffix(2).count { $0 == UInt8(ascii: "=") })
      var isRead = true
      let bytes = [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3) { bytes, count in
        var (bits, held) = (UInt32(0), UInt32(0))
        values.withUnsafeBufferPointer { values in
          for digit in digits {
            let value = values[Int(digit)]
            if value == none { return isRead = false }
            bits = bits << 6 | UInt32(value)
            held += 6
            guard held >= 8 else { continue }
            held -= 8
            bytes[count] = UInt8(truncatingIfNeeded: bits >> held)
            count += 1
          }
          // What is left over must be 0, or several texts would be the same bytes.
          if bits & (1 << held - 1) != 0 { isRead = false }
        }
      }
      return isRead ? bytes : nil
    }
  }

  /// Of each byte as a digit.
  private static let values: [UInt8] = {
    var values = [UInt8](repeating: none, count: 256)
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for (value, digit) in digits.utf8.enumerated() { values[Int(digit)] = UInt8(value) }
    return values
  }()
  private static let none = UInt8.max

  private static let variant = sodium_base64_VARIANT_ORIGINAL

  /// As Python's `b64decode` reads it: characters outside the alphabet (line breaks, say) are skipped.
  static func decodeLeniently(_ text: String) -> [UInt8]? {
    Data(base64Encoded: text, options: .ignoreUnknownCharacters).map { [UInt8]($0) }
  }
}
