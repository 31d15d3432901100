import NIOCore

extension ByteBuffer {
  /// Appends an object whose members are strings.
  mutating func writeJSON(_ members: some Sequence<(String, String)>) {
    var separator = UInt8(ascii: "{")
    for (name, value) in members {
      writeInteger(separator)
      separator = UInt8(ascii: ",")
      writeJSON(name)
      writeInteger(UInt8(ascii: ":"))
      writeJSON(value)
    }
    writeStaticString(separator == UInt8(ascii: "{") ? "{}" : "}")
  }

  /// Appends the string as JSON has it (RFC 8259 section 7): quoted, and escaped where it must be.
  mutating func writeJSON(_ string: String) {
    var string = string
    string.withUTF8 { bytes in
      writeInteger(UInt8(ascii: "\""))
      var plain = bytes[...]
      while let index = plain.firstIndex(where: Self.isEscaped) {
        writeBytes(plain[..<index])
        writeEscaped(plain[index])
        plain = plain[(index + 1)...]
      }
      writeBytes(plain)
      writeInteger(UInt8(ascii: "\""))
    }
  }

  private static func isEscaped(_ byte: UInt8) -> Bool {
    byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
  }

  private mutating func writeEscaped(_ byte: UInt8) {
    guard byte < 0x20 else {
      writeBytes([UInt8(ascii: "\\"), byte])
      return
    }
    let digits: StaticString = "0123456789abcdef"
    writeStaticString(byte < 0x10 ? "\\u000" : "\\u001")
    writeInteger(digits.utf8Start[Int(byte & 0xf)])
  }
}
