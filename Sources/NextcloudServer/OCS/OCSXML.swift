internal import HTTP

/// The XML that Nextcloud makes of an answer: elements named after the keys, those of a list `element`,
/// one space of indentation a level; `true` is 1, `false` empty, an empty list or object an empty element.
enum OCSXML {
  /// The document whose root, `ocs`, holds these members.
  static func document(_ envelope: JSON) -> [UInt8] {
    var output = Array("<?xml version=\"1.0\"?>\n".utf8)
    write("ocs", envelope, depth: 0, to: &output)
    return output
  }

  private static func write(_ name: String, _ value: JSON, depth: Int, to output: inout [UInt8]) {
    let indentation = String(repeating: " ", count: depth)
    let children: [(String, JSON)]
    switch value {
    case .array(let elements): children = elements.map { ("element", $0) }
    case .object(let object): children = object.members.map { ($0.name.text, $0.value) }
    case .null: children = []
    default:
      output += "\(indentation)<\(name)>\(text(of: value))</\(name)>\n".utf8
      return
    }
    guard !children.isEmpty else { return output += "\(indentation)<\(name)/>\n".utf8 }
    output += "\(indentation)<\(name)>\n".utf8
    for (name, value) in children { write(name, value, depth: depth + 1, to: &output) }
    output += "\(indentation)</\(name)>\n".utf8
  }

  private static func text(of value: JSON) -> String {
    switch value {
    case .string(let text): escaped(text)
    case .bool(let value): value ? "1" : ""
    default: value.text
    }
  }

  private static func escaped(_ text: String) -> String {
    text.escapedForMarkup { scalar in
      switch scalar {
      case "\r": "&#13;"
      case "\t", "\n", " "...: nil
      default: "\u{FFFD}"  // XML has no way to write it
      }
    }
  }
}

extension String {
  /// The text as HTML and XML have it between tags and in attributes.
  ///
  /// - Parameter replacement: what only one of them writes in another way; nil for what stays.
  func escapedForMarkup(_ replacement: (Unicode.Scalar) -> String?) -> String {
    unicodeScalars.reduce(into: "") { result, scalar in
      switch scalar {
      case "&": result += "&amp;"
      case "<": result += "&lt;"
      case ">": result += "&gt;"
      case "\"": result += "&quot;"
      default: result += replacement(scalar) ?? String(scalar)
      }
    }
  }
}
