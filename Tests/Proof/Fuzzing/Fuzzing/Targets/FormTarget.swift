import Basics

@testable import HTTP

/// Forms: compared with a slow and simple parser, and unchanged when written and read again.
enum FormTarget: FuzzTarget {
  static let name = "form"

  static func run(_ bytes: [UInt8]) throws {
    let plain = plainly(bytes)
    guard let fields = Form.parse(bytes) else {
      return try check(plain.count > Form.maximumFields, "only too many fields are refused")
    }
    try check(fields.count == plain.count, "there are as many fields as a plain reading finds")
    for (field, plain) in zip(fields, plain) {
      try check(Array(field.name.text.utf8) == Array(plain.name.utf8), "a name is read as plainly")
      try check(Array(field.value.utf8) == Array(plain.value.utf8), "a value is read as plainly")
    }
    let again = Form.parse(Form.encode(fields.map { ($0.name.text, $0.value) }))
    try check(
      again?.elementsEqual(fields) { $0.name == $1.name && $0.value.hasBytes(of: $1.value) } == true,
      "what is written reads the same")
    var parameters = Parameters(fields.map { ($0.name.text, $0.value) })
    for name in ["a", "token", "user_id"] {
      _ = parameters.optional(name)
      _ = try? parameters.integer(name)
      _ = try? parameters.list(name) { field throws(APIError) in try field.integer() }
      _ = try? parameters.text(name, .stripped(maximum: 100))
    }
    _ = parameters.success(noting: RequestNotes())
  }

  private static func plainly(_ bytes: [UInt8]) -> [(name: String, value: String)] {
    bytes.split(separator: UInt8(ascii: "&")).map { field in
      let parts = field.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      return (decode(Array(parts[0])), parts.count > 1 ? decode(Array(parts[1])) : "")
    }
  }

  private static func decode(_ bytes: [UInt8]) -> String {
    var (rest, decoded) = (bytes[...], [UInt8]())
    while let byte = rest.popFirst() {
      let digits = rest.prefix(2)
      if byte == UInt8(ascii: "+") {
        decoded.append(UInt8(ascii: " "))
      } else if byte == UInt8(ascii: "%"), digits.count == 2, !digits.contains(UInt8(ascii: "+")),
        !digits.contains(UInt8(ascii: "-")),
        let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
      {
        decoded.append(value)
        rest = rest.dropFirst(2)
      } else {
        decoded.append(byte)
      }
    }
    return String(decoding: decoded, as: UTF8.self)
  }
}
