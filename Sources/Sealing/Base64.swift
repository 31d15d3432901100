internal import Foundation

/// Standard base64 (RFC 4648 section 4, padded), in the two readings the wires ask for.
package enum Base64 {
  /// Padded standard base64.
  package static func encode(_ bytes: some Collection<UInt8>) -> String {
    Data(bytes).base64EncodedString()
  }

  /// Only the canonical encoding of some bytes: alphabet, padding and unused bits all as they must be.
  package static func decodeStrictly(_ text: String) -> [UInt8]? {
    guard let data = Data(base64Encoded: text), text.utf8.count == (data.count + 2) / 3 * 4 else {
      return nil
    }
    // Unused bits are in the last four characters, if anywhere.
    let rest = data.suffix(data.count % 3)
    guard rest.isEmpty || text.utf8.suffix(4).elementsEqual(encode(rest).utf8) else { return nil }
    return [UInt8](data)
  }

  /// As Python's `b64decode` reads it: characters outside the alphabet (line breaks, say) are skipped.
  static func decodeLeniently(_ text: String) -> [UInt8]? {
    Data(base64Encoded: text, options: .ignoreUnknownCharacters).map { [UInt8]($0) }
  }
}
