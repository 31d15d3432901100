import Basics
import Foundation
import HTTP
import Platform
import Yams

/// The raw values after merging all sources, each with its source.
///
/// The sources are merged here and not with swift-configuration, which reports no unknown keys and cannot
/// tell a value of the wrong type from a missing one. Both must prevent the start.
struct ConfigurationSource {
  private(set) var values: [String: WrittenValue] = [:]
  private(set) var warnings: [String] = []
  /// The file that was read; nil if there is none.
  private(set) var file: String?
  private let settings = Dictionary(
    Configuration.settings.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })

  static let file = "push-bouncer.yaml"

  /// The file that is read if none is named: in the working folder, or else in the system folder; nil if
  /// neither exists.
  static func usualFile(workingDirectory: String, systemFolder: String) -> String? {
    [workingDirectory, systemFolder].map {
      URL(fileURLWithPath: file, relativeTo: URL(fileURLWithPath: $0, isDirectory: true)).path
    }.first(where: FileManager.default.fileExists(atPath:))
  }

  /// - Parameter isNeeded: whether it is an error that this user may not read the file that is read if none
  ///   is named; otherwise that file is left out.
  init(
    file: String?, isNeeded: Bool, environment: [String: String], overrides: [String: String],
    workingDirectory: String, systemFolder: String
  ) throws(Fault) {
    if let file {
      self.file = file
    } else if let usual = Self.usualFile(workingDirectory: workingDirectory, systemFolder: systemFolder) {
      try FileOwner.checkTrust(in: usual)
      let obstacle = FileObstacle.reading(usual)
      if let obstacle, isNeeded { throw Fault(obstacle, ofUsualFile: usual) }
      self.file = obstacle == nil ? usual : nil
    }
    if let file = self.file { try read(file) }
    try read(environment)
    for (key, text) in overrides {
      guard settings[key] != nil else { throw Self.unknown(key, source: "the command line") }
      values[key] = WrittenValue(text: text, source: "the command line")
    }
  }

  /// A variable with nothing in it counts as unset.
  private mutating func read(_ environment: [String: String]) throws(Fault) {
    var links: [String] = []
    for (variable, text) in environment.sorted(by: { $0.key < $1.key })
    where variable.hasPrefix(SettingDeclaration.prefix)
      && !text.trimmingCharacters(in: .whitespacesAndNewlines).isEmpty
    {
      guard let setting = settings.values.first(where: { $0.variable == variable }) else {
        if ServiceLink.isName(variable) || ServiceLink.isValue(text) {
          links.append(variable)
        } else {
          warnings.append("the variable \(variable) is no setting; it has no effect")
        }
        continue
      }
      guard !ServiceLink.isValue(text) else {
        throw Fault(
          source: variable, key: setting.key, "has the address of one of Kubernetes' Services",
          advice: ServiceLink.advice)
      }
      values[setting.key] = WrittenValue(text: text, source: variable)
    }
    if !links.isEmpty {
      warnings.append(
        """
        the variables \(links.joined(separator: ", ")) are addresses of Kubernetes' Services and no settings; they have no \
        effect. To be rid of them, \(ServiceLink.advice)
        """)
    }
  }

  private mutating func read(_ file: String) throws(Fault) {
    let node: Node?
    do {
      let text = try Self.text(of: file)
      do {
        node = try Yams.compose(yaml: text)
      } catch let error as YamlError {
        throw Fault(error, of: text, in: file)
      }
    } catch {
      throw Fault(error)
    }
    guard let node else { return }
    let isMapping =
      switch node {
      case .mapping: true
      case .scalar(let scalar): scalar.string.isEmpty
      default: false
      }
    guard isMapping else {
      throw Fault(
        source: file, "must have lines of the form key: value", advice: "put a blank after each colon")
    }
    try read(node, path: "", file: file)
  }

  private static func text(of file: String) throws -> String {
    let bytes = try PrivateFile.contents(of: file, atMost: 2 << 20)
    // The parsed names are compared by `Character`, which takes very long on endless combining marks.
    guard let text = String(validating: bytes, as: UTF8.self), text.isStorable else {
      throw Fault(
        source: file,
        bytes.contains(0)
          ? "is a binary file" : "is no text: it has bytes that are no UTF-8, or combining marks without end",
        advice: "name the configuration, save it as UTF-8, or let push-bouncer init write one")
    }
    return text
  }

  /// - Parameter key: the key as written.
  private static func unknown(_ key: String, source: String) -> Fault {
    Fault(
      source: source, key: key.isEmpty ? nil : key, "is no setting",
      advice: "the file that push-bouncer init writes has all there are")
  }

  private static func section(_ key: String, source: String) -> Fault {
    Fault(
      source: source, key: key.isEmpty ? nil : key, "is a section, not a value",
      advice: "put its keys below it, further in, without hyphens and with a blank after each colon")
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
      guard !isSection(path) || path.isEmpty else { throw Self.section(path, source: place) }
      let texts = sequence.compactMap(\.scalar?.string)
      guard texts.count == sequence.count else {
        throw Fault(source: place, key: path, "must be a list of texts")
      }
      if settings[path]?.isList == false {
        throw Fault(source: place, key: path, "must be one value, not a list")
      }
      try set(path, texts.joined(separator: ","), place: place)
    case .scalar(let scalar):
      let isNull = scalar.style == .plain && ["", "~", "null", "Null", "NULL"].contains(scalar.string)
      if isNull && settings[path] == nil && isSection(path) { return }
      try set(path, isNull ? nil : scalar.string, place: place)
    case .alias:
      throw Fault(source: place, key: path, "is an alias, which is not understood here")
    }
  }

  /// Whether the path names a section. A section with only commented-out lines has no value.
  private func isSection(_ path: String) -> Bool {
    path.isEmpty || settings.keys.contains { $0.hasPrefix("\(path).") }
  }

  private mutating func set(_ key: String, _ text: String?, place: String) throws(Fault) {
    guard settings[key] != nil else {
      guard isSection(key) else { throw Self.unknown(key, source: place) }
      throw Self.section(key, source: place)
    }
    guard let text else { return }
    guard values[key] == nil else {
      throw Fault(source: place, key: key, "is there twice", advice: "remove one of them")
    }
    values[key] = WrittenValue(text: text, source: place)
  }
}

/// The variables that Kubernetes makes of each Service in a pod's namespace, named after it. Those of a Service
/// `push-bouncer` begin as settings do, and those of `push-bouncer-admin` include `PUSH_BOUNCER_ADMIN_PORT`.
private enum ServiceLink {
  static let advice = "set enableServiceLinks: false in the pod's spec, or give the Service another name"

  static func isName(_ variable: String) -> Bool {
    variable.contains(/_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/)
  }

  static func isValue(_ text: String) -> Bool {
    ["tcp://", "udp://", "sctp://"].contains(where: text.trimmingCharacters(in: .whitespaces).hasPrefix)
  }
}

extension Fault {
  /// A fault for the file that is read if none is named, most often by a user who has forgotten `sudo`.
  fileprivate init(_ obstacle: FileObstacle, ofUsualFile file: String) {
    self.init(
      source: file, obstacle.problem,
      advice: "run this with sudo, or make a configuration of your own in an empty folder: push-bouncer init")
  }

  /// A fault for a file that is not valid YAML, in the parser's words. The line itself is left out, since it
  /// may hold a secret.
  fileprivate init(_ error: YamlError, of text: String, in file: String) {
    if case .duplicatedKeysInMapping(let duplicates, let context) = error, let key = duplicates.first {
      let again = Self.line(of: key, again: context.mark, in: text)
      self.init(
        source: "\(file), line \(again ?? context.mark.line)", key: key,
        again == nil ? "is there twice" : "is there twice, first in line \(context.mark.line)",
        advice: "remove one of them")
      return
    }
    let (line, problem): (Int?, String) =
      switch error {
      case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
        .composer(_, let problem, let mark, _):
        (mark.line, problem)
      default: (nil, "it cannot be parsed")
      }
    self.init(
      source: line.map { "\(file), line \($0)" } ?? file, "is no YAML: \(problem)",
      advice: "look at quotes, brackets, colons and blanks, there and in the line before")
  }

  /// The line in which a key of a mapping is written for the second time; nil if it is not at a line's beginning.
  private static func line(of key: String, again first: Mark, in text: String) -> Int? {
    let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    for (index, line) in lines.enumerated().dropFirst(first.line) {
      let content = line.drop { $0 == " " }
      guard !content.isEmpty, content.first != "#" else { continue }
      let indentation = line.count - content.count
      guard indentation >= first.column - 1 else { return nil }
      let written = ["", "\"", "'"].map { "\($0)\(key)\($0)" }
      if indentation == first.column - 1, written.contains(where: content.hasPrefix) { return index + 1 }
    }
    return nil
  }
}
