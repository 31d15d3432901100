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
          // There is room, be it for the byte 0 that C ends a text with.
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
    let bytes = text.withUTF8 { text in
      [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3) { bytes, count in
        guard let start = bytes.baseAddress else { return }
        let isRead = text.withMemoryRebound(to: CChar.self) {
          sodium_base642bin(start, bytes.count, $0.baseAddress, $0.count, nil, &count, nil, variant) == 0
        }
        if !isRead { count = 0 }
      }
    }
    return bytes.isEmpty && !text.isEmpty ? nil : bytes
  }

  private static let variant = sodium_base64_VARIANT_ORIGINAL

  /// As Python's `b64decode` reads it: characters outside the alphabet (line breaks, say) are skipped.
  static func decodeLeniently(_ text: String) -> [UInt8]? {
    Data(base64Encoded: text, options: .ignoreUnknownCharacters).map { [UInt8]($0) }
  }
}
