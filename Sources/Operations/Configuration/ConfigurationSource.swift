internal import Foundation
internal import HTTP
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
  ) throws(Fault) {
    if let file {
      try read(file)
      self.file = file
    } else if let file = Self.usualFile(workingDirectory: workingDirectory, systemFolder: systemFolder) {
      try Self.checkTrust(in: file)
      try read(file)
      self.file = file
    }
    read(environment)
    for (key, text) in overrides {
      guard Setting.named(key) != nil else { throw Self.unknown(key, source: "the command line") }
      values[key] = Raw(text: text, source: "the command line")
    }
  }

  /// Root follows a file that another may write only if root has named it: who works in another's folder need not have
  /// seen that there is one.
  private static func checkTrust(in file: String) throws(Fault) {
    guard geteuid() == 0, let step = FileWay(to: file).steps.first(where: \.isOpenToOthers) else { return }
    let others = step.user == 0 ? "others" : FileObstacle.name(of: step.user)
    throw Fault(
      source: file, "is not followed by root: \(others) may change \(step.path == file ? "it" : step.path)",
      advice: "name it if it is the one to use: --config \(file)")
  }

  private mutating func read(_ environment: [String: String]) {
    for (variable, text) in environment.sorted(by: { $0.key < $1.key })
    where variable.hasPrefix(Setting.prefix) {
      if let setting = Setting.all.first(where: { $0.variable == variable }) {
        values[setting.key] = Raw(text: text, source: variable)
      } else {
        let nearest = Setting.nearest(to: Setting.key(ofVariable: variable)).flatMap(Setting.named)
        warnings.append(
          "the variable \(variable) is no setting"
            + (nearest.map { "; did you mean \($0.variable)?" } ?? "; it has no effect"))
      }
    }
  }

  private mutating func read(_ file: String) throws(Fault) {
    let text: String
    do {
      text = try FileOwner.acting(onWayTo: file) { try Self.text(of: file) }
    } catch {
      throw Fault(error)
    }
    let node: Node?
    do {
      node = try Yams.compose(yaml: text)
    } catch {
      throw BrokenYAML(error, in: text).fault(in: file)
    }
    guard let node else { return }
    if case .sequence = node { throw Self.noMapping(file) }
    if case .scalar(let scalar) = node, !scalar.string.isEmpty { throw Self.noMapping(file) }
    try read(node, path: "", file: file)
  }

  private static func text(of file: String) throws(Fault) -> String {
    if let obstacle = FileObstacle.reading(file) {
      throw Fault(source: file, obstacle.problem, advice: obstacle.advice)
    }
    guard let bytes = FileManager.default.contents(atPath: file) else {
      throw Fault(source: file, "cannot be read", advice: "look at the file")
    }
    guard bytes.count <= maximumBytes else {
      throw Fault(source: file, "is larger than a configuration ever is", advice: "name another file")
    }
    // Names are compared by characters there.
    guard let text = String(data: bytes, encoding: .utf8), text.isStorable else {
      throw Fault(
        source: file, "is no text: it has bytes that are no UTF-8, NUL, or combining marks without end",
        advice: "name the configuration, or let push-bouncer init write one")
    }
    return text
  }

  private static func noMapping(_ file: String) -> Fault {
    Fault(source: file, "wants lines of the form key: value", advice: "put a blank after each colon")
  }

  /// - Parameter key: as somebody has written it.
  private static func unknown(_ key: String, source: String) -> Fault {
    Fault(
      source: source, key: key.isEmpty ? nil : key, "is no setting",
      advice: Setting.nearest(to: key).map { "did you mean \($0)?" }
        ?? "the file that push-bouncer init writes has all there are")
  }

  private mutating func read(_ node: Node, path: String, file: String) throws(Fault) {
    let place = node.mark.map { "\(file), line \($0.line)" } ?? file
    switch node {
    case .mapping(let mapping):
      for (name, value) in mapping {
        let name = name.scalar?.string ?? ""
        try read(value, path: path.isEmpty ? name : "\(path).\(name)", file: file)
      }
    case .sequence(let sequence):
      let texts = sequence.compactMap(\.scalar?.string)
      guard texts.count == sequence.count else {
        throw Fault(source: place, key: path, "wants a list of texts")
      }
      if Setting.named(path)?.shape.isList == false {
        throw Fault(source: place, key: path, "wants one value, not a list")
      }
      try set(path, texts.joined(separator: ","), place: place)
    case .scalar(let scalar):
      let isNull = scalar.style == .plain && ["", "~", "null", "Null", "NULL"].contains(scalar.string)
      if isNull && Setting.named(path) == nil && Self.isSection(path) { return }
      try set(path, isNull ? nil : scalar.string, place: place)
    case .alias:
      throw Fault(source: place, key: path, "is an alias, which is not understood here")
    }
  }

  /// A section whose every line is commented out is an empty one.
  private static func isSection(_ path: String) -> Bool {
    path.isEmpty || Setting.all.contains { $0.key.hasPrefix("\(path).") }
  }

  private mutating func set(_ key: String, _ text: String?, place: String) throws(Fault) {
    guard Setting.named(key) != nil else {
      guard Self.isSection(key) else { throw Self.unknown(key, source: place) }
      throw Fault(
        source: place, key: key.isEmpty ? nil : key, "is a section, not a value",
        advice: "put its keys below it, further in, with a blank after each colon")
    }
    guard let text else { return }
    guard values[key] == nil else {
      throw Fault(source: place, key: key, "is there twice", advice: "remove one of them")
    }
    values[key] = Raw(text: text, source: place)
  }
}
