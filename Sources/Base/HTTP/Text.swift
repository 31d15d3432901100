import Basics
package import Foundation

/// The name of a JSON object's member or a form's field, from outside. Compared, hashed and ordered by its bytes.
///
/// `String` compares by canonical equivalence, which no protocol here uses, and which takes quadratic time for runs of
/// combining marks.
package struct Name: Sendable, Hashable, Comparable, ExpressibleByStringLiteral, CustomStringConvertible {
  package let text: String

  package init(_ text: String) { self.text = text }

  package init(stringLiteral text: String) { self.text = text }

  package var description: String { text }

  package static func == (left: Name, right: Name) -> Bool { left.text.hasBytes(of: right.text) }

  package static func < (left: Name, right: Name) -> Bool {
    left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
  }

  package func hash(into hasher: inout Hasher) {
    var text = text
    text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    hasher.combine(UInt8(0xFF))
  }
}

/// Comparisons by bytes for texts from outside, where `String`'s own can take quadratic time.
extension String {
  /// The text after an ASCII prefix, ignoring case; nil if it does not start with it.
  package func dropping(prefix: StaticString) -> Substring? {
    let count = prefix.utf8CodeUnitCount
    guard utf8.count >= count,
      zip(utf8, 0..<count).allSatisfy({ Self.isSame($0, prefix.utf8Start[$1]) })
    else { return nil }
    return Substring(utf8.dropFirst(count))
  }

  /// Whether it contains an ASCII text, ignoring case.
  package func contains(ascii text: StaticString) -> Bool {
    let count = text.utf8CodeUnitCount
    let found = utf8.withContiguousStorageIfAvailable { bytes in
      bytes.count >= count
        && (0...bytes.count - count).contains { start in
          (0..<count).allSatisfy { Self.isSame(bytes[start + $0], text.utf8Start[$0]) }
        }
    }
    // Only strings bridged from Foundation are not contiguous.
    return found ?? String(decoding: Array(utf8), as: UTF8.self).contains(ascii: text)
  }

  private static func isSame(_ left: UInt8, _ right: UInt8) -> Bool { left.lowercased == right.lowercased }
}

extension String {
  /// Longest run of non-starters in any language (Unicode Standard Annex 15, stream-safe text).
  private static let maximumNonStarters = 30

  /// Whether every database can store it and comparisons take linear time: it has no U+0000 and is
  /// stream-safe.
  package var isStorable: Bool {
    guard !isEmpty else { return true }
    let range = utf8.withContiguousStorageIfAvailable(Self.range) ?? Self.range(Array(utf8))
    // Characters up to U+02FF, which are all that most texts have, have no byte from this on.
    return range.least > 0 && (range.most < 0xCC || isStreamSafe)
  }

  private static func range(_ bytes: some Sequence<UInt8>) -> (least: UInt8, most: UInt8) {
    bytes.reduce((.max, 0)) { (Swift.min($0.0, $1), Swift.max($0.1, $1)) }
  }

  /// Whether no run of combining marks is longer than real text has. Counts in the canonical decomposition,
  /// by which strings are compared.
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
  /// The number of non-starters in its decomposition, if there is nothing else in it. Only four characters
  /// decompose to several.
  fileprivate var nonStarters: Int {
    switch value {
    case 0..<0x300: 0
    case 0x344, 0xF73, 0xF75, 0xF81: 2
    default: properties.canonicalCombiningClass == .notReordered ? 0 : 1
    }
  }
}

extension UInt8 {
  var lowercased: UInt8 { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(self) ? self | 0x20 : self }

  package var isASCIIDigit: Bool { self &- UInt8(ascii: "0") < 10 }

  package var isASCIILetterOrDigit: Bool { isASCIIDigit || (self | 0x20) &- UInt8(ascii: "a") < 26 }

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
  /// Whether it consists of ASCII letters, digits and `others`, in an allowed length.
  package func isName(_ lengths: some RangeExpression<Int>, with others: StaticString) -> Bool {
    lengths.contains(utf8.count)
      && utf8.allSatisfy { byte in
        byte.isASCIILetterOrDigit || others.withUTF8Buffer { $0.contains(byte) }
      }
  }
}

extension UUID {
  /// Parses 36 characters: hexadecimal digits in either case, with hyphens in their places.
  /// `UUID(uuidString:)` uses the C library, which also accepts `-A` and ` A` as numbers.
  package init?(hyphenated text: String) {
    var bits = UInt128(0)
    var place = 0
    for byte in text.utf8 {
      if place == 8 || place == 13 || place == 18 || place == 23 {
        guard byte == UInt8(ascii: "-") else { return nil }
      } else {
        guard let value = byte.hexadecimalValue, place < 36 else { return nil }
        bits = bits << 4 | UInt128(value)
      }
      place += 1
    }
    guard place == 36 else { return nil }
    self.init(bits: bits)
  }

  package init?(digits: some Sequence<UInt8>) {
    var bits = UInt128(0)
    var count = 0
    for digit in digits {
      guard let value = digit.hexadecimalValue, count < 32 else { return nil }
      bits = bits << 4 | UInt128(value)
      count += 1
    }
    guard count == 32 else { return nil }
    self.init(bits: bits)
  }

  private init(bits: UInt128) {
    self = withUnsafeBytes(of: bits.bigEndian) { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
  }

  /// Whether it is a version 4 UUID (RFC 9562).
  package var isVersion4: Bool { uuid.6 >> 4 == 4 && uuid.8 >> 6 == 0b10 }
}
