/// HTML that was written here, with values that were escaped: a value becomes part of it only by being interpolated, and
/// that escapes whatever is not HTML itself. There is no way to make it of a text that is not a literal.
struct HTML: Sendable, Hashable, ExpressibleByStringInterpolation {
  /// The markup.
  let text: String

  private init(text: String) { self.text = text }

  init(stringLiteral text: StaticString) { self.text = "\(text)" }

  init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

  /// Nothing.
  static let none: HTML = ""

  /// Some, one after the other.
  static func + (left: HTML, right: HTML) -> HTML { HTML(text: left.text + right.text) }

  /// What is between the quotes of a literal, and what is put into it.
  struct StringInterpolation: StringInterpolationProtocol {
    fileprivate var text: String

    init(literalCapacity: Int, interpolationCount: Int) {
      text = ""
      text.reserveCapacity(literalCapacity + 16 * interpolationCount)
    }

    mutating func appendLiteral(_ literal: StaticString) { text += "\(literal)" }

    /// A text, as content or between the quotes of an attribute.
    mutating func appendInterpolation(_ value: String) { text += value.escaped }

    mutating func appendInterpolation(_ number: some BinaryInteger) { text += String(number) }

    /// A number with a decimal.
    mutating func appendInterpolation(_ number: Double) {
      text += number.isFinite ? String((number * 10).rounded() / 10) : "0"
    }

    mutating func appendInterpolation(_ html: HTML) { text += html.text }

    mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { text += part.text } }

    mutating func appendInterpolation(_ html: HTML?) { text += html?.text ?? "" }
  }
}

extension String {
  /// As HTML shows it letter by letter. What would be obeyed (controls, marks that turn the direction of
  /// writing) is written as an escape, so that a name cannot pretend to be another.
  fileprivate var escaped: String {
    var result = String.UnicodeScalarView()
    for scalar in unicodeScalars {
      switch scalar {
      case "&": result.append(contentsOf: "&amp;".unicodeScalars)
      case "<": result.append(contentsOf: "&lt;".unicodeScalars)
      case ">": result.append(contentsOf: "&gt;".unicodeScalars)
      case "\"": result.append(contentsOf: "&quot;".unicodeScalars)
      case "'": result.append(contentsOf: "&#39;".unicodeScalars)
      case "`": result.append(contentsOf: "&#96;".unicodeScalars)
      default:
        if scalar.isObeyed {
          result.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars)
        } else {
          result.append(scalar)
        }
      }
    }
    return String(result)
  }
}

extension Unicode.Scalar {
  fileprivate var isObeyed: Bool {
    switch value {
    case 0x09, 0x0A: false
    case 0..<0x20, 0x7F..<0xA0, 0x61C, 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x2069, 0xFEFF,
      0xFFF9...0xFFFB:
      true
    default: false
    }
  }
}
