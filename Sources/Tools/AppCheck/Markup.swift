import Foundation

/// An element of XML, and what is inside it. Comments, instructions and declarations are passed over; entities of one's
/// own are not known, so that nothing can grow.
struct Element {
  let name: Name
  fileprivate(set) var attributes: [(key: Name, text: Name, line: Int)] = []
  fileprivate(set) var children: [Element] = []
  /// Its own texts, one behind the other.
  fileprivate(set) var text: [UInt8] = []
  /// Where its text begins, or else the element itself.
  fileprivate(set) var line: Int
  fileprivate var hasText = false
  /// Whether the file does not end before it does.
  fileprivate(set) var isWhole = false

  subscript(key: Name) -> Name? { attributes.last { $0.key == key }?.text }

  /// The elements in it, and those in these, in order.
  var descendants: [Element] { children.flatMap { [$0] + $0.descendants } }
}

private struct Markup {
  var cursor: Cursor
  let budget: Budget

  /// Reads what is inside an element.
  ///
  /// - Returns: the name at the end that was found; nil if the file ends before.
  mutating func readContent(of element: inout Element, _ depth: Int) throws -> Name? {
    guard depth <= Budget.depth else { throw Budget.tooDeep }
    while !cursor.isAtEnd {
      try budget.step()
      if cursor.has("<!--") {
        cursor.skip(behind: "-->")
      } else if cursor.has("<![CDATA[") {
        cursor.advance(9)
        add(to: &element) { Array($0.skip(behind: "]]>")) }
      } else if cursor.has("<?") {
        cursor.skip(behind: "?>")
      } else if cursor.has("<!") {
        // Declarations in a declaration are passed over one by one.
        cursor.skip(behind: ">")
      } else if cursor.has("</") {
        cursor.advance(2)
        defer { cursor.skip(behind: ">") }
        return word()
      } else if cursor.byte() == "<" {
        element.children.append(try child(depth))
      } else {
        add(to: &element) { Self.resolved($0.skip { $0 != "<" }) }
      }
    }
    return nil
  }

  private mutating func add(to element: inout Element, _ read: (inout Cursor) -> [UInt8]) {
    var start = cursor
    start.skip(while: \.isBlank)
    let text = read(&cursor)
    if start.place < cursor.place, !element.hasText { (element.line, element.hasText) = (start.line, true) }
    element.text += text
  }

  private mutating func child(_ depth: Int) throws -> Element {
    try budget.step(20)
    let line = cursor.line
    cursor.advance()
    var element = Element(name: word(), line: line)
    while !cursor.isAtEnd, cursor.byte() != ">" {
      if cursor.byte().isBlank || cursor.byte() == "/" {
        cursor.advance()
        continue
      }
      let key = word()
      cursor.skip(while: \.isBlank)
      guard cursor.byte() == "=" else {
        if key.bytes.isEmpty { cursor.advance() }
        continue
      }
      cursor.advance()
      cursor.skip(while: \.isBlank)
      let quote = cursor.byte()
      guard quote == "\"" || quote == "'" else { continue }
      try budget.step(20)
      cursor.advance()
      let line = cursor.line
      element.attributes.append((key, Name(Self.resolved(cursor.skip { $0 != quote })), line))
      cursor.advance()
    }
    element.isWhole = cursor.byte() == ">" && cursor.byte(-1) == "/"
    cursor.advance()
    if !element.isWhole { element.isWhole = try readContent(of: &element, depth + 1) == element.name }
    return element
  }

  private mutating func word() -> Name {
    Name(cursor.skip { !$0.isBlank && !Self.ends.contains($0) })
  }
  private static let ends = Set("<>=/\"'".utf8)

  private static let entities: [(text: StaticString, byte: UInt8)] = [
    ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"),
  ]

  /// A text with the entities replaced that XML itself has.
  private static func resolved(_ raw: ArraySlice<UInt8>) -> [UInt8] {
    guard raw.contains("&") else { return Array(raw) }
    var (text, cursor): ([UInt8], Cursor) = ([], Cursor(Array(raw)))
    while !cursor.isAtEnd {
      let entity = cursor.byte() == "&" ? entities.first { cursor.has($0.text) } : nil
      text.append(entity?.byte ?? cursor.byte())
      cursor.advance(entity?.text.utf8CodeUnitCount ?? 1)
    }
    return text
  }
}

extension Element {
  /// The first element of a file; nil if there is none.
  init?(_ data: Data, _ budget: Budget) throws {
    var markup = Markup(cursor: Cursor(Array(data)), budget: budget)
    var document = Element(name: "", line: 1)
    _ = try markup.readContent(of: &document, 0)
    guard let root = document.children.first else { return nil }
    self = root
  }

  /// The texts of an Android app's `res/values` file, by name.
  func androidTexts(in file: Name) -> [(name: Name, value: Value)] {
    children.filter { $0.name == "string" || $0.name == "item" }.compactMap { element in
      element["name"].map { ($0, Value(element.androidText, file: file, line: element.line)) }
    }
  }

  /// As Android has it: blanks are one, and none at the ends; quotes and backslashes are resolved.
  private var androidText: Name {
    var (plain, isQuoted, isEscaped): ([UInt8], Bool, Bool) = ([], false, false)
    for byte in text {
      if isEscaped {
        plain.append(byte)
        isEscaped = false
      } else if byte == "\\" {
        isEscaped = true
      } else if byte == "\"" {
        isQuoted.toggle()
      } else if !byte.isBlank || isQuoted {
        plain.append(byte)
      } else if let last = plain.last, last != " " {
        plain.append(" ")
      }
    }
    if plain.last == " " { plain.removeLast() }
    return Name(plain)
  }
}
