internal import Yams

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
