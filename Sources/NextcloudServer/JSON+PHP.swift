internal import HTTP

extension JSON {
  /// The compact document as PHP's `json_encode` writes it, byte for byte: `/` escaped, and everything that
  /// is not ASCII as `\uXXXX`. What is signed and counted in bytes is written like this
  /// (`Documentation/Protocols/Nextcloud.md` 2.2, 6.4).
  ///
  /// - Parameter hexTags: also `<` and `>` as escapes (`JSON_HEX_TAG`), as in OCS answers.
  func php(hexTags: Bool = false) -> [UInt8] {
    var output: [UInt8] = []
    writePHP(to: &output, hexTags: hexTags)
    return output
  }

  private func writePHP(to output: inout [UInt8], hexTags: Bool) {
    switch self {
    case .null, .bool, .integer, .number: write(to: &output)
    case .string(let text): Self.writePHP(text, to: &output, hexTags: hexTags)
    case .array(let elements):
      output.append(UInt8(ascii: "["))
      for (index, element) in elements.enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        element.writePHP(to: &output, hexTags: hexTags)
      }
      output.append(UInt8(ascii: "]"))
    case .object(let object):
      output.append(UInt8(ascii: "{"))
      for (index, member) in object.members.enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        Self.writePHP(member.name.text, to: &output, hexTags: hexTags)
        output.append(UInt8(ascii: ":"))
        member.value.writePHP(to: &output, hexTags: hexTags)
      }
      output.append(UInt8(ascii: "}"))
    }
  }

  private static func writePHP(_ text: String, to output: inout [UInt8], hexTags: Bool) {
    output.append(UInt8(ascii: "\""))
    for unit in text.utf16 {
      switch unit {
      case 0x22: output.append(contentsOf: #"\""#.utf8)
      case 0x5C: output.append(contentsOf: #"\\"#.utf8)
      case 0x2F: output.append(contentsOf: #"\/"#.utf8)
      case 0x08: output.append(contentsOf: #"\b"#.utf8)
      case 0x0C: output.append(contentsOf: #"\f"#.utf8)
      case 0x0A: output.append(contentsOf: #"\n"#.utf8)
      case 0x0D: output.append(contentsOf: #"\r"#.utf8)
      case 0x09: output.append(contentsOf: #"\t"#.utf8)
      case 0x3C where hexTags: output.append(contentsOf: #"\u003C"#.utf8)
      case 0x3E where hexTags: output.append(contentsOf: #"\u003E"#.utf8)
      case 0x20..<0x80: output.append(UInt8(truncatingIfNeeded: unit))
      default:
        let digits = String(unit, radix: 16)
        output.append(contentsOf: #"\u"#.utf8)
        output.append(contentsOf: String(repeating: "0", count: 4 - digits.count).utf8)
        output.append(contentsOf: digits.utf8)
      }
    }
    output.append(UInt8(ascii: "\""))
  }
}
