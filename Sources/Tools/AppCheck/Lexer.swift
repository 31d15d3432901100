/// A language that apps are written in, or their settings.
enum Language: Sendable {
  case dart, swift, objectiveC, kotlin
  /// `project.pbxproj`
  case list
  /// Java, Groovy, JSON.
  case other

  init(of file: Name) {
    self = Self.endings[Name(file.bytes.split(separator: ".").last ?? [])] ?? .other
  }
  private static let endings: [Name: Language] = [
    "dart": .dart, "swift": .swift, "m": .objectiveC, "h": .objectiveC, "mm": .objectiveC, "kt": .kotlin,
    "kts": .kotlin,
  ]

  /// Whether `#if` decides what is compiled.
  var hasConditions: Bool { self == .swift || self == .objectiveC }
  /// Whether `$name` and `${name}` stand for a constant in a text.
  var hasInterpolation: Bool { [.dart, .kotlin, .other].contains(self) }
  /// Whether texts that follow one another are one.
  var joinsTexts: Bool { self == .dart || self == .objectiveC }
}

/// Reads a file once from its beginning to its end: names, texts and marks, without comments and without what is compiled
/// for development only.
struct Lexer {
  private var cursor: Cursor
  private let language: Language
  /// What is set for `#if`.
  private let conditions: Set<Name>
  /// The line in which the last token ends.
  private var last = 0
  /// Of each `#if` that is open: whether what follows is compiled, whether a branch has been, and what is around it.
  private var branches: [(isOn: Bool, wasOn: Bool, isOutsideOn: Bool)] = []
  private var endsInside = false

  init(_ bytes: [UInt8], _ language: Language, _ conditions: Set<Name>) {
    (cursor, self.language, self.conditions) = (Cursor(bytes), language, conditions)
  }

  /// Whether the file ends in a text, a comment or an `#if`.
  var isCut: Bool { endsInside || !branches.isEmpty }

  private var isOn: Bool { branches.last?.isOn ?? true }

  /// The next token that is compiled for release.
  mutating func next() -> Code.Token? {
    while !cursor.isAtEnd {
      guard let token = step() else { continue }
      last = cursor.line
      if isOn { return token }
    }
    return nil
  }

  /// Reads one token, or what is none: nil.
  private mutating func step() -> Code.Token? {
    switch cursor.byte() {
    case let byte where byte.isBlank: cursor.advance()
    case "/" where cursor.byte(1) == "/": cursor.skip { $0 != "\n" }
    case "/" where cursor.byte(1) == "*": skipComment()
    case "#" where last < cursor.line && language.hasConditions && readCondition(): break
    case "\"", "'": return text()
    default:
      let (start, line) = (cursor.place, cursor.line)
      let isWord = !cursor.skip { $0.isWord || $0 == "$" }.isEmpty
      if !isWord { cursor.advance() }
      return token(isWord ? .word : .mark, start, line)
    }
    return nil
  }

  private func token(_ kind: Code.Token.Kind, _ start: Int, _ line: Int) -> Code.Token {
    Code.Token(kind: kind, start: Int32(start), end: Int32(cursor.place), line: Int32(line))
  }

  private mutating func skipComment() {
    let isNested = [.swift, .kotlin, .dart].contains(language)
    var depth = 0
    repeat {
      if cursor.has("/*") {
        if depth == 0 || isNested { depth += 1 }
        cursor.advance(2)
      } else if cursor.has("*/") {
        depth -= 1
        cursor.advance(2)
      } else {
        cursor.advance()
      }
    } while depth > 0 && !cursor.isAtEnd
    endsInside = depth > 0
  }

  private mutating func text() -> Code.Token {
    let (quote, before, line) = (cursor.byte(), cursor.byte(-1), cursor.line)
    // `r'...'` of Dart, `#"..."#` of Swift.
    let isHashed = language == .swift && before == "#"
    let isRaw = isHashed || (language == .dart && before == "r")
    let isLong = cursor.byte(1) == quote && cursor.byte(2) == quote
    let width = isLong ? 3 : 1
    cursor.advance(width)
    let start = cursor.place
    // What is put in between braces may have quotes of its own.
    var depth = 0
    while !cursor.isAtEnd {
      let (byte, next) = (cursor.byte(), cursor.byte(1))
      // A text that is not closed ends with its line, so that one mistake does not hide the rest of a file.
      if byte == "\n", !isLong, language != .list { return token(.text, start, line) }
      if byte == "\\", !isRaw {
        if next == "(", language == .swift { depth += 1 }
        cursor.advance(2)
      } else if byte == "$", next == "{", !isRaw, language.hasInterpolation {
        depth += 1
        cursor.advance(2)
      } else if depth > 0 {
        if byte == "(" || byte == "{" { depth += 1 }
        if byte == ")" || byte == "}" { depth -= 1 }
        cursor.advance()
      } else if byte == quote, !isLong || (next == quote && cursor.byte(2) == quote),
        !isHashed || cursor.byte(width) == "#"
      {
        defer { cursor.advance(width) }
        return token(.text, start, line)
      } else {
        cursor.advance()
      }
    }
    endsInside = true
    return token(.text, start, line)
  }

  /// Reads `#if` and what belongs to it; false if there is something else at this place.
  private mutating func readCondition() -> Bool {
    var ahead = cursor
    ahead.advance()
    let line = Name(ahead.skip { $0 != "\n" }.prefix(1_000)).trimmed.bytes
    let word = Name(line.prefix(while: \.isWord))
    let condition = line.dropFirst(word.bytes.count)
    switch word {
    case "if", "ifdef", "ifndef":
      let isMet = holds(condition) != (word == "ifndef")
      branches.append((isOn && isMet, isMet, isOn))
    case "elseif", "elif", "else":
      guard let last = branches.popLast() else { break }
      let isMet = !last.wasOn && (word == "else" || holds(condition))
      branches.append((last.isOutsideOn && isMet, last.wasOn || isMet, last.isOutsideOn))
    case "endif": _ = branches.popLast()
    default: return false
    }
    cursor = ahead
    return true
  }

  /// A condition without brackets of its own: names, `!`, `&&`, `||`. What is not understood holds.
  private func holds(_ condition: ArraySlice<UInt8>) -> Bool {
    condition.split(separator: "|").contains { all in
      all.split(separator: "&").allSatisfy { atom in
        let marks = atom.prefix { $0 == "!" || $0.isBlank }
        return isSet(Name(atom.dropFirst(marks.count)).trimmed) == marks.count { $0 == "!" }.isMultiple(of: 2)
      }
    }
  }

  private func isSet(_ atom: Name) -> Bool {
    var name = atom
    if name.hasPrefix("defined") {
      name = Name(name.bytes.dropFirst(7).filter { $0 != "(" && $0 != ")" }).trimmed
    }
    if name.hasPrefix("__has_include") {
      let parts = name.bytes.split(separator: "\"")
      return parts.count > 1 && conditions.contains(Name(parts[1]))
    }
    if name == "0" || name.contains("simulator") || name.contains("SIMULATOR") { return false }
    return name == "1" || name == "true" || name.bytes.contains("(") || conditions.contains(name)
  }
}
