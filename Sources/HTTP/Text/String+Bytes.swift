/// What `String` itself does by characters and canonical equivalence, by bytes: for texts from outside, on
/// which the others take quadratic time.
extension String {
  /// Whether both are the same bytes.
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

  private static func isSame(_ left: UInt8, _ right: UInt8) -> Bool { lower(left) == lower(right) }

  private static func lower(_ byte: UInt8) -> UInt8 {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
  }
}
