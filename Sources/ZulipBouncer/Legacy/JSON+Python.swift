import HTTP

extension JSON {
  /// As Python's `str` writes it, which is how values reach old apps through FCM
  /// (`Documentation/Protocols/Zulip.md` 7.7).
  var pythonText: String {
    if case .string(let text) = self { text } else { pythonRepresentation }
  }

  /// As Python's `repr` writes it.
  var pythonRepresentation: String {
    switch self {
    case .null: "None"
    case .bool(let value): value ? "True" : "False"
    case .integer(let value): "\(value)"
    case .number(let text): Self.pythonNumber(text)
    case .string(let text): Self.pythonLiteral(text)
    case .array(let elements): "[\(elements.map(\.pythonRepresentation).joined(separator: ", "))]"
    case .object(let object):
      "{"
        + object.members.map { "\(Self.pythonLiteral($0.name.text)): \($0.value.pythonRepresentation)" }
        .joined(separator: ", ") + "}"
    }
  }

  /// A whole number too large for 64 bits is one in Python; others are floating-point.
  private static func pythonNumber(_ text: String) -> String {
    guard text.utf8.contains(where: { ".eE".utf8.contains($0) }), let value = Double(text) else {
      return text
    }
    return "\(value)"
  }

  private static func pythonLiteral(_ text: String) -> String {
    let quote: Unicode.Scalar = text.utf8.contains(0x27) && !text.utf8.contains(0x22) ? "\"" : "'"
    var literal = String(quote)
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\n": literal += "\\n"
      case "\r": literal += "\\r"
      case "\t": literal += "\\t"
      case "\\": literal += "\\\\"
      case quote: literal += "\\\(quote)"
      case _ where scalar.value < 0x20 || (0x7F..<0xA1).contains(scalar.value):
        literal += "\\x" + (scalar.value < 0x10 ? "0" : "") + String(scalar.value, radix: 16)
      default: literal.unicodeScalars.append(scalar)
      }
    }
    return literal + String(quote)
  }
}
