internal import Foundation
internal import Wire
internal import Yams

/// The raw values that win, each with where it comes from.
///
/// The layers are merged here and not with swift-configuration, which finds no unknown keys and cannot tell a value of
/// the wrong type from a missing one. Both must stop the start.
struct ConfigurationSource {
  struct Raw {
    let text: String
    let source: String
  }

  private(set) var values: [String: Raw] = [:]
  private(set) var warnings: [String] = []
  /// The file that was read; nil if there is none.
  private(set) var file: String?

  private static let maximumBytes = 2 << 20

  static let file = "push-bouncer.yaml"

  /// The file that is read if none is named: the working folder's, else the system's; nil if there is none.
  static func usualFile(workingDirectory: String, systemFolder: String) -> String? {
    [workingDirectory, systemFolder].map {
      URL(fileURLWithPath: file, relativeTo: URL(fileURLWithPath: $0, isDirectory: true)).path
    }.first(where: FileManager.default.fileExists(atPath:))
  }

  init(
    file: String?, environment: [String: String], overrides: [String: String], workingDirectory: String,
    systemFolder: String
  ) throws(ConfigurationError) {
    if let file = file ?? Self.usualFile(workingDirectory: workingDirectory, systemFolder: systemFolder) {
      try read(file)
      self.file = file
    }
    read(environment)
    for (key, text) in overrides {
      guard Setting.named(key) != nil else {
        throw ConfigurationError(source: "the command line", key: key, "is no key of the configuration")
      }
      values[key] = Raw(text: text, source: "the command line")
    }
  }

  private mutating func read(_ environment: [String: String]) {
    for (variable, text) in environment.sorted(by: { $0.key < $1.key })
    where variable.hasPrefix(Setting.prefix) {
      if let setting = Setting.all.first(where: { $0.variable == variable }) {
        values[setting.key] = Raw(text: text, source: variable)
      } else {
        warnings.append("the variable \(variable) is no key of the configuration")
      }
    }
  }

  private mutating func read(_ file: String) throws(ConfigurationError) {
    guard let text = try? String(contentsOfFile: file, encoding: .utf8) else {
      throw ConfigurationError(source: file, "cannot be read")
    }
    guard text.utf8.count <= Self.maximumBytes else {
      throw ConfigurationError(source: file, "is larger than a configuration ever is")
    }
    // Names are compared by characters there.
    guard text.isStorable else {
      throw ConfigurationError(
        source: file, "has text that nobody can read: combining marks without end, or NUL")
    }
    let node: Node?
    do {
      node = try Yams.compose(yaml: text)
    } catch let error as YamlError {
      throw ConfigurationError(source: file, "is no YAML\(Self.place(of: error))")
    } catch {
      throw ConfigurationError(source: file, "is no YAML")
    }
    guard let node else { return }
    if case .sequence = node { throw Self.noMapping(file) }
    if case .scalar(let scalar) = node, !scalar.string.isEmpty { throw Self.noMapping(file) }
    try read(node, path: "", file: file)
  }

  private static func noMapping(_ file: String) -> ConfigurationError {
    ConfigurationError(source: file, "wants lines of the form key: value")
  }

  /// Where the error is, and what the parser says; never the line itself, which may hold a secret.
  private static func place(of error: YamlError) -> String {
    switch error {
    case .scanner(context: _, let problem, let mark, yaml: _),
      .parser(context: _, let problem, let mark, yaml: _),
      .composer(context: _, let problem, let mark, yaml: _):
      " in line \(mark.line): \(problem)"
    default: ""
    }
  }

  private mutating func read(_ node: Node, path: String, file: String) throws(ConfigurationError) {
    switch node {
    case .mapping(let mapping):
      for (name, value) in mapping {
        let name = name.scalar?.string ?? ""
        try read(value, path: path.isEmpty ? name : "\(path).\(name)", file: file)
      }
    case .sequence(let sequence):
      let texts = sequence.compactMap(\.scalar?.string)
      guard texts.count == sequence.count else {
        throw ConfigurationError(source: file, key: path, "wants a list of texts")
      }
      if Setting.named(path)?.isList == false {
        throw ConfigurationError(source: file, key: path, "wants one value, not a list")
      }
      try set(path, texts.joined(separator: ","), file: file)
    case .scalar(let scalar):
      let isNull = scalar.style == .plain && ["", "~", "null", "Null", "NULL"].contains(scalar.string)
      if isNull && Setting.named(path) == nil && Self.isSection(path) { return }
      try set(path, isNull ? nil : scalar.string, file: file)
    case .alias:
      throw ConfigurationError(source: file, key: path, "is an alias, which is not understood here")
    }
  }

  /// A section whose every line is commented out is an empty one.
  private static func isSection(_ path: String) -> Bool {
    path.isEmpty || Setting.all.contains { $0.key.hasPrefix("\(path).") }
  }

  private mutating func set(_ key: String, _ text: String?, file: String) throws(ConfigurationError) {
    guard Setting.named(key) != nil else {
      throw ConfigurationError(
        source: file, key: key.isEmpty ? nil : String(key.unicodeScalars.prefix(100)),
        Self.isSection(key) ? "is a section, not a value" : "is no key of the configuration")
    }
    guard let text else { return }
    guard values[key] == nil else { throw ConfigurationError(source: file, key: key, "is there twice") }
    values[key] = Raw(text: text, source: file)
  }
}
