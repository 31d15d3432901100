/// A file in one of the languages that apps are written in, read once from its beginning to its end: names, texts and
/// marks, without comments and without what is compiled for development only.
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
  private let budget: Budget
  private(set) var tokens: [Token] = []
  /// Where the expressions begin that names are set to, by name; also those of macros.
  private(set) var assignments: [Name: [Int]] = [:]
  /// The conditions of the `if` that such an expression is in: where its words begin and end.
  private(set) var guards: [Int: Range<Int>] = [:]
  /// Files that this one imports, whose constants it may name.
  var imported: [Code] = []

  /// Whether the file ends before what is open in it does.
  private(set) var isCut = false

  private enum Language { case dart, swift, objectiveC, kotlin, other }
  private let language: Language

  private static func language(of file: Name) -> Language {
    for (ending, language) in endings where file.hasSuffix(ending) { return language }
    return .other
  }
  private static let endings: [(Name, Language)] = [
    (".dart", .dart), (".swift", .swift), (".m", .objectiveC), (".h", .objectiveC), (".mm", .objectiveC),
    (".kt", .kotlin), (".kts", .kotlin),
  ]

  /// - Parameters:
  ///   - conditions: what is set where the app is compiled for release, for `#if`; and the files that are there, for
  ///     `__has_include`.
  init(_ bytes: [UInt8], file: Name, conditions: Set<Name> = [], _ budget: Budget) throws {
    self.file = file
    self.bytes = bytes
    self.budget = budget
    language = Self.language(of: file)
    var lexer = Lexer(bytes, language, conditions)
    while let token = lexer.next() {
      try budget.step()
      tokens.append(token)
    }
    isCut = lexer.isCut || !lexer.branches.isEmpty || !isClosed
    for index in tokens.indices.dropFirst() where self[mark: index] == "=" {
      if let name = nameBefore(index) { assignments[name, default: []].append(index + 1) }
    }
    if language == .swift {
      noteComputed()
      noteGuards()
    }
    // `#define NAME @"..."`
    for index in tokens.indices where self[mark: index] == "#" && self[index + 1] == "define" {
      assignments[self[index + 2], default: []].append(index + 3)
    }
  }

  /// Whether each bracket is closed, and the last statement ended.
  private var isClosed: Bool {
    var depth = 0
    for index in tokens.indices {
      switch self[mark: index] {
      case "(", "[", "{": depth += 1
      case ")", "]", "}": depth -= 1
      default: break
      }
    }
    guard depth <= 0, let last = tokens.indices.last else { return depth <= 0 }
    guard file.hasSuffix(".m") || language == .dart else { return true }
    return [";", "}"].contains(self[mark: last]) || self[last] == "end"
  }

  /// Notes what a property is that is computed: `var name: String { "..." }`.
  private mutating func noteComputed() {
    for index in tokens.indices where self[index] == "var" && self[mark: index + 2] == ":" {
      var place = index + 4
      if self[mark: place] == "?" { place += 1 }
      if self[mark: place] == "{" { assignments[self[index + 1], default: []].append(place + 1) }
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
    let before = tokens[index - 1]
    if self[mark: index + 1] == "=", tokens[index + 1].start == tokens[index].end { return nil }
    if before.kind == .word {
      // `name: Type =` of Swift and Kotlin.
      if self[mark: index - 2] == ":", kind(index - 3) == .word { return self[index - 3] }
      return self[index - 1]
    }
    // `name: Type? =`
    if self[mark: index - 1] == "?", self[mark: index - 3] == ":", index >= 4 { return self[index - 4] }
    return nil
  }

  /// The files that `#import "..."` names.
  var imports: [Name] {
    tokens.indices.dropFirst(2).filter { index in
      kind(index) == .text && self[mark: index - 2] == "#"
        && (self[index - 1] == "import" || self[index - 1] == "include")
    }.map { self[$0] }
  }

  /// What a token says.
  subscript(index: Int) -> Name {
    guard tokens.indices.contains(index) else { return "" }
    return Name(bytes[Int(tokens[index].start)..<Int(tokens[index].end)])
  }

  /// The mark at an index; nil if there is something else.
  subscript(mark index: Int) -> UInt8? {
    guard tokens.indices.contains(index), tokens[index].kind == .mark else { return nil }
    return bytes[Int(tokens[index].start)]
  }

  func kind(_ index: Int) -> Token.Kind? { tokens.indices.contains(index) ? tokens[index].kind : nil }

  func line(_ index: Int) -> Int? { tokens.indices.contains(index) ? Int(tokens[index].line) : nil }

  /// Where the bracket at an index is closed; the last token if it is not.
  func closing(_ index: Int) -> Int {
    var depth = 0
    for place in index..<tokens.count {
      switch self[mark: place] {
      case "(", "[", "{": depth += 1
      case ")", "]", "}":
        depth -= 1
        if depth <= 0 { return place }
      default: break
      }
    }
    return tokens.count - 1
  }
}

// MARK: Constants

extension Code {
  /// The longest expression that is looked at, in tokens.
  private static let longest = 200

  /// The expression that begins at an index, as a text; nil if it could not be worked out.
  func constant(at index: Int, depth: Int = 0) throws -> Name? {
    var place = index
    guard depth < 8, let text = try text(&place, depth), isEnd(place) else { return nil }
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

  private func text(_ place: inout Int, _ depth: Int) throws -> Name? {
    var parts: Name?
    let start = place
    while place < tokens.count, place - start < Self.longest {
      let part: Name
      switch tokens[place].kind {
      case .text:
        // Where lines end statements, two texts are not one.
        if parts != nil, language != .dart, language != .objectiveC, self[mark: place - 1] != "+" {
          return parts
        }
        part = try written(place, depth)
        place += 1
      case .word:
        guard parts == nil || self[mark: place - 1] == "+" else { return parts }
        if ["const", "r", "return"].contains(self[place]) {
          place += 1
          continue
        }
        guard let value = try named(&place, depth) else { return nil }
        part = value
      case .mark:
        switch self[mark: place] {
        case "@":
          guard kind(place + 1) == .text else { return parts }
          place += 1
          continue
        case "+":
          guard parts != nil else { return nil }
          place += 1
          continue
        case "(":
          guard parts == nil || self[mark: place - 1] == "+", depth < Budget.depth else { return parts }
          place += 1
          guard let inner = try text(&place, depth + 1) else { return nil }
          if self[mark: place] == "," { place += 1 }
          guard self[mark: place] == ")" else { return nil }
          part = inner
          place += 1
        default: return parts
        }
      }
      parts = parts.map { $0 + part } ?? part
    }
    return parts
  }

  /// A constant by its name, or a text inside a call that only decodes it.
  private func named(_ place: inout Int, _ depth: Int) throws -> Name? {
    while kind(place) == .word, self[mark: place + 1] == ".", kind(place + 2) == .word { place += 2 }
    let name = self[place]
    place += 1
    if self[mark: place] == "(" {
      guard ["base64Decode", "decode", "URL", "Uri", "parse"].contains(name), depth < Budget.depth else {
        return nil
      }
      place += 1
      guard let text = try text(&place, depth + 1) else { return nil }
      if self[mark: place] == "," { place += 1 }
      guard self[mark: place] == ")" else { return nil }
      place += 1
      return text
    }
    return try value(of: name, depth)
  }

  private func value(of name: Name, _ depth: Int) throws -> Name? {
    try budget.step()
    guard depth < 8 else { return nil }
    if let start = assignments[name]?.first { return try constant(at: start, depth: depth + 1) }
    for code in imported where code.assignments[name] != nil { return try code.value(of: name, depth + 1) }
    return nil
  }

  /// A text as the program has it: escapes resolved, and constants put in where they are named.
  private func written(_ index: Int, _ depth: Int) throws -> Name {
    let raw = bytes[Int(tokens[index].start)..<Int(tokens[index].end)]
    try budget.step(1 + raw.count / 64)
    guard raw.contains("\\") || raw.contains("$") else { return Name(raw) }
    var (text, place): ([UInt8], Int) = ([], raw.startIndex)
    // One that is longer is no value.
    while place < raw.endIndex, text.count <= 4 * Budget.value {
      let byte = raw[place]
      if byte == "\\", place + 1 < raw.endIndex, raw[place + 1] != "(" {
        text.append(raw[place + 1])
        place += 2
      } else if byte == "$", language != .swift, language != .objectiveC {
        let isBraced = place + 1 < raw.endIndex && raw[place + 1] == "{"
        let start = place + (isBraced ? 2 : 1)
        let end = raw[start...].firstIndex { !$0.isWord && !(isBraced && $0 == ".") } ?? raw.endIndex
        let reference = Name(raw[start..<end])
        let name = reference.bytes.lastIndex(of: ".").map { Name(reference.bytes[($0 + 1)...]) } ?? reference
        let isClosed = !isBraced || (end < raw.endIndex && raw[end] == "}")
        let next = isBraced ? end + 1 : end
        if start < end, isClosed, let value = try value(of: name, depth + 1) {
          text += value.bytes
        } else {
          text += raw[place..<min(max(next, place + 1), raw.endIndex)]
        }
        place = max(next, place + 1)
      } else {
        text.append(byte)
        place += 1
      }
    }
    return Name(text)
  }
}

// MARK: The lexer

extension Code {
  private struct Lexer {
    let bytes: [UInt8]
    let language: Language
    let conditions: Set<Name>
    var place = 0
    var line: Int32 = 1
    /// Whether only blanks stand before this place in its line.
    var isFirst = true
    /// Whether the file ends in a text or comment.
    var isCut = false
    /// Of each `#if` that is open: whether what follows is compiled, and whether a branch has been.
    var branches: [(isOn: Bool, wasOn: Bool)] = []

    init(_ bytes: [UInt8], _ language: Language, _ conditions: Set<Name>) {
      self.bytes = bytes
      self.language = language
      self.conditions = conditions
    }

    private func at(_ offset: Int) -> UInt8 { place + offset < bytes.count ? bytes[place + offset] : 0 }

    private func has(_ text: StaticString) -> Bool {
      guard place + text.utf8CodeUnitCount <= bytes.count else { return false }
      for index in 0..<text.utf8CodeUnitCount where bytes[place + index] != text.utf8Start[index] {
        return false
      }
      return true
    }

    /// The next token that is compiled for release.
    mutating func next() -> Token? {
      while place < bytes.count {
        let isOn = branches.last?.isOn ?? true
        if let token = step(), isOn { return token }
      }
      return nil
    }

    private mutating func newline() {
      line += 1
      isFirst = true
    }

    /// Reads one token, or what is none: nil.
    private mutating func step() -> Token? {
      let byte = bytes[place]
      if byte == "\n" {
        place += 1
        newline()
        return nil
      }
      if byte.isBlank {
        place += 1
        return nil
      }
      if has("//") {
        skipLine()
        return nil
      }
      if has("/*") {
        skipComment()
        return nil
      }
      if byte == "#", isFirst, language == .swift || language == .objectiveC, readCondition() { return nil }
      isFirst = false
      if byte == "\"" || byte == "'" { return text() }
      let start = place
      if byte.isWord || byte == "$" {
        repeat { place += 1 } while place < bytes.count && (bytes[place].isWord || bytes[place] == "$")
        return token(.word, start, place, line)
      }
      place += 1
      return token(.mark, start, place, line)
    }

    private func token(_ kind: Token.Kind, _ start: Int, _ end: Int, _ line: Int32) -> Token {
      Token(kind: kind, start: Int32(start), end: Int32(end), line: line)
    }

    private mutating func skipLine() { while place < bytes.count, bytes[place] != "\n" { place += 1 } }

    private mutating func skipComment() {
      var depth = 0
      repeat {
        if has("/*") {
          if depth == 0 || language == .swift || language == .kotlin || language == .dart { depth += 1 }
          place += 2
        } else if has("*/") {
          depth -= 1
          place += 2
        } else {
          if bytes[place] == "\n" { newline() }
          place += 1
        }
      } while depth > 0 && place < bytes.count
      if depth > 0 { isCut = true }
    }

    private mutating func text() -> Token {
      let quote = bytes[place]
      let before = place > 0 ? bytes[place - 1] : 0
      // `r'...'` of Dart, `#"..."#` of Swift.
      let isHashed = language == .swift && before == "#"
      let isRaw = isHashed || (language == .dart && before == "r")
      let isLong = at(1) == quote && at(2) == quote
      let width = isLong ? 3 : 1
      let first = line
      place += width
      let start = place
      // What is put in between braces may have quotes of its own.
      var depth = 0
      while place < bytes.count {
        let byte = bytes[place]
        if byte == "\n" {
          // A text that is not closed ends with its line, so that one mistake does not hide the rest of a file.
          if !isLong { break }
          newline()
        } else if byte == "\\", !isRaw {
          if at(1) == "(", language == .swift { depth += 1 }
          if at(1) == "\n" { newline() }
          place += 2
          continue
        } else if byte == "$", at(1) == "{", !isRaw, language != .swift, language != .objectiveC {
          depth += 1
          place += 2
          continue
        } else if depth > 0 {
          if byte == "(" || byte == "{" { depth += 1 }
          if byte == ")" || byte == "}" { depth -= 1 }
        } else if byte == quote, !isLong || (at(1) == quote && at(2) == quote), !isHashed || at(width) == "#"
        {
          let end = place
          place += width
          isFirst = false
          return token(.text, start, end, first)
        }
        place += 1
      }
      isFirst = place < bytes.count && bytes[place] == "\n"
      if place >= bytes.count { isCut = true }
      return token(.text, start, min(place, bytes.count), first)
    }

    /// Reads `#if` and what belongs to it; false if there is something else at this place.
    private mutating func readCondition() -> Bool {
      let end = bytes[place...].firstIndex(of: "\n") ?? bytes.endIndex
      let all = Name(bytes[place + 1..<min(end, place + 1_000)]).trimmed.bytes
      let split = all.firstIndex { !$0.isWord } ?? all.endIndex
      let condition = all[split...]
      let isOutside = branches.dropLast().last?.isOn ?? true
      switch Name(all[..<split]) {
      case "if", "ifdef", "ifndef":
        let isInside = branches.last?.isOn ?? true
        var isMet = holds(condition)
        if Name(all[..<split]) == "ifndef" { isMet.toggle() }
        branches.append((isInside && isMet, isMet))
      case "elseif", "elif":
        guard let last = branches.popLast() else { break }
        let isMet = !last.wasOn && holds(condition)
        branches.append((isOutside && isMet, last.wasOn || isMet))
      case "else":
        guard let last = branches.popLast() else { break }
        branches.append((isOutside && !last.wasOn, true))
      case "endif": _ = branches.popLast()
      default: return false
      }
      place = end
      return true
    }

    /// A condition without brackets of its own: names, `!`, `&&`, `||`. What is not understood holds.
    private func holds(_ condition: ArraySlice<UInt8>) -> Bool {
      Self.split(condition, "|").contains { part in
        Self.split(part, "&").allSatisfy { atom in
          var name = Name(atom).trimmed
          var isMet = true
          while name.bytes.first == "!" {
            name = Name(name.bytes.dropFirst()).trimmed
            isMet.toggle()
          }
          if name.hasPrefix("defined") {
            name = Name(name.bytes.dropFirst(7).filter { $0 != "(" && $0 != ")" }).trimmed
          }
          if name.hasPrefix("__has_include") {
            let parts = name.bytes.split(separator: "\"")
            return (parts.count > 1 && conditions.contains(Name(parts[1]))) == isMet
          }
          if name == "0" || name.contains("simulator") || name.contains("SIMULATOR") { return !isMet }
          if name == "1" || name == "true" || name.bytes.contains("(") { return isMet }
          return conditions.contains(name) == isMet
        }
      }
    }

    private static func split(_ text: ArraySlice<UInt8>, _ mark: UInt8) -> [ArraySlice<UInt8>] {
      text.split(separator: mark, omittingEmptySubsequences: true)
    }
  }
}
