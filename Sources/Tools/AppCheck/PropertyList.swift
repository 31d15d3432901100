internal import Foundation

/// A property list of Apple's: as XML, binary, or in the old form that Xcode's projects have.
struct PropertyList: Sendable {
  indirect enum Content: Sendable {
    case text(Name)
    case list([PropertyList])
    case members([Name: PropertyList])
    /// A number, a date, yes or no, and what could not be read.
    case other
  }

  let content: Content
  /// Counted from 1; nil in a binary list.
  let line: Int?

  var text: Name? { if case .text(let text) = content { text } else { nil } }
  var list: [PropertyList] { if case .list(let list) = content { list } else { [] } }
  var members: [Name: PropertyList]? { if case .members(let members) = content { members } else { nil } }
  subscript(key: Name) -> PropertyList? { members?[key] }

  /// The text as a value of a file.
  func value(in file: Name) -> Value? { text.map { Value($0, file: file, line: line) } }

  /// The texts of the list that a key has, or the one that it is itself.
  func texts(_ key: Name, in file: Name) -> [Value] {
    guard let member = self[key] else { return [] }
    return member.value(in: file).map { [$0] } ?? member.list.compactMap { $0.value(in: file) }
  }

  /// Reads a list whose root has members; nil if it is none.
  static func read(_ data: Data, _ budget: Budget) throws -> PropertyList? {
    guard data.count <= Budget.text else { return nil }
    let list: PropertyList?
    if data.starts(with: "bplist00".utf8) {
      list = try? PropertyListDecoder().decode(BinaryList.self, from: data).list
    } else if data.withUnsafeBytes({ $0.first(Array("<plist".utf8)) }) != nil {
      var reader = XMLList(Markup(Array(data), budget), budget)
      list = try reader.root()
    } else {
      var reader = OldList(Array(data), budget)
      list = try reader.root()
    }
    return list?.members == nil ? nil : list
  }
}

// MARK: XML

private struct XMLList {
  private var markup: Markup
  private let budget: Budget

  init(_ markup: Markup, _ budget: Budget) { (self.markup, self.budget) = (markup, budget) }

  /// nil if the file ends before what is open in it does.
  mutating func root() throws -> PropertyList? {
    var root: PropertyList?
    while let event = try markup.next() {
      if case .start(let name, _, let isEmpty) = event, name != "plist" {
        let element = try element(name, isEmpty, 0)
        root = root ?? element
      }
    }
    return markup.isWhole ? root : nil
  }

  /// Reads an element up to its end.
  private mutating func element(_ name: Name, _ isEmpty: Bool, _ depth: Int) throws -> PropertyList {
    guard depth <= Budget.depth else { throw Budget.tooDeep }
    try budget.step(20)
    var (line, text, children): (Int, [UInt8], [(name: Name, value: PropertyList)]) = (markup.line, [], [])
    reading: while !isEmpty, let event = try markup.next() {
      switch event {
      case .end: break reading
      case .text(let part):
        if text.isEmpty, children.isEmpty, name == "string" || name == "key" { line = markup.line }
        text += part.bytes
      case .start(let child, _, let isEmpty): children.append((child, try element(child, isEmpty, depth + 1)))
      }
    }
    switch name {
    case "dict":
      var (members, key): ([Name: PropertyList], Name?) = ([:], nil)
      for child in children {
        if let key, child.name != "key" { members[key] = child.value }
        key = child.name == "key" ? child.value.text : nil
      }
      return PropertyList(content: .members(members), line: line)
    case "array": return PropertyList(content: .list(children.map(\.value)), line: line)
    case "string", "key": return PropertyList(content: .text(Name(text).trimmed), line: line)
    default: return PropertyList(content: .other, line: line)
    }
  }
}

// MARK: Binary

/// What is looked for in a binary list: Foundation reads these members and no others, so that nothing can grow.
private struct BinaryList: Decodable {
  struct Extension: Decodable {
    let NSExtensionPointIdentifier: String?
    let EXExtensionPointIdentifier: String?
  }

  let CFBundleIdentifier: String?
  let CFBundleExecutable: String?
  let UIBackgroundModes: [String]?
  let NSExtension: Extension?
  let EXAppExtensionAttributes: Extension?

  var list: PropertyList {
    func text(_ text: String) -> PropertyList { PropertyList(content: .text(Name(text)), line: nil) }
    func members(_ members: [Name: PropertyList?]) -> PropertyList {
      PropertyList(content: .members(members.compactMapValues(\.self)), line: nil)
    }
    func members(_ kind: Extension) -> PropertyList {
      members([
        "NSExtensionPointIdentifier": kind.NSExtensionPointIdentifier.map(text),
        "EXExtensionPointIdentifier": kind.EXExtensionPointIdentifier.map(text),
      ])
    }
    return members([
      "CFBundleIdentifier": CFBundleIdentifier.map(text), "CFBundleExecutable": CFBundleExecutable.map(text),
      "UIBackgroundModes": UIBackgroundModes.map { PropertyList(content: .list($0.map(text)), line: nil) },
      "NSExtension": NSExtension.map(members),
      "EXAppExtensionAttributes": EXAppExtensionAttributes.map(members),
    ])
  }
}

// MARK: The old form

/// `{ key = value; list = (a, "b", ); }`, as `project.pbxproj` has it.
private struct OldList {
  private let bytes: [UInt8]
  private let budget: Budget
  private var place = 0
  private var line = 1

  init(_ bytes: [UInt8], _ budget: Budget) { (self.bytes, self.budget) = (bytes, budget) }

  mutating func root() throws -> PropertyList? {
    skip()
    return at("{") ? try value(0) : nil
  }

  private func at(_ mark: UInt8) -> Bool { place < bytes.count && bytes[place] == mark }

  /// Passes over blanks and comments.
  private mutating func skip() {
    while place < bytes.count {
      let byte = bytes[place]
      let next = place + 1 < bytes.count ? bytes[place + 1] : 0
      if byte.isBlank {
        if byte == "\n" { line += 1 }
        place += 1
      } else if byte == "/", next == "/" {
        while place < bytes.count, bytes[place] != "\n" { place += 1 }
      } else if byte == "/", next == "*" {
        place += 2
        while place < bytes.count {
          if bytes[place] == "*", place + 1 < bytes.count, bytes[place + 1] == "/" { break }
          if bytes[place] == "\n" { line += 1 }
          place += 1
        }
        place = min(bytes.count, place + 2)
      } else {
        return
      }
    }
  }

  private mutating func value(_ depth: Int) throws -> PropertyList? {
    try budget.step(20)
    guard depth <= Budget.depth else { throw Budget.tooDeep }
    skip()
    let start = line
    if at("{") {
      place += 1
      var members: [Name: PropertyList] = [:]
      while true {
        skip()
        if at("}") { break }
        guard let key = text() else { return nil }
        skip()
        guard at("=") else { return nil }
        place += 1
        guard let value = try value(depth + 1) else { return nil }
        members[key] = value
        skip()
        if at(";") { place += 1 }
      }
      place += 1
      return PropertyList(content: .members(members), line: start)
    }
    if at("(") {
      place += 1
      var list: [PropertyList] = []
      while true {
        skip()
        if at(")") { break }
        guard let value = try value(depth + 1) else { return nil }
        list.append(value)
        skip()
        if at(",") { place += 1 }
      }
      place += 1
      return PropertyList(content: .list(list), line: start)
    }
    if at("<") {
      while place < bytes.count, !at(">") { place += 1 }
      place = min(bytes.count, place + 1)
      return PropertyList(content: .other, line: start)
    }
    return text().map { PropertyList(content: .text($0), line: start) }
  }

  private mutating func text() -> Name? {
    guard place < bytes.count else { return nil }
    if at("\"") || at("'") {
      let quote = bytes[place]
      place += 1
      var text: [UInt8] = []
      while place < bytes.count, bytes[place] != quote {
        if bytes[place] == "\\", place + 1 < bytes.count { place += 1 }
        if bytes[place] == "\n" { line += 1 }
        text.append(bytes[place])
        place += 1
      }
      place += 1
      return Name(text)
    }
    let start = place
    while place < bytes.count, !bytes[place].isBlank, !Self.ends.contains(bytes[place]) { place += 1 }
    return place > start ? Name(bytes[start..<place]) : nil
  }
  private static let ends = Set(";,=(){}<>\"'".utf8)
}
