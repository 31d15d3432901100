/// A name from outside: of a member of a JSON object, or of a field of a form. Names are the same if their
/// bytes are, and are hashed and ordered by them.
///
/// `String` goes by canonical equivalence instead, which no wire wants, and which takes quadratic time in a
/// run of combining marks.
public struct Name: Sendable, Hashable, Comparable, ExpressibleByStringLiteral, CustomStringConvertible {
  /// The name as a text.
  public let text: String

  /// The name that a text is.
  public init(_ text: String) {
    self.text = text
  }

  /// A name written as a literal.
  public init(stringLiteral text: String) { self.text = text }

  /// The name as a text.
  public var description: String { text }

  /// Whether the bytes are the same.
  public static func == (left: Name, right: Name) -> Bool { left.text.hasSameBytes(as: right.text) }

  /// By the bytes.
  public static func < (left: Name, right: Name) -> Bool {
    left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
  }

  /// All bytes, in one piece.
  public func hash(into hasher: inout Hasher) {
    var text = text
    text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    hasher.combine(UInt8(0xFF))
  }
}
