/// A file in one of the languages that apps are written in, as names, texts and marks.
///
/// It knows as much of Dart, Swift, Objective-C, Kotlin, Java and Groovy as their texts and comments need.
struct Code: Sendable {
  struct Token: Sendable {
    enum Kind: Sendable { case word, text, mark }

    let kind: Kind
    /// Of a text, without its quotes.
    let start: Int32
    let end: Int32
    let line: Int32
  }

  let file: Name
  let bytes: [UInt8]
  let language: Language
  let budget: Budget
  private(set) var tokens: [Token] = []
  /// Where the expressions begin that names are set to, by name; also those of macros.
  private(set) var assignments: [Name: [Int]] = [:]
  /// The conditions of the `if` that such an expression is in: where its words begin and end.
  private(set) var guards: [Int: Range<Int>] = [:]
  /// Files that this one imports, whose constants it may name.
  var imported: [Code] = []

  /// Whether the file ends before what is open in it does.
  private(set) var isCut = false

  /// - Parameter conditions: what is set where the app is compiled for release, for `#if`; and the files that are there,
  ///   for `__has_include`.
  init(
    _ bytes: [UInt8], file: Name, _ language: Language, conditions: Set<Name> = [], _ budget: Budget
  ) throws {
    (self.bytes, self.file, self.language, self.budget) = (bytes, file, language, budget)
    var lexer = Lexer(bytes, language, conditions)
    while let token = lexer.next() {
      try budget.step()
      tokens.append(token)
    }
    guard language != .list else { return }
    isCut = lexer.isCut || !isClosed
    for index in tokens.indices.dropFirst() where self[mark: index] == "=" {
      if let name = nameBefore(index) { assignments[name, default: []].append(index + 1) }
    }
    switch language {
    case .swift:
      noteComputed()
      noteGuards()
    case .dart: try noteMembers()
    default: break
    }
    // `#define NAME @"..."`
    for index in tokens.indices where self[mark: index] == "#" && self[index + 1] == "define" {
      assignments[self[index + 2], default: []].append(index + 3)
    }
  }

  /// Whether each bracket is closed, and the last statement ended.
  private var isClosed: Bool {
    guard tokens.indices.reduce(0, { $0 + opening($1) }) <= 0 else { return false }
    guard let last = tokens.indices.last, file.hasSuffix(".m") || language == .dart else { return true }
    return [";", "}"].contains(self[mark: last]) || self[last] == "end"
  }

  /// Notes what a property is that is computed: `var name: String { "..." }`.
  private mutating func noteComputed() {
    for index in tokens.indices where self[index] == "var" && self[mark: index + 2] == ":" {
      let place = index + (self[mark: index + 4] == "?" ? 5 : 4)
      if self[mark: place] == "{" { assignments[self[index + 1], default: []].append(place + 1) }
    }
  }

  /// Notes the members of what a name is set to: `name = const Options(member: ...)` as `name.member`.
  private mutating func noteMembers() throws {
    var open: [Name?] = []
    for index in tokens.indices {
      switch opening(index) {
      case 1:
        let start = self[index - 2] == "const" ? index - 3 : index - 2
        open.append(self[mark: index] == "(" && self[mark: start] == "=" ? nameBefore(start) : nil)
      case -1: _ = open.popLast()
      default:
        guard let owner = open.last ?? nil, kind(index) == .word, self[mark: index + 1] == ":" else { break }
        try budget.step(1 + owner.bytes.count / 16)
        assignments[owner + "." + self[index], default: []].append(index + 2)
      }
    }
  }

  /// Notes for each assignment in which `if` it is, if it is in one.
  private mutating func noteGuards() {
    let starts = Set(assignments.values.joined())
    var open: [Range<Int>?] = []
    var condition: Int?
    for index in tokens.indices {
      if kind(index) == .word, self[index] == "if" { condition = index + 1 }
      if self[mark: index] == "{" {
        open.append(condition.map { $0..<index } ?? open.last ?? nil)
        condition = nil
      } else if self[mark: index] == "}" {
        _ = open.popLast()
      }
      if condition == nil, starts.contains(index), let range = open.last ?? nil { guards[index] = range }
    }
  }

  /// The name of what is set at a `=`; nil if it is a comparison.
  private func nameBefore(_ index: Int) -> Name? {
    if self[mark: index + 1] == "=", isAdjacent(index + 1) { return nil }
    // `name: Type =` and `name: Type? =` of Swift and Kotlin.
    let type = self[mark: index - 1] == "?" ? index - 2 : index - 1
    guard kind(type) == .word else { return nil }
    if self[mark: type - 1] == ":", kind(type - 2) == .word { return self[type - 2] }
    return type == index - 1 ? self[type] : nil
  }

  /// The files that `#import "..."` names.
  var imports: [Name] {
    tokens.indices.dropFirst(2).filter { index in
      kind(index) == .text && self[mark: index - 2] == "#" && ["import", "include"].contains(self[index - 1])
    }.map { self[$0] }
  }

  /// What a token says.
  subscript(index: Int) -> Name { joined(index..<index + 1) ?? "" }

  /// The mark at an index; nil if there is something else.
  subscript(mark index: Int) -> UInt8? { kind(index) == .mark ? bytes[Int(tokens[index].start)] : nil }

  func kind(_ index: Int) -> Token.Kind? { tokens.indices.contains(index) ? tokens[index].kind : nil }

  func line(_ index: Int) -> Int? { tokens.indices.contains(index) ? Int(tokens[index].line) : nil }

  /// Where a token stands.
  func place(_ index: Int) -> Value { Value("", file: file, line: line(index)) }

  /// Whether nothing stands between a token and the one before it.
  func isAdjacent(_ index: Int) -> Bool { tokens[index].start == tokens[index - 1].end }

  /// All from the first to the last of these tokens; nil if there are none.
  func joined(_ range: Range<Int>) -> Name? {
    guard tokens.indices.contains(range.lowerBound), tokens.indices.contains(range.upperBound - 1) else {
      return nil
    }
    return Name(bytes[Int(tokens[range.lowerBound].start)..<Int(tokens[range.upperBound - 1].end)])
  }

  /// Where a name ends that begins at a token, with those of which it is a member: `libs.plugins.google`.
  func endOfPath(_ start: Int) -> Int {
    var end = start + 1
    while self[mark: end] == ".", kind(end + 1) == .word { end += 2 }
    return end
  }

  /// Whether a token opens a bracket, 1, or closes one, -1.
  private func opening(_ index: Int) -> Int {
    switch self[mark: index] {
    case "(", "[", "{": 1
    case ")", "]", "}": -1
    default: 0
    }
  }

  /// The texts that follow a token in its line.
  func texts(behind index: Int) -> [Int] {
    (index + 1..<index + 40).prefix { line($0) == line(index) }.filter { kind($0) == .text }
  }

  // MARK: What the expressions are that names are set to, as far as they are texts

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
    place = endOfPath(place)
    let name = self[place - 1]
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
