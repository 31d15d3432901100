import Basics

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
    case .string(let text): output.appendJSON(text)
    case .array(let elements):
      Self.write(elements, between: "[", "]", to: &output) { $0.write(to: &$1) }
    case .object(let object):
      Self.write(object.members, between: "{", "}", to: &output) { member, output in
        output.appendJSON(member.name.text)
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
}
