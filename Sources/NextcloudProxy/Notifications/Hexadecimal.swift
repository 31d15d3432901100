/// Bytes as pairs of hexadecimal digits.
enum Hexadecimal {
  /// The bytes of a text in either case; nil for anything else.
  static func decode(_ text: String) -> [UInt8]? {
    var text = text
    return text.withUTF8 { digits in
      guard digits.count.isMultiple(of: 2) else { return nil }
      var isHexadecimal = true
      let bytes = [UInt8](unsafeUninitializedCapacity: digits.count / 2) { bytes, count in
        for index in 0..<digits.count / 2 {
          guard let high = value(digits[2 * index]), let low = value(digits[2 * index + 1]) else {
            isHexadecimal = false
            return
          }
          bytes.initializeElement(at: index, to: high << 4 | low)
          count = index + 1
        }
      }
      return isHexadecimal ? bytes : nil
    }
  }

  private static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
