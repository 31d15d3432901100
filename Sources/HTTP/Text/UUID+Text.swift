package import Foundation

extension UUID {
  /// Reads 36 characters: digits in either case, hyphens in their places. `UUID(uuidString:)` has the C library scan
  /// them, to which `-A` and ` A` are numbers, too.
  package init?(hyphenated text: String) {
    guard text.utf8.count == 36 else { return nil }
    var bits = UInt128(0)
    for (index, byte) in text.utf8.enumerated() {
      if index == 8 || index == 13 || index == 18 || index == 23 {
        guard byte == UInt8(ascii: "-") else { return nil }
      } else {
        guard let digit = Form.hexDigit(byte) else { return nil }
        bits = bits << 4 | UInt128(digit)
      }
    }
    self = withUnsafeBytes(of: bits.bigEndian) { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
  }

  /// Whether it is a UUID of version 4 (RFC 9562), which is all that Zulip's bouncers take for a realm's.
  package var isVersion4: Bool { uuid.6 >> 4 == 4 && uuid.8 >> 6 == 0b10 }
}
