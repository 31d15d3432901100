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
  /// Whether the file ends before what is open does.
  private var isBroken = false

  init(_ markup: Markup, _ budget: Budget) { (self.markup, self.budget) = (markup, budget) }

  mutating func root() throws -> PropertyList? {
    while let event = try markup.next() {
      if case .start("plist", _, _) = event {
        let value = try value(0)?.value
        while try markup.next() != nil {}
        return isBroken || !markup.isWhole ? nil : value
      }
    }
    return nil
  }

  /// The next value inside an element; nil at the element's end.
  private mutating func value(_ depth: Int) throws -> (key: Name?, value: PropertyList)? {
    guard depth <= Budget.depth else { throw Budget.tooDeep }
    while let event = try markup.next() {
      switch event {
      case .end: return nil
      case .text: continue
      case .start(let element, _, let isEmpty):
        try budget.step(20)
        let line = markup.line
        switch element {
        case "dict":
          var members: [Name: PropertyList] = [:]
          var key: Name?
          while !isEmpty, let member = try value(depth + 1) {
            if let name = member.key {
              key = name
            } else if let name = key {
              members[name] = member.value
              key = nil
            }
          }
          return (nil, PropertyList(content: .members(members), line: line))
        case "array":
          var list: [PropertyList] = []
          while !isEmpty, let member = try value(depth + 1) { list.append(member.value) }
          return (nil, PropertyList(content: .list(list), line: line))
        default:
          let (text, start) = isEmpty ? ("", line) : try text(line)
          let isText = element == "string" || element == "key"
          return (
            element == "key" ? text : nil, PropertyList(content: isText ? .text(text) : .other, line: start)
          )
        }
      }
    }
    isBroken = true
    return nil
  }

  /// The text up to the end of the element that is open, and its line.
  private mutating func text(_ line: Int) throws -> (Name, Int) {
    var (text, line, depth): ([UInt8], Int, Int) = ([], line, 0)
    while let event = try markup.next() {
      switch event {
      case .text(let part):
        if text.isEmpty { line = markup.line }
        text += part.bytes
      case .start(_, _, let isEmpty): if !isEmpty { depth += 1 }
      case .end:
        if depth == 0 { return (Name(text).trimmed, line) }
        depth -= 1
      }
    }
    isBroken = true
    return (Name(text).trimmed, line)
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

  private func at(_ mark: Unicode.Scalar) -> Bool {
    place < bytes.count && bytes[place] == UInt8(ascii: mark)
  }

  /// Passes over blanks and comments.
  private mutating func skip() {
    while place < bytes.count {
      let byte = bytes[place]
      let next = place + 1 < bytes.count ? bytes[place + 1] : 0
      if byte.isBlank {
        if byte == UInt8(ascii: "\n") { line += 1 }
        place += 1
      } else if byte == UInt8(ascii: "/"), next == UInt8(ascii: "/") {
        while place < bytes.count, bytes[place] != UInt8(ascii: "\n") { place += 1 }
      } else if byte == UInt8(ascii: "/"), next == UInt8(ascii: "*") {
        place += 2
        while place < bytes.count {
          if bytes[place] == UInt8(ascii: "*"), place + 1 < bytes.count, bytes[place + 1] == UInt8(ascii: "/")
          {
            break
          }
          if bytes[place] == UInt8(ascii: "\n") { line += 1 }
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
        if bytes[place] == UInt8(ascii: "\\"), place + 1 < bytes.count { place += 1 }
        if bytes[place] == UInt8(ascii: "\n") { line += 1 }
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
