import Foundation

extension UUID {
  /// The UUID in lower case; `uuidString` goes through `printf`.
  var lowercaseText: String {
    String(unsafeUninitializedCapacity: 36) { text in
      withUnsafeBytes(of: uuid) { bytes in
        var end = 0
        func append(_ byte: UInt8) {
          text[end] = byte
          end += 1
        }
        func digit(_ nibble: UInt8) -> UInt8 { nibble < 10 ? 0x30 + nibble : 0x57 + nibble }
        for (index, byte) in bytes.enumerated() {
          if [4, 6, 8, 10].contains(index) { append(UInt8(ascii: "-")) }
          append(digit(byte >> 4))
          append(digit(byte & 0xf))
        }
        return end
      }
    }
  }
}
