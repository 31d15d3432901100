/// What the expressions are that names are set to, as far as they are texts.
extension Code {
  /// The longest expression that is looked at, in tokens.
  private static let longest = 200
  /// How far constants that name one another are followed.
  private static let deepest = 8

  /// The expression that begins at an index, as a text; nil if it could not be worked out.
  func constant(at index: Int, depth: Int = 0) throws -> Name? {
    var place = index
    guard depth < Self.deepest, let text = try expression(&place, depth), isEnd(place) else { return nil }
    return text
  }

  private func isEnd(_ place: Int) -> Bool {
    guard place < tokens.count else { return true }
    switch self[mark: place] {
    case ";", ",", ")", "]", "}": return true
    // Where lines end statements, what follows there is another one, but for operators.
    case "?", ".", ":": return false
    default: return tokens[place].line > tokens[place - 1].line
    }
  }

  /// Texts with `+` between them, or one behind the other where this makes them one.
  private func expression(_ place: inout Int, _ depth: Int) throws -> Name? {
    guard depth < Budget.depth, var text = try term(&place, depth) else { return nil }
    let start = place
    while place - start < Self.longest {
      let isAdded = self[mark: place] == "+"
      let isText = kind(place) == .text || (self[mark: place] == "@" && kind(place + 1) == .text)
      guard isAdded || (isText && language.joinsTexts) else { break }
      if isAdded { place += 1 }
      guard let next = try term(&place, depth) else { return nil }
      text = text + next
    }
    return text
  }

  private func term(_ place: inout Int, _ depth: Int) throws -> Name? {
    while ["const", "r", "return", "@"].contains(self[place]), kind(place) != .text { place += 1 }
    if kind(place) == .text {
      place += 1
      return try written(place - 1, depth)
    }
    if self[mark: place] == "(" { return try bracketed(&place, depth) }
    guard kind(place) == .word else { return nil }
    while self[mark: place + 1] == ".", kind(place + 2) == .word { place += 2 }
    let name = self[place]
    place += 1
    guard self[mark: place] == "(" else { return try value(of: name, depth) }
    // A call that only decodes a text.
    return ["base64Decode", "decode", "URL", "Uri", "parse"].contains(name)
      ? try bracketed(&place, depth) : nil
  }

  private func bracketed(_ place: inout Int, _ depth: Int) throws -> Name? {
    place += 1
    let text = try expression(&place, depth + 1)
    if self[mark: place] == "," { place += 1 }
    guard self[mark: place] == ")" else { return nil }
    place += 1
    return text
  }

  /// A constant by its name.
  private func value(of name: Name, _ depth: Int) throws -> Name? {
    try budget.step()
    guard depth < Self.deepest else { return nil }
    if let start = assignments[name]?.first { return try constant(at: start, depth: depth + 1) }
    return try imported.first { $0.assignments[name] != nil }?.value(of: name, depth + 1)
  }

  /// A text as the program has it: escapes resolved, and constants put in where they are named.
  func written(_ index: Int, _ depth: Int = 0) throws -> Name {
    let raw = self[index].bytes
    try budget.step(1 + raw.count / 64)
    guard raw.contains("\\") || raw.contains("$") else { return Name(raw) }
    var (text, cursor): ([UInt8], Cursor) = ([], Cursor(raw))
    // One that is longer is no value.
    while !cursor.isAtEnd, text.count <= 4 * Budget.value {
      if cursor.byte() == "$", language.hasInterpolation {
        let start = cursor.place
        cursor.advance()
        let isBraced = cursor.byte() == "{"
        if isBraced { cursor.advance() }
        // `name`, or `Options.name`
        let path = cursor.skip { $0.isWord || (isBraced && $0 == ".") }
        let name = Name(path.split(separator: ".").last ?? [])
        let isClosed = !isBraced || cursor.byte() == "}"
        if isBraced { cursor.advance() }
        let value = isClosed && !path.isEmpty ? try value(of: name, depth + 1) : nil
        text += value?.bytes ?? Array(raw[start..<cursor.place])
      } else {
        if cursor.byte() == "\\", ![0, "("].contains(cursor.byte(1)) { cursor.advance() }
        text.append(cursor.byte())
        cursor.advance()
      }
    }
    return Name(text)
  }
}
