package import NIOCore

extension JSON {
  /// Why bytes are no JSON document.
  package enum ParseError: Error, Hashable {
    /// Not valid UTF-8.
    case encoding
    /// Not a JSON document; at this byte it goes wrong.
    case syntax(at: Int)
    /// Arrays and objects nested deeper than allowed.
    case depth
    /// More values than a document of its length has in earnest.
    case tooManyValues
  }

  /// How deep arrays and objects may be nested.
  package static let maximumDepth = 64

  /// As many values a document of so many bytes may have. Each takes up to a hundred bytes of memory, however
  /// short it is.
  static func maximumValues(in bytes: Int) -> Int { 10_000 + bytes / 32 }

  /// Reads one JSON document in UTF-8.
  package static func parse(_ bytes: some Collection<UInt8>) throws(ParseError) -> JSON {
    if let result = bytes.withContiguousStorageIfAvailable({ parse(buffer: $0) }) { return try result.get() }
    return try Array(bytes).withUnsafeBufferPointer { parse(buffer: $0) }.get()
  }

  /// Reads one JSON document in UTF-8.
  ///
  /// - Parameter depth: with it, what is nested deeper does not spoil the document: `null` stands in its
  ///   place, and only its strings and brackets have been looked at.
  package static func parse(_ buffer: ByteBuffer, cutBelow depth: Int? = nil) throws(ParseError) -> JSON {
    try buffer.withUnsafeReadableBytes { parse(buffer: $0.bindMemory(to: UInt8.self), cutBelow: depth) }.get()
  }

  /// Reads one JSON document.
  package static func parse(_ text: String) throws(ParseError) -> JSON {
    try parse(text.utf8)
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
