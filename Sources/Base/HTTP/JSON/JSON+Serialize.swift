extension JSON {
  /// The document in compact form, as UTF-8 with non-ASCII characters unescaped.
  package var bytes: [UInt8] {
    var output: [UInt8] = []
    output.reserveCapacity(256)
    write(to: &output)
    return output
  }

  package var text: String { String(decoding: bytes, as: UTF8.self) }

  package func write(to output: inout [UInt8]) {
    switch self {
    case .null: output.append(contentsOf: "null".utf8)
    case .bool(let value): output.append(contentsOf: (value ? "true" : "false").utf8)
    case .integer(let value): output.append(contentsOf: String(value).utf8)
    case .number(let text): output.append(contentsOf: text.utf8)
    case .string(let text): Self.write(text, to: &output)
    case .array(let elements):
      Self.write(elements, between: "[", "]", to: &output) { $0.write(to: &$1) }
    case .object(let object):
      Self.write(object.members, between: "{", "}", to: &output) { member, output in
        Self.write(member.name.text, to: &output)
        output.append(UInt8(ascii: ":"))
        member.value.write(to: &output)
      }
    }
  }

  private static func write<Element>(
    _ elements: [Element], between open: Unicode.Scalar, _ close: Unicode.Scalar, to output: inout [UInt8],
    each: (Element, inout [UInt8]) -> Void
  ) {
    output.append(UInt8(ascii: open))
    for (index, element) in elements.enumerated() {
      if index > 0 { output.append(UInt8(ascii: ",")) }
      each(element, &output)
    }
    output.append(UInt8(ascii: close))
  }

  private static func write(_ text: String, to output: inout [UInt8]) {
    output.append(UInt8(ascii: "\""))
    var text = text
    text.withUTF8 { bytes in
      var start = 0
      // Bytes that need no escape, which most do not, are copied in one piece.
      for (index, byte) in bytes.enumerated() where byte < 0x20 || byte == 0x22 || byte == 0x5C {
        output.append(contentsOf: bytes[start..<index])
        output.append(contentsOf: escape(byte).utf8)
        start = index + 1
      }
      output.append(contentsOf: bytes[start...])
    }
    output.append(UInt8(ascii: "\""))
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
