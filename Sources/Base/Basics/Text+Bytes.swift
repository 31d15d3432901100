package import Foundation

extension String {
  /// The text of these bytes; nil if they are not UTF-8. `String(validating:as:)` takes several times as long, because it looks
  /// up the encoding's types each time.
  package init?(utf8 bytes: UnsafeBufferPointer<UInt8>) {
    guard let text = try? UTF8Span(validating: bytes.span) else { return nil }
    self.init(copying: text)
  }

  /// Whether all bytes fulfil a condition. `utf8.allSatisfy` takes several times as long.
  @inlinable package func hasOnlyBytes(where fulfils: (UInt8) -> Bool) -> Bool {
    utf8.withContiguousStorageIfAvailable { $0.allSatisfy(fulfils) } ?? utf8.allSatisfy(fulfils)
  }

  /// Whether another text has the same bytes. (`==` asks whether people read the same.)
  @inlinable package func hasBytes(of other: String) -> Bool {
    // Compiled where it is called: most have another length.
    utf8.count == other.utf8.count && hasBytesOfSameLength(other)
  }

  @usableFromInline package func hasBytesOfSameLength(_ other: String) -> Bool {
    let isSame = utf8.withContiguousStorageIfAvailable { bytes in
      other.utf8.withContiguousStorageIfAvailable { others in
        guard let start = bytes.baseAddress, let otherStart = others.baseAddress else { return true }
        return memcmp(start, otherStart, bytes.count) == 0
      }
    }
    return (isSame ?? nil) ?? utf8.elementsEqual(other.utf8)
  }
}

extension UUID {
  /// The usual spelling: lower case, with hyphens. `uuidString` has the C library format each byte, which takes eight times
  /// as long.
  package var hyphenated: String {
    String(unsafeUninitializedCapacity: 36) { text in
      var place = 0
      func append(_ byte: UInt8) {
        text[place] = byte
        place += 1
      }
      func append(digit: UInt8) {
        append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
      }
      withUnsafeBytes(of: uuid) { bytes in
        for (index, byte) in bytes.enumerated() {
          if index == 4 || index == 6 || index == 8 || index == 10 { append(UInt8(ascii: "-")) }
          append(digit: byte >> 4)
          append(digit: byte & 0xF)
        }
      }
      return place
    }
  }
}

extension [UInt8] {
  /// Appends a JSON string (RFC 8259 section 7), quoted and escaped.
  package mutating func appendJSON(_ text: String) {
    append(UInt8(ascii: "\""))
    var text = text
    text.withUTF8 { bytes in
      var start = 0
      while true {
        // What needs no escape, as most do not, is copied in one piece.
        let end = bytes.firstEscapedInJSON(from: start)
        append(contentsOf: bytes.extracting(start..<end))
        guard end < bytes.count else { break }
        append(contentsOf: Self.escape(bytes[end]).utf8)
        start = end + 1
      }
    }
    append(UInt8(ascii: "\""))
  }

  private static func escape(_ byte: UInt8) -> String {
    switch byte {
    case UInt8(ascii: "\""): return #"\""#
    case UInt8(ascii: "\\"): return #"\\"#
    case 0x0A: return #"\n"#
    case 0x0D: return #"\r"#
    case 0x09: return #"\t"#
    case 0x08: return #"\b"#
    case 0x0C: return #"\f"#
    default:
      let digits = String(byte, radix: 16)
      return (digits.count == 1 ? "\\u000" : "\\u00") + digits
    }
  }
}

extension UnsafeBufferPointer<UInt8> {
  /// The index of the first byte, from `start` on, that a JSON string has only as an escape; the end if there is none.
  package func firstEscapedInJSON(from start: Int) -> Int {
    let bytes = UnsafeRawBufferPointer(self)
    var index = start
    // Eight bytes at once, since most texts have none.
    while index + 8 <= count {
      let marks = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
        .marksOfBytesEscapedInJSON
      if marks != 0 { return index + marks.trailingZeroBitCount / 8 }
      index += 8
    }
    while index < count, !self[index].isEscapedInJSON { index += 1 }
    return index
  }
}

extension UInt8 {
  fileprivate var isEscapedInJSON: Bool {
    self < 0x20 || self == UInt8(ascii: "\"") || self == UInt8(ascii: "\\")
  }
}

extension UInt64 {
  /// Has the upper bit set of the lowest of the eight bytes that is escaped in a JSON string, and perhaps of some above it; 0 if
  /// there is none.
  ///
  /// A subtraction carries into the upper bit of a byte that is less than what is subtracted, and from there into the next.
  fileprivate var marksOfBytesEscapedInJSON: UInt64 {
    let controls = self &- Self.all(0x20)
    let quotes = (self ^ Self.all(UInt8(ascii: "\""))) &- Self.all(1)
    let backslashes = (self ^ Self.all(UInt8(ascii: "\\"))) &- Self.all(1)
    return (controls | quotes | backslashes) & ~self & Self.all(0x80)
  }

  private static func all(_ byte: UInt8) -> UInt64 { 0x0101_0101_0101_0101 &* UInt64(byte) }
}
