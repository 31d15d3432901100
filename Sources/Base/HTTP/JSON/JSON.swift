import Basics
package import NIOCore

/// A JSON value (RFC 8259).
///
/// Own code because Foundation's decoder accepts `1.0` as an integer, has its own error texts, and takes
/// several times as long if most of a document is passed on unread. Zulip's API names the path of the first
/// mistake and distinguishes integers from other numbers.
///
/// Names and strings are equal if their bytes are.
package enum JSON: Sendable, Equatable {
  case null
  case bool(Bool)
  /// A number without fraction and exponent that fits 64 bits.
  case integer(Int64)
  /// Any other number, as spelled in the document.
  case number(String)
  case string(String)
  case array([JSON])
  case object(Object)

  /// An object with its members in the document's order. If a name is repeated, the last member counts.
  package struct Object: Sendable, Equatable, ExpressibleByDictionaryLiteral {
    package struct Member: Sendable, Equatable {
      package var name: Name
      package var value: JSON

      package init(_ name: Name, _ value: JSON) {
        self.name = name
        self.value = value
      }

      package init(_ name: String, _ value: JSON) { self.init(Name(name), value) }
    }

    package private(set) var members: [Member]

    package init(_ members: [Member] = []) {
      self.members = members
    }

    package init(dictionaryLiteral elements: (String, JSON)...) {
      members = elements.map { Member($0, $1) }
    }

    /// The value of a name; setting nil removes it.
    package subscript(name: String) -> JSON? {
      get { members.last { $0.name.text.hasBytes(of: name) }?.value }
      set {
        let name = Name(name)
        guard let newValue else { return members.removeAll { $0.name == name } }
        if let index = members.lastIndex(where: { $0.name == name }) {
          members[index].value = newValue
        } else {
          members.append(Member(name, newValue))
        }
      }
    }
  }
}

extension JSON {
  package subscript(name: String) -> JSON? {
    if case .object(let object) = self { object[name] } else { nil }
  }

  /// The text of a string; nil for any other value, and for a string that is not storable
  /// (`String.isStorable`).
  package var string: String? {
    if case .string(let text) = self, text.isStorable { text } else { nil }
  }

  /// The elements of an array; none of any other value.
  package var elements: [JSON] { if case .array(let elements) = self { elements } else { [] } }

  /// Whether both are the same value in the same spelling.
  package static func == (left: JSON, right: JSON) -> Bool {
    switch (left, right) {
    case (.null, .null): true
    case (.bool(let left), .bool(let right)): left == right
    case (.integer(let left), .integer(let right)): left == right
    case (.number(let left), .number(let right)), (.string(let left), .string(let right)):
      left.hasBytes(of: right)
    case (.array(let left), .array(let right)): left == right
    case (.object(let left), .object(let right)): left == right
    default: false
    }
  }

  /// The nesting depth of arrays and objects, including this one; 0 for any other value.
  package var depth: Int {
    switch self {
    case .null, .bool, .integer, .number, .string: 0
    case .array(let elements): 1 + elements.reduce(0) { max($0, $1.depth) }
    case .object(let object): 1 + object.members.reduce(0) { max($0, $1.value.depth) }
    }
  }

  /// Bytes of memory that it takes, about.
  package var memory: Int {
    switch self {
    case .null, .bool, .integer: MemoryLayout<JSON>.stride
    case .number(let text), .string(let text): MemoryLayout<JSON>.stride + 32 + text.utf8.count
    case .array(let elements): elements.reduce(64) { $0 + $1.memory }
    case .object(let object):
      object.members.reduce(256) { $0 + 48 + $1.name.text.utf8.count + $1.value.memory }
    }
  }

  package var integer: Int64? {
    if case .integer(let value) = self { value } else { nil }
  }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
  ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  package init(stringLiteral value: String) { self = .string(value) }
  package init(integerLiteral value: Int64) { self = .integer(value) }
  package init(booleanLiteral value: Bool) { self = .bool(value) }
  package init(nilLiteral: ()) { self = .null }
  package init(arrayLiteral elements: JSON...) { self = .array(elements) }
  package init(dictionaryLiteral elements: (String, JSON)...) {
    self = .object(Object(elements.map { Object.Member($0, $1) }))
  }

  package static func optional(_ value: Int64?) -> JSON { value.map(JSON.integer) ?? .null }
  package static func optional(_ value: String?) -> JSON { value.map(JSON.string) ?? .null }
}

extension JSON {
  package enum ParseError: Error, Hashable {
    /// Not valid UTF-8.
    case encoding
    /// Not JSON; wrong at this byte.
    case syntax(at: Int)
    /// The escape that begins at this byte is half of a surrogate pair, which is no character.
    case halfSurrogate(at: Int)
    /// Arrays and objects are nested deeper than ``maximumDepth``.
    case depth
    /// More values than any reasonable document of this length.
    case tooManyValues
  }

  package static let maximumDepth = 64

  /// The limit of values in a document of this length. Each takes up to a hundred bytes of memory, however
  /// short it is.
  static func maximumValues(in bytes: Int) -> Int { 10_000 + bytes / 32 }

  /// Reads one JSON document in UTF-8.
  package static func parse(_ bytes: some Collection<UInt8>) throws(ParseError) -> JSON {
    if let result = bytes.withContiguousStorageIfAvailable({ parse(buffer: $0) }) { return try result.get() }
    return try Array(bytes).withUnsafeBufferPointer { parse(buffer: $0) }.get()
  }

  /// Reads one JSON document in UTF-8.
  ///
  /// - Parameter depth: values nested deeper become `null`, and only their strings and brackets are checked;
  ///   nil for no cut.
  package static func parse(_ buffer: ByteBuffer, cutBelow depth: Int? = nil) throws(ParseError) -> JSON {
    try buffer.withUnsafeReadableBytes { parse(buffer: $0.bindMemory(to: UInt8.self), cutBelow: depth) }.get()
  }

  package static func parse(_ text: String) throws(ParseError) -> JSON {
    try parse(text.utf8)
  }

  /// Reads a document that is an array, one element at a time, so that a long one takes no more memory than
  /// its text and the results; nil for any other document.
  ///
  /// - Throws: ``ParseError`` for the document, or the first error of `read`.
  package static func list<Element>(
    _ text: String, _ read: (JSON, _ index: Int) throws -> Element
  ) throws -> [Element]? {
    var text = text
    return try text.withUTF8 { bytes in
      var parser = JSONParser(bytes: bytes, cutBelow: nil)
      var results: [Element] = []
      return try parser.elements { results.append(try read($0, results.count)) } ? results : nil
    }
  }

  private static func parse(
    buffer: UnsafeBufferPointer<UInt8>, cutBelow depth: Int? = nil
  ) -> Result<JSON, ParseError> {
    Result { () throws(ParseError) in
      var parser = JSONParser(bytes: buffer, cutBelow: depth)
      return try parser.document()
    }
  }
}
