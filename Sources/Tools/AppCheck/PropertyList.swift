import Foundation

/// A property list of Apple's: as XML, binary, or in the old form that Xcode's projects have.
struct PropertyList: Sendable {
  var text: Name?
  var list: [PropertyList] = []
  var members: [Name: PropertyList]?
  /// Counted from 1; nil in a binary list.
  var line: Int?

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
    } else if data.has("<plist") {
      let root = try Element(data, budget)
      list = root.flatMap { $0.isWhole ? read($0.name == "plist" ? $0.children.first ?? $0 : $0) : nil }
    } else {
      var reader = OldList(code: try Code(Array(data), file: "", .list, budget), budget: budget)
      list = try reader.value(0)
    }
    return list?.members == nil ? nil : list
  }

  /// What an element says; nothing if it is a number, a date, yes or no.
  private static func read(_ element: Element) -> PropertyList {
    switch element.name {
    case "dict":
      let pairs = zip(element.children, element.children.dropFirst()).filter {
        $0.name == "key" && $1.name != "key"
      }
      let members = pairs.map { (Name($0.text).trimmed, read($1)) }
      return PropertyList(members: Dictionary(members) { $1 }, line: element.line)
    case "array": return PropertyList(list: element.children.map(read), line: element.line)
    case "string": return PropertyList(text: Name(element.text).trimmed, line: element.line)
    default: return PropertyList(line: element.line)
    }
  }
}

/// What is looked for in a binary list: Foundation reads these members and no others, so that nothing can grow.
private struct BinaryList: Decodable {
  struct Extension: Decodable { let NSExtensionPointIdentifier: String? }

  let CFBundleIdentifier: String?
  let CFBundleExecutable: String?
  let UIBackgroundModes: [String]?
  let NSExtension: Extension?

  var list: PropertyList {
    func text(_ text: String?) -> PropertyList? { text.map { PropertyList(text: Name($0)) } }
    let point = text(NSExtension?.NSExtensionPointIdentifier)
    let members: [Name: PropertyList?] = [
      "CFBundleIdentifier": text(CFBundleIdentifier), "CFBundleExecutable": text(CFBundleExecutable),
      "UIBackgroundModes": UIBackgroundModes.map { PropertyList(list: $0.compactMap(text)) },
      "NSExtension": point.map { PropertyList(members: ["NSExtensionPointIdentifier": $0]) },
    ]
    return PropertyList(members: members.compactMapValues(\.self))
  }
}

/// The old form: `{ key = value; list = (a, "b", ); }`, as `project.pbxproj` has it.
private struct OldList {
  let code: Code
  let budget: Budget
  var place = 0

  /// nil if something does not fit.
  mutating func value(_ depth: Int) throws -> PropertyList? {
    try budget.step(20)
    guard depth <= Budget.depth else { throw Budget.tooDeep }
    let line = code.line(place)
    if skip("{") {
      var members: [Name: PropertyList] = [:]
      while !skip("}") {
        guard let key = try text(), skip("="), let value = try value(depth + 1) else { return nil }
        members[key] = value
        _ = skip(";")
      }
      return PropertyList(members: members, line: line)
    }
    if skip("(") {
      var list: [PropertyList] = []
      while !skip(")") {
        guard let value = try value(depth + 1) else { return nil }
        list.append(value)
        _ = skip(",")
      }
      return PropertyList(list: list, line: line)
    }
    return try text().map { PropertyList(text: $0, line: line) }
  }

  private mutating func skip(_ mark: UInt8) -> Bool {
    guard code[mark: place] == mark else { return false }
    place += 1
    return true
  }

  /// A text in quotes, or words and marks without blanks between them: `Brand/iOSClient.plist`.
  private mutating func text() throws -> Name? {
    guard code.kind(place) != .text else {
      defer { place += 1 }
      return try code.written(place)
    }
    let start = place
    while let kind = code.kind(place), kind != .text, !Self.ends.contains(code[mark: place] ?? 0),
      place == start || code.isAdjacent(place)
    { place += 1 }
    return place > start ? code.joined(start..<place) : nil
  }
  private static let ends = Set(";,=(){}<>".utf8)
}
