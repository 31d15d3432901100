extension JSON {
  /// An array that is read an element at a time, so that a long one takes no more memory than its text.
  package struct List: Sendable {
    private let text: String
    /// How many elements it has.
    package let count: Int

    /// Looks through a whole document.
    ///
    /// - Returns: nil if it is no array.
    package init?(_ text: String) throws(ParseError) {
      var text = text
      let count = try text.withUTF8 { bytes in
        Result { () throws(ParseError) in
          var parser = JSONParser(bytes: bytes, cutBelow: nil)
          return try parser.count()
        }
      }.get()
      guard let count else { return nil }
      self.text = text
      self.count = count
    }

    /// Each element, read.
    ///
    /// - Throws: what `read` throws, and ``ParseError/tooManyValues`` for an element that is out of proportion.
    package func map<Element>(_ read: (JSON, Int) throws -> Element) throws -> [Element] {
      var text = text
      return try text.withUTF8 { bytes in
        var parser = JSONParser(bytes: bytes, cutBelow: nil)
        var results: [Element] = []
        results.reserveCapacity(count)
        try parser.elements { results.append(try read($0, results.count)) }
        return results
      }
    }
  }
}
