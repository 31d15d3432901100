import ArgumentParser
import HTTP

/// A command that prints a JSON document with `--json`.
protocol PrintsDocument: ParsableCommand {
  static var documents: [JSONDocument] { get }
}

/// What a command prints, as `Documentation/JSON.md` has it.
struct JSONDocument {
  /// The option with which the command prints this one.
  let option: String?
  /// A sentence, or empty.
  let note: String
  let fields: [JSONField]
}

extension [JSONDocument] {
  static func of<Result>(
    _ members: [JSONMember<Result>], with option: String? = nil, note: String = ""
  ) -> [JSONDocument] {
    [JSONDocument(option: option, note: note, fields: members.fields())]
  }
}

/// `documents`: prints what the reference of printed JSON is made from, for developers.
struct Documents: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints the lists of Documentation/JSON.md, or a schema of Documentation/OpenAPI.",
    shouldDisplay: false)

  @Argument(help: "A schema.") var schema: String?

  func run() throws {
    guard let schema else { return printLine(Self.page) }
    guard let text = Schemas.all.text(of: schema) else {
      throw ValidationError("there is no schema \(schema)")
    }
    printLine(text)
  }

  /// Commands of one group with the same document share a section.
  private static var page: String {
    var sections: [(names: [String], text: String)] = []
    func add(_ command: any ParsableCommand.Type, _ words: [String]) {
      for document in (command as? any PrintsDocument.Type)?.documents ?? [] {
        let name = (words + [document.option].compactMap(\.self)).joined(separator: " ")
        let text = document.text
        if let same = sections.firstIndex(where: { $0.text == text && $0.names[0].hasPrefix("\(words[0]) ") })
        {
          sections[same].names.append(name)
        } else {
          sections.append(([name], text))
        }
      }
      for part in command.configuration.subcommands { add(part, words + [part._commandName]) }
    }
    add(PushBouncer.self, [])
    return sections.map { "## \($0.names.joined(separator: ", "))\n\n\($0.text)" }.joined(separator: "\n")
  }
}

extension JSONDocument {
  fileprivate var text: String {
    (note.isEmpty ? "" : "\(note)\n\n")
      + fields.flatMap { $0.rows(below: "") }.joinedWhereSame().map(\.line).joined()
  }
}

/// An item of a list: members of one type and meaning.
private struct DocumentItem {
  var paths: [String]
  let type: String
  let meaning: String

  var line: String {
    "- \(paths.map { "`\($0)`" }.joined(separator: ", ")) *\(type)*\(meaning.isEmpty ? "" : ": \(meaning)")\n"
  }
}

extension [DocumentItem] {
  /// Members that need no sentence and follow each other share an item.
  fileprivate func joinedWhereSame() -> [DocumentItem] {
    reduce(into: []) { rows, row in
      if let last = rows.last, last.type == row.type, last.meaning.isEmpty, row.meaning.isEmpty {
        rows[rows.count - 1].paths += row.paths
      } else {
        rows.append(row)
      }
    }
  }
}

extension JSONField {
  fileprivate func rows(below path: String) -> [DocumentItem] {
    let path = path + name
    let below = shape.fields.flatMap { $0.rows(below: "\(path)\(shape.suffix).") }
    // An object or a list of objects that says nothing more than its members do has no item of its own.
    guard below.isEmpty || !meaning.isEmpty || shape.isNullable else { return below }
    return [
      DocumentItem(
        paths: [below.isEmpty ? path + shape.suffix : path],
        type: isAlwaysThere ? shape.words : shape.words(or: "absent"), meaning: meaning)
    ] + below
  }
}

extension JSONShape {
  fileprivate var isNullable: Bool { if case .orNull = self { true } else { false } }

  /// Of the object that this is, or is a list of.
  fileprivate var fields: [JSONField] {
    switch self {
    case .string, .integer, .number, .boolean, .time, .oneOf: []
    case .object(let fields): fields
    case .list(let shape), .orNull(let shape): shape.fields
    }
  }

  /// What follows the name of a list.
  fileprivate var suffix: String {
    switch self {
    case .string, .integer, .number, .boolean, .time, .oneOf, .object: ""
    case .list(let shape): "[]\(shape.suffix)"
    case .orNull(let shape): shape.suffix
    }
  }

  fileprivate var words: String {
    switch self {
    case .string: "string"
    case .integer: "integer"
    case .number: "number"
    case .boolean: "boolean"
    case .time: "time"
    case .oneOf(let texts):
      (texts.dropLast(2) + [texts.suffix(2).joined(separator: "` or `")]).map { "`\($0)`" }
        .joined(separator: ", ")
    case .object: "object"
    case .list(let shape): shape.fields.isEmpty ? shape.words : "list"
    case .orNull(let shape): shape.words(or: "null")
    }
  }

  fileprivate func words(or other: String) -> String { "\(words.replacing(" or ", with: ", ")) or \(other)" }
}
