import Foundation
import HTTP
import Testing

/// `Documentation/JSON.md`: the shape of each command's document, from the lists of the page.
struct JSONPage {
  /// What a value may be, and what is in it.
  final class Shape {
    var types: Set<String> = []
    var members: [String: Shape] = [:]
    var element: Shape?
  }

  /// The shapes by heading: the words of a command, with an option if it changes the document.
  private(set) var shapes: [String: Shape] = [:]
  /// By each name of a heading with several, the first.
  private var first: [String: String] = [:]
  /// Commands that have no document.
  static let silent: Set = ["serve", "demo"]

  static let text = try? String(
    contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../../../Documentation/JSON.md"), encoding: .utf8)
  // Tests run one after the other, and none changes it.
  nonisolated(unsafe) static let page = JSONPage(text ?? "")

  init(_ text: String) {
    var names: [String] = []
    var shape = Shape()
    for line in text.split(separator: "\n") {
      if line.hasPrefix("## ") {
        let heading = String(line.dropFirst(3))
        names = heading.split(separator: ", ").map(String.init)
        shape = Shape()
        for name in names {
          shapes[name] = shape
          first[name] = names[0]
        }
      } else if let item = line.firstMatch(of: /^- (`[^*]*) \*(.*?)\*/), !names.isEmpty {
        for path in item.1.split(separator: ", ") {
          add(String(item.2), at: path.trimmingCharacters(in: ["`"]), to: shape)
        }
      }
    }
  }

  private func add(_ types: String, at path: String, to shape: Shape) {
    var shape = shape
    for part in path.split(separator: ".") {
      let name = part.replacing("[]", with: "")
      let member = shape.members[String(name)] ?? Shape()
      shape.members[String(name)] = member
      shape = member
      if part.hasSuffix("[]") {
        let element = shape.element ?? Shape()
        shape.element = element
        shape = element
      }
    }
    shape.types = Set(types.replacing(" or ", with: ", ").split(separator: ", ").map(String.init))
  }

  /// The heading that these arguments of the program belong to.
  func heading(_ arguments: [String]) -> String? {
    func fits(_ heading: String, _ arguments: [String]) -> Bool {
      let words = heading.split(separator: " ").map(String.init)
      let options = words.filter { $0.hasPrefix("--") }
      return arguments.starts(with: words.filter { !$0.hasPrefix("--") })
        && options.allSatisfy(arguments.contains)
    }
    // A command with subcommands stands for the one that is its default.
    let standard =
      arguments.prefix(1) + [arguments.first == "device" ? "phone" : "list"] + arguments.dropFirst()
    for arguments in [arguments, Array(standard)] {
      let found = shapes.keys.filter { fits($0, arguments) }
      if let heading = found.max(by: { $0.utf8.count < $1.utf8.count }) { return heading }
    }
    return nil
  }

  /// Checks a document. Returns what differs from the page.
  ///
  /// - Parameter met: is called with the path of each value that is not null.
  func differences(_ document: JSON, from heading: String, met: (String) -> Void = { _ in }) -> [String] {
    guard let shape = shapes[heading] else { return ["\(heading) is not on the page"] }
    var differences: [String] = []
    check(document, shape, (first[heading] ?? heading) + ": ", &differences, met)
    return differences
  }

  private func check(
    _ value: JSON, _ shape: Shape, _ path: String, _ differences: inout [String], _ met: (String) -> Void
  ) {
    if value != .null { met(path) }
    let dot = path.hasSuffix(": ") ? "" : "."
    switch value {
    case .object(let object) where !shape.members.isEmpty:
      for member in object.members {
        let name = member.name.text
        if let known = shape.members[name] {
          check(member.value, known, path + dot + name, &differences, met)
        } else {
          differences.append("\(path)\(dot)\(name) is not on the page")
        }
      }
      for (name, member) in shape.members
      where object[name] == nil && !member.types.contains("absent") {
        differences.append("\(path)\(dot)\(name) is missing")
      }
    case .array(let elements) where shape.element != nil:
      for element in elements { check(element, shape.element ?? Shape(), path + "[]", &differences, met) }
    default:
      if !shape.types.contains(where: { Self.is(value, $0) }) {
        differences.append("\(path) is \(value.text)")
      }
    }
  }

  private static func `is`(_ value: JSON, _ type: String) -> Bool {
    switch (type, value) {
    case ("null", .null), ("boolean", .bool), ("integer", .integer), ("string", .string): true
    case ("number", .integer), ("number", .number): true
    case ("time", .string(let text)):
      text.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/) != nil
    case (_, .string(let text)): type == "`\(text)`"
    default: false
    }
  }

  /// The path of every row, as ``differences(_:from:met:)`` names it.
  var paths: Set<String> {
    var paths: Set<String> = []
    func add(_ shape: Shape, _ path: String) {
      if !shape.types.isEmpty { paths.insert(path) }
      let dot = path.hasSuffix(": ") ? "" : "."
      for (name, member) in shape.members { add(member, path + dot + name) }
      if let element = shape.element { add(element, path + "[]") }
    }
    for (heading, shape) in shapes where first[heading] == heading { add(shape, heading + ": ") }
    return paths
  }
}
