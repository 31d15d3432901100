package import Foundation

/// A name from outside: of a member of a JSON object, or of a field of a form. Names are the same if their
/// bytes are, and are hashed and ordered by them.
///
/// `String` goes by canonical equivalence instead, which no wire wants, and which takes quadratic time in a
/// run of combining marks.
package struct Name: Sendable, Hashable, Comparable, ExpressibleByStringLiteral, CustomStringConvertible {
  package let text: String

  package init(_ text: String) { self.text = text }

  package init(stringLiteral text: String) { self.text = text }

  package var description: String { text }

  package static func == (left: Name, right: Name) -> Bool { left.text.hasSameBytes(as: right.text) }

  package static func < (left: Name, right: Name) -> Bool {
    left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
  }

  package func hash(into hasher: inout Hasher) {
    var text = text
    text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    hasher.combine(UInt8(0xFF))
  }
}

/// What `String` itself does by characters and canonical equivalence, by bytes: for texts from outside, on
/// which the others take quadratic time.
extension String {
  package func hasSameBytes(as other: String) -> Bool {
    guard utf8.count == other.utf8.count else { return false }
    let isSame = utf8.withContiguousStorageIfAvailable { bytes in
      other.utf8.withContiguousStorageIfAvailable { bytes.elementsEqual($0) }
    }
    return (isSame ?? nil) ?? utf8.elementsEqual(other.utf8)
  }

  /// The text after these ASCII characters, be they large or small letters; nil where it does not begin so.
  package func dropping(prefix: StaticString) -> Substring? {
    let count = prefix.utf8CodeUnitCount
    guard utf8.count >= count,
      zip(utf8, 0..<count).allSatisfy({ Self.isSame($0, prefix.utf8Start[$1]) })
    else { return nil }
    return Substring(utf8.dropFirst(count))
  }

  /// Whether these ASCII characters are somewhere in it, be they large or small letters.
  package func contains(ascii text: StaticString) -> Bool {
    let count = text.utf8CodeUnitCount
    let found = utf8.withContiguousStorageIfAvailable { bytes in
      bytes.count >= count
        && (0...bytes.count - count).contains { start in
          (0..<count).allSatisfy { Self.isSame(bytes[start + $0], text.utf8Start[$0]) }
        }
    }
    // Only texts that Foundation has bridged are not in one piece.
    return found ?? String(decoding: Array(utf8), as: UTF8.self).contains(ascii: text)
  }

  private static func isSame(_ left: UInt8, _ right: UInt8) -> Bool { left.lowercased == right.lowercased }
}

extension String {
  /// As many non-starters follow each other in no language (Unicode Standard Annex 15, stream-safe text).
  private static let maximumNonStarters = 30

  /// Whether a database keeps it, and whatever compares or orders it later is done in linear time: it has
  /// no U+0000, and is stream-safe.
  package var isStorable: Bool {
    guard !isEmpty else { return true }
    let range = utf8.withContiguousStorageIfAvailable(Self.range) ?? Self.range(Array(utf8))
    // Most texts have no character beyond U+02FF, that is, no byte beyond this.
    return range.least > 0 && (range.most < 0xCC || isStreamSafe)
  }

  private static func range(_ bytes: some Sequence<UInt8>) -> (least: UInt8, most: UInt8) {
    bytes.reduce((.max, 0)) { (Swift.min($0.0, $1), Swift.max($0.1, $1)) }
  }

  /// Whether no run of combining marks is longer than any that is written. What counts is the canonical
  /// decomposition, which is what comparing goes by.
  private var isStreamSafe: Bool {
    var run = 0
    for scalar in unicodeScalars {
      let count = scalar.nonStarters
      run = count == 0 ? 0 : run + count
      if run > Self.maximumNonStarters { return false }
    }
    return true
  }
}

extension Unicode.Scalar {
  /// How many non-starters it decomposes to, if to nothing else. Four do that themselves.
  fileprivate var nonStarters: Int {
    switch value {
    case 0..<0x300: 0
    case 0x344, 0xF73, 0xF75, 0xF81: 2
    default: properties.canonicalCombiningClass == .notReordered ? 0 : 1
    }
  }
}

extension UInt8 {
  /// An ASCII capital letter as a small one; anything else as it is.
  var lowercased: UInt8 { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(self) ? self | 0x20 : self }

  package var isASCIIDigit: Bool { self &- UInt8(ascii: "0") < 10 }

  package var isASCIILetterOrDigit: Bool { isASCIIDigit || (self | 0x20) &- UInt8(ascii: "a") < 26 }

  /// The value of a hexadecimal digit in either case; nil for anything else.
  package var hexadecimalValue: UInt8? {
    switch self {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}

extension String {
  /// Whether it is ASCII letters, digits and `others` alone, and so many of them.
  package func isName(_ lengths: some RangeExpression<Int>, with others: StaticString) -> Bool {
    lengths.contains(utf8.count)
      && utf8.allSatisfy { byte in
        byte.isASCIILetterOrDigit || others.withUTF8Buffer { $0.contains(byte) }
      }
  }
}

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
        guard let digit = byte.hexadecimalValue else { return nil }
        bits = bits << 4 | UInt128(digit)
      }
    }
    self.init(bits: bits)
  }

  /// The UUID of 32 hexadecimal digits; nil for anything else.
  package init?(digits: some Collection<UInt8>) {
    let values = digits.compactMap(\.hexadecimalValue)
    guard values.count == 32, digits.count == 32 else { return nil }
    self.init(bits: values.reduce(0) { $0 << 4 | UInt128($1) })
  }

  private init(bits: UInt128) {
    self = withUnsafeBytes(of: bits.bigEndian) { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
  }

  /// Whether it is a UUID of version 4 (RFC 9562), which is all that Zulip's bouncers take for a realm's.
  package var isVersion4: Bool { uuid.6 >> 4 == 4 && uuid.8 >> 6 == 0b10 }
}
