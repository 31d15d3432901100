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
      list = try BinaryList(data, budget)?.root
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
        return isBroken ? nil : value
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
        try budget.reference()
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

/// Apple's binary form: a table of places, and members that are named by their number, perhaps again and again.
private struct BinaryList {
  private let data: Data
  private let budget: Budget
  private let (placeSize, referenceSize, count, table, top): (Int, Int, Int, Int, Int)

  init?(_ data: Data, _ budget: Budget) throws {
    self.data = data
    self.budget = budget
    guard data.count >= 40 else { return nil }
    func number(_ offset: Int, _ size: Int) -> Int? { Self.number(data, offset, size) }
    let end = data.count - 32
    guard let placeSize = number(end + 6, 1), let referenceSize = number(end + 7, 1),
      let count = number(end + 8, 8), let top = number(end + 16, 8), let table = number(end + 24, 8),
      (1...8).contains(placeSize), (1...8).contains(referenceSize), count <= data.count, top < count,
      table < data.count
    else { return nil }
    self.placeSize = placeSize
    self.referenceSize = referenceSize
    self.count = count
    self.table = table
    self.top = top
  }

  var root: PropertyList? { get throws { try member(top, 0) } }

  private static func number(_ data: Data, _ offset: Int, _ size: Int) -> Int? {
    guard offset >= 0, offset <= data.count - size else { return nil }
    var number: UInt64 = 0
    for index in 0..<size { number = number << 8 | UInt64(data[data.startIndex + offset + index]) }
    return number > 1 << 40 ? nil : Int(number)
  }

  private func member(_ index: Int, _ depth: Int) throws -> PropertyList? {
    try budget.reference()
    guard depth <= Budget.depth else { throw Budget.tooDeep }
    guard index < count, let start = Self.number(data, table + index * placeSize, placeSize),
      let marker = Self.number(data, start, 1)
    else { return nil }
    var place = start + 1
    var length = marker & 0x0F
    if length == 0x0F, marker >= 0x40 {
      guard let size = Self.number(data, place, 1), size >> 4 == 1, size & 0x0F <= 3,
        let long = Self.number(data, place + 1, 1 << (size & 0x0F))
      else { return nil }
      place = start + 2 + (1 << (size & 0x0F))
      length = long
    }
    guard length <= data.count else { return nil }
    func reference(_ number: Int) -> Int? { Self.number(data, place + number * referenceSize, referenceSize) }
    switch marker >> 4 {
    case 0x5: return try text(place, length).map { PropertyList(content: .text($0), line: nil) }
    case 0x6:
      guard let name = try text(place, 2 * length) else { return nil }
      let units = stride(from: 0, to: name.bytes.count, by: 2).map {
        UInt16(name.bytes[$0]) << 8 | UInt16(name.bytes[$0 + 1])
      }
      return PropertyList(content: .text(Name(String(decoding: units, as: UTF16.self))), line: nil)
    case 0xA:
      var list: [PropertyList] = []
      for number in 0..<length {
        guard let index = reference(number), let value = try member(index, depth + 1) else { return nil }
        list.append(value)
      }
      return PropertyList(content: .list(list), line: nil)
    case 0xD:
      var members: [Name: PropertyList] = [:]
      for number in 0..<length {
        guard let key = reference(number), let name = try member(key, depth + 1)?.text,
          let index = reference(length + number), let value = try member(index, depth + 1)
        else { return nil }
        members[name] = value
      }
      return PropertyList(content: .members(members), line: nil)
    default: return PropertyList(content: .other, line: nil)
    }
  }

  /// A text that is longer than any value is not copied, as many members may be the same one.
  private func text(_ place: Int, _ length: Int) throws -> Name? {
    try budget.reference(min(length, 2 * Budget.value))
    guard place <= data.count - length else { return nil }
    let start = data.startIndex + place
    return Name(data[start..<start + min(length, 2 * Budget.value)])
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
    try budget.reference()
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
