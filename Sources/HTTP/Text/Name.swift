/// A name from outside: of a member of a JSON object, or of a field of a form. Names are the same if their
/// bytes are, and are hashed and ordered by them.
///
/// `String` goes by canonical equivalence instead, which no wire wants, and which takes quadratic time in a
/// run of combining marks.
package struct Name: Sendable, Hashable, Comparable, ExpressibleByStringLiteral, CustomStringConvertible {
  /// The name as a text.
  package let text: String

  /// The name that a text is.
  package init(_ text: String) {
    self.text = text
  }

  /// A name written as a literal.
  package init(stringLiteral text: String) { self.text = text }

  /// The name as a text.
  package var description: String { text }

  /// Whether the bytes are the same.
  package static func == (left: Name, right: Name) -> Bool { left.text.hasSameBytes(as: right.text) }

  /// By the bytes.
  package static func < (left: Name, right: Name) -> Bool {
    left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
  }

  /// All bytes, in one piece.
  package func hash(into hasher: inout Hasher) {
    var text = text
    text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    hasher.combine(UInt8(0xFF))
  }
}
