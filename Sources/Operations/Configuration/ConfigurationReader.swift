internal import Foundation
internal import HTTP
internal import Yams

/// Reads raw values as what they should be; an empty text counts as no value.
struct ConfigurationReader {
  let source: ConfigurationSource

  private func raw(_ key: String) -> ConfigurationSource.Raw? {
    let raw =
      source.values[key]
      ?? Setting.named(key).map { .init(text: $0.standard, source: "the defaults") }
    return raw.flatMap { $0.text.isEmpty ? nil : $0 }
  }

  private func read<Value>(_ key: String, _ parse: (String) -> Value?) throws(Fault) -> Value? {
    guard let raw = raw(key) else { return nil }
    guard let value = parse(raw.text.trimmingCharacters(in: .whitespaces)) else {
      // A malformed value may have its password anywhere.
      let isOpen = Setting.named(key)?.secrecy == Setting.Secrecy.none
      throw fault(key, isOpen ? "\(wants(key)), not \"\(raw.text)\"" : wants(key))
    }
    return value
  }

  private func required<Value>(_ key: String, _ parse: (String) -> Value?) throws(Fault) -> Value {
    guard let value = try read(key, parse) else { throw fault(key, wants(key)) }
    return value
  }

  private func wants(_ key: String) -> String { "wants \(Setting.named(key)?.shape.wants ?? "a text")" }

  /// What is wrong with a value, and where it stands.
  func fault(_ key: String, _ problem: String, advice: String? = nil) -> Fault {
    Fault(source: source.values[key]?.source, key: key, problem, advice: advice)
  }

  /// Whether somebody has given it a value.
  func isSet(_ key: String) -> Bool { source.values[key].map { !$0.text.isEmpty } ?? false }

  func optionalText(_ key: String) -> String? { raw(key)?.text }

  func text(_ key: String) throws(Fault) -> String { try required(key) { $0 } }

  func port(_ key: String) throws(Fault) -> Int {
    try required(key) { Int($0).flatMap { (0...65535).contains($0) ? $0 : nil } }
  }

  func count(_ key: String, atLeast least: Int = 0) throws(Fault) -> Int {
    try required(key) { Int($0).flatMap { $0 >= least ? $0 : nil } }
  }

  /// At least one, where a value is given.
  func optionalCount(_ key: String) throws(Fault) -> Int? {
    raw(key) == nil ? nil : try count(key, atLeast: 1)
  }

  func flag(_ key: String) throws(Fault) -> Bool {
    try required(key) { text in
      switch text.lowercased() {
      case "true", "yes", "on": true
      case "false", "no", "off": false
      default: nil
      }
    }
  }

  func list(_ key: String) -> [String] {
    (raw(key)?.text ?? "").split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }.filter {
      !$0.isEmpty
    }
  }

  func networks(_ key: String) throws(Fault) -> [ClientAddress.Network] {
    try read(key) { text in
      let networks = text.split(separator: ",", omittingEmptySubsequences: false)
        .map { ClientAddress.Network($0.trimmingCharacters(in: .whitespaces)) }
      return networks.contains(nil) ? nil : networks.compactMap(\.self)
    } ?? []
  }

  func duration(_ key: String) throws(Fault) -> Duration {
    try required(key, Configuration.duration)
  }

  func size(_ key: String) throws(Fault) -> Int {
    try required(key, Configuration.size)
  }

  /// nil is no limit, which nobody gets by leaving the value empty.
  func rate(_ key: String) throws(Fault) -> RateLimit? {
    try required(key, Configuration.rate)
  }

  func url(_ key: String) throws(Fault) -> URL? {
    try read(key, Self.url)
  }

  private static func url(_ text: String) -> URL? {
    guard let url = URL(string: text), ["http", "https"].contains(url.scheme), url.host()?.isEmpty == false
    else { return nil }
    return url
  }

  /// The contact that push services are told.
  func contact(_ key: String) throws(Fault) -> String? {
    try read(key, Configuration.WebPush.contact)
  }

  /// Hosts in their one spelling.
  func hosts(_ key: String) throws(Fault) -> Set<String> {
    try read(key) { text in
      let hosts = text.split(separator: ",", omittingEmptySubsequences: false)
        .map { Configuration.WebPush.host($0.trimmingCharacters(in: .whitespaces)) }
      return hosts.contains(nil) ? nil : Set(hosts.compactMap(\.self))
    } ?? []
  }

  func bouncer(_ key: String) throws(Fault) -> Configuration.Server.Bouncer {
    try required(key) { text in
      switch text {
      case "local": .local
      case "off": .off
      default: Self.url(text).map { .remote($0) }
      }
    }
  }

  func choice<Choice: RawRepresentable & CaseIterable>(_ key: String, _: Choice.Type)
    throws(Fault) -> Choice
  where Choice.RawValue == String {
    try required(key, Choice.init)
  }
}

extension Configuration {
  /// `500ms`, `10s`, `5m`, `24h`, `30d`; a bare number is seconds.
  package static func duration(_ text: String) -> Duration? {
    let units: [(String, Double)] = [("ms", 0.001), ("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("", 1)]
    for (suffix, seconds) in units where text.hasSuffix(suffix) {
      let number = text.dropLast(suffix.count).trimmingCharacters(in: .whitespaces)
      guard let value = Double(number), value.isFinite, value >= 0, value * seconds < 1e10 else { return nil }
      return .milliseconds(Int64((value * seconds * 1000).rounded()))
    }
    return nil
  }

  /// `1048576`, `512 KiB`, `16 MiB`, `1 GiB`.
  static func size(_ text: String) -> Int? {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)]
    for (suffix, bytes) in units where text.hasSuffix(suffix) {
      let number = text.dropLast(suffix.count).trimmingCharacters(in: .whitespaces)
      guard let value = Int(number), value > 0, value <= Int.max / bytes else { return nil }
      return value * bytes
    }
    return nil
  }

  /// `1000/60s`; `0` is no limit; nil is neither.
  static func rate(_ text: String) -> RateLimit?? {
    if text == "0" { return .some(nil) }
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, let calls = Int(parts[0]), calls > 0, let window = duration(String(parts[1])),
      window > .zero
    else { return nil }
    return RateLimit(
      calls: calls, seconds: Double(window.components.seconds) + Double(window.components.attoseconds) / 1e18)
  }
}

/// Where a file stops being YAML, and by which mistake: the parser's own words are not for people, and the line itself
/// is never shown, since it may hold a secret.
struct BrokenYAML {
  private let line: Int?
  private let mistake: (problem: String, advice: String)
  /// What is wrong, or after which setting, as far as that can be told.
  private let subject: String

  init(_ error: any Error, in text: String) {
    let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    switch error as? YamlError {
    case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
      .composer(_, let problem, let mark, _):
      let last = min(mark.line, lines.count)
      line = last
      mistake = Self.mistake(problem, lines.prefix(last))
      subject = Self.key(in: lines.prefix(last)).map { "after \($0):" } ?? "here"
    case .duplicatedKeysInMapping(_, let context):
      let last = min(context.mark.line, lines.count)
      line = last
      mistake = ("is there twice", "remove one of them")
      subject = Self.key(in: lines.prefix(last)) ?? "a key"
    default:
      (line, subject) = (nil, "what is in it")
      mistake = ("is no YAML", "let push-bouncer init write a file, and compare")
    }
  }

  func fault(in file: String) -> Fault {
    Fault(
      source: line.map { "\(file), line \($0)" } ?? file, key: subject, mistake.problem,
      advice: mistake.advice)
  }

  private static func mistake(_ problem: String, _ lines: ArraySlice<Substring>) -> (String, String) {
    if lines.last?.contains("\t") == true { return ("a tab is no YAML", "indent with blanks") }
    for (words, mistake) in mistakes where problem.contains(words) { return mistake }
    return ("the line is no YAML", "look at its quotes, brackets and blanks, and at the line before")
  }

  private static let mistakes = [
    ("end of stream", ("a quote or a bracket is not closed", "close it")),
    ("expected ','", ("a bracket is not closed", "close it")),
    ("another document", ("a second document begins", "remove the line ---")),
    ("undefined alias", ("an alias stands for nothing", "put a value that begins with * into quotes")),
    (
      "mapping values",
      (
        "a colon stands in a value, or the line is indented wrongly",
        "put the value into quotes, or indent the line like its neighbours"
      )
    ),
    (
      "block mapping",
      ("the line does not fit those before it", "indent it like its neighbours, and end each quote")
    ),
  ]

  /// The setting that the last line with one is about. The very last may be what does not fit.
  private static func key(in lines: ArraySlice<Substring>) -> String? {
    (0..<4).lazy.compactMap { path(in: lines.dropLast($0)) }.first
  }

  /// Sections are told by how far lines are indented.
  private static func path(in lines: ArraySlice<Substring>) -> String? {
    var path: [Substring] = []
    var indentation = Int.max
    for line in lines.reversed() {
      let blanks = line.prefix { $0 == " " }.count
      let name = line.dropFirst(blanks).prefix { $0.isASCII && ($0.isLetter || $0 == "_" || $0 == ".") }
      guard blanks < indentation, !name.isEmpty, line.dropFirst(blanks + name.count).hasPrefix(":") else {
        continue
      }
      path.insert(name, at: 0)
      indentation = blanks
      if blanks == 0 { break }
    }
    let key = path.joined(separator: ".")
    // Nothing else is shown: it could be a secret that stands where a key should.
    return Setting.all.contains { $0.key == key || $0.key.hasPrefix("\(key).") } ? key : nil
  }
}
