import Foundation
import SwiftOperators
import SwiftParser
import SwiftSyntax

/// A change that is built into the program, and active where the variable MUTANT has its number.
struct Mutant: Codable {
  var number = 0
  let module, file: String
  let line: Int
  let kind, original, changed: String
  /// Its lines in the changed file, by which the compiler's errors find it.
  var lines = [0, 0]

  /// What tells it from others as long as the file stays the same, whatever is chosen besides.
  var name: String { "\(file):\(line) \(kind): \(original) -> \(changed)" }
}

/// A module's file and the changes chosen in it.
struct File {
  let path: String
  let text: String
  var chosen: [(mutant: Mutant, candidate: Candidate)] = []

  /// Whether two changes would overlap.
  func collides(_ candidate: Candidate) -> Bool {
    chosen.contains { $0.candidate.range.overlaps(candidate.range) }
  }

  /// The text with all changes. Sets their lines.
  mutating func changed() -> String {
    var (result, end) = ([UInt8]("import CMutant;".utf8), 0)
    if text.hasPrefix("#") { result.append(10) }
    let bytes = [UInt8](text.utf8)
    chosen.sort { $0.candidate.range.lowerBound < $1.candidate.range.lowerBound }
    for index in chosen.indices {
      let (candidate, number) = (chosen[index].candidate, chosen[index].mutant.number)
      result += bytes[end..<candidate.range.lowerBound]
      let first = result.count { $0 == 10 } + 1
      result += candidate.replacement(number).utf8
      chosen[index].mutant.lines = [first, result.count { $0 == 10 } + 1]
      end = candidate.range.upperBound
    }
    result += bytes[end...]
    return String(decoding: result, as: UTF8.self)
  }
}

/// Random numbers that a seed determines (SplitMix64).
struct Chance: RandomNumberGenerator {
  var state: UInt64

  init(_ seed: UInt64, _ name: String) {
    state = name.utf8.reduce(seed &+ 0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
  }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z >> 31)
  }
}

/// mutants ROOT OUTPUT COUNT SEED DROPPED: chooses COUNT mutants evenly over the modules of ROOT, writes the changed files
/// to OUTPUT and the list to OUTPUT/mutants.json. DROPPED is a file with the names of mutants that are not built in.
@main
struct Main {
  static func main() throws {
    let arguments = CommandLine.arguments
    let (root, output) = (URL(filePath: arguments[1]), URL(filePath: arguments[2]))
    let (count, seed) = (Int(arguments[3])!, UInt64(arguments[4])!)
    let dropped = try JSONDecoder().decode(
      Set<String>.self, from: Data(contentsOf: URL(filePath: arguments[5])))

    var files = try modules(of: root).mapValues {
      try $0.map { File(path: $0, text: try read($0, in: root)) }
    }
    let found = files.mapValues { $0.map { candidates(of: $0.text) } }
    try choose(written: root.appending(path: "Tests/Proof/Mutants/written.txt"), in: &files)
    let lines = files.mapValues { $0.reduce(0) { $0 + $1.text.count(where: \.isNewline) } }
    let all = lines.values.reduce(0, +)
    for name in files.keys.sorted() {
      choose(max(3, count * lines[name]! / all), of: found[name]!, in: &files[name]!, name, seed)
    }

    var number = 0
    var mutants: [Mutant] = []
    for name in files.keys.sorted() {
      for index in files[name]!.indices where !files[name]![index].chosen.isEmpty {
        var file = files[name]![index]
        for place in file.chosen.indices {
          number += 1
          file.chosen[place].mutant.number = number
        }
        file.chosen.removeAll { dropped.contains($0.mutant.name) }
        let target = output.appending(path: file.path)
        try FileManager.default.createDirectory(
          at: target.deletingLastPathComponent(), withIntermediateDirectories: true)
        try file.changed().write(to: target, atomically: false, encoding: .utf8)
        mutants += file.chosen.map(\.mutant)
      }
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    try encoder.encode(mutants.sorted { $0.number < $1.number })
      .write(to: output.appending(path: "mutants.json"))
  }

  /// Modules below the commands, each with its files.
  static func modules(of root: URL) throws -> [String: [String]] {
    let others = ["push-bouncer", "Demo", "ProviderSimulator"]
    let names = try FileManager.default.subpathsOfDirectory(atPath: root.appending(path: "Sources").path)
    let files = names.filter { $0.hasSuffix(".swift") }.sorted().map { "Sources/\($0)" }
    return Dictionary(grouping: files, by: module(of:)).filter { !others.contains($0.key) }
  }

  /// The module that a file is of: `Sources/LAYER/MODULE/...`
  static func module(of file: String) -> String { String(file.split(separator: "/")[2]) }

  static func read(_ path: String, in root: URL) throws -> String {
    try String(contentsOf: root.appending(path: path), encoding: .utf8)
  }

  static func parse(_ text: String) -> Syntax {
    OperatorTable.standardOperators.foldAll(Parser.parse(source: text)) { _ in }
  }

  static func candidates(of text: String) -> [Candidate] {
    let tree = parse(text)
    let finder = Finder(SourceLocationConverter(fileName: "", tree: tree))
    finder.walk(tree)
    return finder.candidates
  }

  static func mutant(_ candidate: Candidate, in file: File) -> Mutant {
    Mutant(
      module: module(of: file.path), file: file.path, line: candidate.line,
      kind: candidate.kind, original: candidate.original, changed: candidate.changed)
  }

  /// Chooses so many, of all kinds in turn, and no more than three of a file but where a module has few files.
  static func choose(
    _ count: Int, of found: [[Candidate]], in files: inout [File], _ module: String, _ seed: UInt64
  ) {
    var chance = Chance(seed, module)
    let all = found.enumerated().flatMap { file, candidates in candidates.map { (file: file, candidate: $0) }
    }
    var kinds = Dictionary(grouping: all.shuffled(using: &chance), by: \.candidate.kind)
    let limit = max(3, (count + files.count - 1) / files.count)
    var left = count
    while left > 0, !kinds.isEmpty {
      for kind in kinds.keys.sorted() where left > 0 {
        guard let next = kinds[kind]?.popLast() else {
          kinds[kind] = nil
          continue
        }
        guard files[next.file].chosen.count < limit, !files[next.file].collides(next.candidate) else {
          continue
        }
        files[next.file].chosen.append((mutant(next.candidate, in: files[next.file]), next.candidate))
        left -= 1
      }
    }
  }

  /// Chooses the mutants of a file: a path, a line `- text` that the file has once, and a line `+ text` that takes its
  /// place. The smallest expression around it stands twice.
  static func choose(written list: URL, in files: inout [String: [File]]) throws {
    var (path, old) = ("", "")
    for line in try String(contentsOf: list, encoding: .utf8).split(separator: "\n") {
      if line.hasPrefix("Sources/") { path = String(line) }
      if line.hasPrefix("- ") { old = String(line.dropFirst(2)) }
      guard line.hasPrefix("+ ") else { continue }
      let new = String(line.dropFirst(2))
      let name = module(of: path)
      guard let index = files[name]?.firstIndex(where: { $0.path == path }),
        case let file = files[name]![index], case let places = file.text.ranges(of: old), places.count == 1
      else { fatalError("\(list.path): \(path) must have this once: \(old)") }
      let start = file.text[..<places[0].lowerBound].utf8.count
      let finder = SmallestExpression(around: start..<start + old.utf8.count)
      let tree = parse(file.text)
      finder.walk(tree)
      guard let around = finder.found else { fatalError("\(path): \(old) is in no expression") }
      let (original, position) = (around.trimmedDescription, around.positionAfterSkippingLeadingTrivia)
      let changed = original.replacing(old, with: new)
      let candidate = Candidate(
        kind: "written", range: position.utf8Offset..<position.utf8Offset + original.utf8.count,
        line: SourceLocationConverter(fileName: "", tree: tree).location(for: position).line,
        original: old, changed: new, replacement: { "(mutant(\($0)) ? \(changed) : \(original))" })
      files[name]![index].chosen.append((mutant(candidate, in: file), candidate))
    }
  }
}

/// Finds the smallest expression around a range of UTF-8.
final class SmallestExpression: SyntaxAnyVisitor {
  private let range: Range<Int>
  private(set) var found: Syntax?

  init(around range: Range<Int>) {
    self.range = range
    super.init(viewMode: .sourceAccurate)
  }

  override func visitAny(_ node: Syntax) -> SyntaxVisitorContinueKind {
    let start = node.positionAfterSkippingLeadingTrivia.utf8Offset
    guard start <= range.lowerBound, node.endPositionBeforeTrailingTrivia.utf8Offset >= range.upperBound
    else {
      return .skipChildren
    }
    if node.is(ExprSyntax.self) { found = node }
    return .visitChildren
  }
}
