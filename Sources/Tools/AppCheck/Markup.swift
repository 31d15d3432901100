/// Reads XML once from its beginning to its end: elements with their attributes, and the texts between them. Comments,
/// instructions and declarations are passed over; entities of one's own are not known, so nothing can grow.
struct Markup {
  enum Event {
    case start(Name, attributes: [Name: Name], isEmpty: Bool)
    case text(Name)
    case end(Name)
  }

  private let bytes: [UInt8]
  private var place = 0
  private let budget: Budget
  /// The line of what was read last.
  private(set) var line = 1
  private var (counted, current) = (0, 1)
  /// The lines of the attributes of the element that was read last.
  private(set) var lines: [Name: Int] = [:]
  private var (root, last, depth): (Name?, Name?, Int) = (nil, nil, 0)

  /// Whether what has been read is closed.
  var isWhole: Bool { root != nil && depth == 0 && last == root }

  init(_ bytes: [UInt8], _ budget: Budget) { (self.bytes, self.budget) = (bytes, budget) }

  private func has(_ text: StaticString) -> Bool {
    guard place + text.utf8CodeUnitCount <= bytes.count else { return false }
    for index in 0..<text.utf8CodeUnitCount where bytes[place + index] != text.utf8Start[index] {
      return false
    }
    return true
  }

  /// Goes on to behind a text, or to the end.
  private mutating func skip(behind text: StaticString) {
    while place < bytes.count, !has(text) { place += 1 }
    place = min(bytes.count, place + text.utf8CodeUnitCount)
  }

  private mutating func count(to place: Int) {
    while counted < place {
      if bytes[counted] == "\n" { current += 1 }
      counted += 1
    }
    line = current
  }

  mutating func next() throws -> Event? {
    while place < bytes.count {
      try budget.step()
      if has("<!--") {
        place += 4
        skip(behind: "-->")
      } else if has("<![CDATA[") {
        place += 9
        let start = place
        skip(behind: "]]>")
        count(to: start)
        return .text(Name(bytes[start..<max(start, min(place - 3, bytes.count))]))
      } else if has("<?") {
        skip(behind: "?>")
      } else if has("<!") {
        skipDeclaration()
      } else if bytes[place] == "<" {
        return try element()
      } else {
        let start = bytes[place...].firstIndex { !$0.isBlank } ?? place
        let end = bytes[place...].firstIndex(of: "<") ?? bytes.endIndex
        count(to: min(start, end))
        defer { place = end }
        return .text(Self.resolved(bytes[place..<end]))
      }
    }
    return nil
  }

  private mutating func skipDeclaration() {
    var depth = 0
    while place < bytes.count {
      let byte = bytes[place]
      place += 1
      if byte == "[" { depth += 1 }
      if byte == "]" { depth -= 1 }
      if byte == ">", depth <= 0 { return }
    }
  }

  private mutating func element() throws -> Event {
    count(to: place)
    place += 1
    let isEnd = place < bytes.count && bytes[place] == "/"
    if isEnd { place += 1 }
    let name = word()
    var attributes: [Name: Name] = [:]
    var isEmpty = false
    let first = line
    defer { line = first }
    lines = [:]
    while place < bytes.count, bytes[place] != ">" {
      if bytes[place].isBlank || bytes[place] == "/" {
        isEmpty = bytes[place] == "/"
        place += 1
        continue
      }
      isEmpty = false
      let key = word()
      skipBlanks()
      guard place < bytes.count, bytes[place] == "=" else {
        if key.bytes.isEmpty { place += 1 }
        continue
      }
      place += 1
      skipBlanks()
      guard place < bytes.count, bytes[place] == "\"" || bytes[place] == "'" else { continue }
      try budget.step(20)
      let start = place + 1
      let end = bytes[start...].firstIndex(of: bytes[place]) ?? bytes.endIndex
      attributes[key] = Self.resolved(bytes[start..<end])
      count(to: start)
      lines[key] = line
      place = min(bytes.count, end + 1)
    }
    place = min(bytes.count, place + 1)
    root = root ?? name
    if isEnd || isEmpty { last = name }
    depth += isEnd ? -1 : isEmpty ? 0 : 1
    return isEnd ? .end(name) : .start(name, attributes: attributes, isEmpty: isEmpty)
  }

  private mutating func skipBlanks() { while place < bytes.count, bytes[place].isBlank { place += 1 } }

  private mutating func word() -> Name {
    let start = place
    while place < bytes.count, !bytes[place].isBlank, !Self.ends.contains(bytes[place]) { place += 1 }
    return Name(bytes[start..<place])
  }
  private static let ends = Set("<>=/\"'".utf8)

  private static let entities: [Name: UInt8] = ["amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'"]

  /// A text with its entities replaced.
  private static func resolved(_ raw: ArraySlice<UInt8>) -> Name {
    guard raw.contains("&") else { return Name(raw) }
    var (text, place): ([UInt8], Int) = ([], raw.startIndex)
    while place < raw.endIndex {
      // The longest is `&#x10FFFF;`.
      if raw[place] == "&", let end = raw[place..<min(place + 12, raw.endIndex)].firstIndex(of: ";") {
        let name = Name(raw[place + 1..<end])
        if let byte = entities[name] {
          text.append(byte)
          place = end + 1
          continue
        }
        let isHex = name.hasPrefix("#x")
        if name.hasPrefix("#"),
          let number = UInt32(Name(name.bytes.dropFirst(isHex ? 2 : 1)).text, radix: isHex ? 16 : 10),
          let scalar = Unicode.Scalar(number)
        {
          text += Array(String(Character(scalar)).utf8)
          place = end + 1
          continue
        }
      }
      text.append(raw[place])
      place += 1
    }
    return Name(text)
  }
}

/// The texts of an Android app's `res/values` file, by name.
struct AndroidTexts {
  private(set) var texts: [(name: Name, value: Value)] = []
  /// Whether the file does not end before what is open in it does.
  private(set) var isWhole = false

  init(_ bytes: [UInt8], file: Name, _ budget: Budget) throws {
    var markup = Markup(bytes, budget)
    // The text that is open, where it begins, and what has been read of it.
    var open: (name: Name, line: Int, text: [UInt8], depth: Int)?
    func close() {
      guard let found = open else { return }
      texts.append((found.name, Value(Self.plain(found.text), file: file, line: found.line)))
      open = nil
    }
    while let event = try markup.next() {
      switch event {
      case .start(let element, let attributes, let isEmpty):
        if open != nil {
          if !isEmpty { open?.depth += 1 }
        } else if element == "string" || element == "item", let name = attributes["name"] {
          open = (name, markup.line, [], 0)
          if isEmpty { close() }
        }
      case .text(let text):
        if open != nil {
          if open?.text.isEmpty == true, !text.trimmed.bytes.isEmpty { open?.line = markup.line }
          open?.text += text.bytes
        }
      case .end: if open?.depth == 0 { close() } else { open?.depth -= 1 }
      }
    }
    isWhole = markup.isWhole
  }

  /// As Android has it: blanks are one, and none at the ends; quotes and backslashes are resolved.
  private static func plain(_ raw: [UInt8]) -> Name {
    var (text, isQuoted): ([UInt8], Bool) = ([], false)
    var place = 0
    while place < raw.count {
      let byte = raw[place]
      place += 1
      if byte == "\\", place < raw.count {
        text.append(raw[place])
        place += 1
      } else if byte == "\"" {
        isQuoted.toggle()
      } else if byte.isBlank, !isQuoted {
        if let last = text.last, last != " " { text.append(" ") }
      } else {
        text.append(byte)
      }
    }
    if text.last == " " { text.removeLast() }
    return Name(text)
  }
}
