import Foundation

/// Texts from outside as they are logged and shown to people: they may be of any length, and pose as others.
extension String {
  /// The text, of at most 255 characters (Unicode scalars).
  package var cut: String { cut(to: 255) }

  /// The beginning of a text that is longer than that, with an ellipsis as the last of so many characters.
  package func cut(to most: Int) -> String {
    guard utf8.count > most else { return self }
    let scalars = unicodeScalars
    guard let end = scalars.index(scalars.startIndex, offsetBy: most - 1, limitedBy: scalars.endIndex),
      let next = scalars.index(end, offsetBy: 1, limitedBy: scalars.endIndex), next < scalars.endIndex
    else { return self }
    return String(scalars[..<end]) + "…"
  }

  /// The text with hidden characters as JSON escapes: the text of a JSON document stays the same document.
  ///
  /// - Parameter kept: characters that stay as they are.
  package func escaped(keeping kept: Set<Unicode.Scalar> = []) -> String {
    func isEscaped(_ scalar: Unicode.Scalar) -> Bool { scalar.isHidden && !kept.contains(scalar) }
    guard unicodeScalars.contains(where: isEscaped) else { return self }
    return unicodeScalars.reduce(into: "") { text, scalar in
      if isEscaped(scalar) {
        for unit in UTF16.encode(scalar) ?? .init() { text += String(format: "\\u%04x", unit) }
      } else {
        text.unicodeScalars.append(scalar)
      }
    }
  }
}

extension Unicode.Scalar {
  /// Whether it is obeyed instead of shown, shown as nothing, or is no character.
  package var isHidden: Bool {
    if value < 0x7F { return value < 0x20 }
    return switch properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .unassigned, .privateUse, .surrogate: true
    default: properties.isDefaultIgnorableCodePoint
    }
  }
}
