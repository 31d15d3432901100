internal import Foundation

/// Reads the source of the apps by their tables.
extension AppFacts {
  /// - Parameter flavor: which of an Android app's flavours; nil: the one that is published.
  /// - Returns: nil if it is the source of no app that is known.
  init?(source files: AppFiles, flavor: Name?) throws {
    guard let table = try Self.table(of: files) else { return nil }
    var reader = SourceReader(files, flavor, AppFacts(table, files.budget))
    try reader.read()
    self = reader.facts
  }

  /// An app is known by what it contains: a brand renames folders, projects and packages first.
  private static func table(of files: AppFiles) throws -> AppTable? {
    func has(_ beginnings: Name...) -> Bool {
      files.names.contains { name in beginnings.contains(where: name.hasPrefix) }
    }
    if has("lib/model/push_device.dart", "lib/firebase_options.dart", "ios/Flutter/Zulip.xcconfig") {
      return .zulip
    }
    if !files.names(ending: "/NCAppBranding.m").isEmpty || has("NextcloudTalk.xcodeproj/", "NextcloudTalk/") {
      return .talkForIOS
    }
    if !SourceReader.brands(files).isEmpty || has("Nextcloud.xcodeproj/") { return .filesForIOS }
    if has("app/src/main/java/com/nextcloud/talk/") { return .talkForAndroid }
    if has("app/src/main/java/com/owncloud/android/") { return .filesForAndroid }
    for name in files.names(ending: ".xml") where name.hasPrefix("app/src/") && name.contains("/res/values") {
      guard let data = try files.data(name) else { continue }
      for (text, table) in [
        ("nc_push_server_url" as Name, AppTable.talkForAndroid), ("push_server_url", .filesForAndroid),
      ] where data.withUnsafeBytes({ $0.first(("\"" + text + "\"").bytes) != nil }) { return table }
    }
    return nil
  }
}

struct SourceReader {
  let files: AppFiles
  /// Which of an Android app's flavours; nil: the one that is published.
  let wanted: Name?
  var facts: AppFacts
  /// What is set for `#if`.
  private var conditions: Set<Name> = []
  private var codes: [Name: Code] = [:]

  init(_ files: AppFiles, _ wanted: Name?, _ facts: AppFacts) {
    (self.files, self.wanted, self.facts) = (files, wanted, facts)
  }

  mutating func read() throws {
    let project = facts.table.isForIOS ? try xcodeProject() : nil
    conditions = try project?.conditions ?? []
    if let folder = facts.table.build { try readAndroid(folder) }
    var values: Set<Aspect> = []
    for row in facts.rows {
      switch row.source {
      case .constant(let name, let place): try readConstant(row, name, place)
      case .option(let member, let constant): try readOption(row, member, of: constant)
      case .text(let beginning) where values.insert(row.aspect).inserted: try readTexts(row, beginning)
      default: break
      }
    }
    if let project { try read(project) }
    try readLeftovers()
  }

  /// The files in which Files for iOS keeps what a brand changes: what a brand sets in a file of its own comes after what
  /// stands in the vendor's.
  static func brands(_ files: AppFiles) -> [Name] {
    let names = files.names(ending: ".swift").filter {
      $0.last.hasPrefix("NCBrand.") || $0.last.hasPrefix("NCBrand-")
    }
    return names.filter { $0.last != "NCBrand.swift" } + names.filter { $0.last == "NCBrand.swift" }
  }

  /// The files that something can stand in which has stood in this one.
  private func places(_ place: Name) -> [Name] {
    if place.last == "NCBrand.swift" { return Self.brands(files) }
    let all = files.has(place) ? [] : files.names(ending: "/" + place.last)
    return all.isEmpty ? [place] : all
  }
}

// MARK: Code

extension SourceReader {
  /// Reads a file of code, and the headers beside it that it imports; nil if it is not there.
  mutating func code(_ name: Name) throws -> Code? {
    if let known = codes[name] { return known }
    guard let data = try files.data(name) else { return nil }
    let beside = name.hasSuffix(".m") ? files.names(ending: ".h").filter { $0.folder == name.folder } : []
    let conditions = conditions.union(beside.map(\.last))
    func read(_ name: Name, _ data: Data) throws -> Code {
      let code = try Code(Array(data), file: name, conditions: conditions, files.budget)
      if code.isCut { files.note("ends before what is open in it does", name) }
      return code
    }
    var code = try read(name, data)
    for header in Set(beside.isEmpty ? [] : code.imports).sorted() {
      guard let data = try files.data(name.folder + header) else { continue }
      code.imported.append(try read(name.folder + header, data))
    }
    codes[name] = code
    return code
  }

  /// Adds the text that a name is set to, in the first of the files that sets it.
  private mutating func readConstant(_ row: Row, _ key: Name, _ place: Name) throws {
    var codes: [Code] = []
    for name in places(place) { if let code = try code(name) { codes.append(code) } }
    if !row.isNeeded,
      codes.contains(where: { $0.sets("useAppsGroup", to: "NO") || $0.sets("use_GroupApps", to: "false") })
    {
      return
    }
    // In older versions the name has a plural.
    for key in [key, key + "s"] {
      guard let code = codes.first(where: { $0.assignments[key] != nil }) else { continue }
      for start in try counting(code.assignments[key] ?? [], of: key, in: code) {
        try add(row, key, code, start)
      }
      return
    }
    if row.isNeeded { try facts.miss(row.aspect, "not found where it was: \(key.text) in \(place.text)") }
  }

  private mutating func add(_ row: Row, _ name: Name, _ code: Code, _ start: Int) throws {
    if let text = try code.constant(at: start) {
      let line = code.line(try code.origin(of: start))
      try facts.add(row.aspect, [Value(text, file: code.file, line: line, member: name)])
    } else {
      try facts.miss(
        row.aspect, "\(name.text) is not set to a text literal in the file", file: code.file,
        line: code.line(start))
    }
  }

  /// The assignments to a name that count. Files for iOS fills in the vendor's proxy where a brand has none:
  /// `if proxy.isEmpty, brand == "Nextcloud" { proxy = "..." }`.
  private func counting(_ starts: [Int], of key: Name, in code: Code) throws -> [Int] {
    let declared = starts.filter { code.guards[$0] == nil }
    guard !declared.isEmpty else { return starts }
    var counting = declared
    for start in starts {
      guard let condition = code.guards[start] else { continue }
      switch try holds(condition, of: key, declared, in: code) {
      case true?: counting = [start]
      case false?: break
      case nil: counting.append(start)
      }
    }
    return counting
  }

  /// Whether a condition holds when the app starts; nil if that is not known.
  private func holds(_ condition: Range<Int>, of key: Name, _ declared: [Int], in code: Code) throws -> Bool?
  {
    func text(_ name: Name) throws -> Name? {
      let starts = name == key ? declared : code.assignments[name]?.filter { code.guards[$0] == nil } ?? []
      return try starts.last.flatMap { try code.constant(at: $0) }
    }
    func atom(_ range: ArraySlice<Int>) throws -> Bool? {
      var words = range
      let isNot = words.first.map { code[mark: $0] == "!" } ?? false
      if isNot { words = words.dropFirst() }
      while let first = words.first, code[first] == "self" || code[mark: first] == "." {
        words = words.dropFirst()
      }
      guard let first = words.first, let value = try text(code[first]) else { return nil }
      if code[first + 2] == "isEmpty", words.count == 3 { return value.bytes.isEmpty != isNot }
      guard words.count == 4, code.kind(first + 3) == .text, code[mark: first + 2] == "=" else { return nil }
      return (value == code[first + 3]) == (code[mark: first + 1] == "=")
    }
    var result: Bool? = false
    for all in code.split(condition, at: ["|"]) {
      let atoms = try code.split(ArraySlice(all), at: ["&", ","]).map { try atom(ArraySlice($0)) }
      if atoms.allSatisfy({ $0 == true }) { return true }
      if !atoms.contains(false) { result = nil }
    }
    return result
  }

  /// Adds the texts of code that begin so.
  private mutating func readTexts(_ row: Row, _ beginning: Name) throws {
    var names = Self.brands(files)
    var ending: [UInt8] = []
    switch (facts.product, facts.table.isForIOS) {
    case (.talk, true):
      // The app's own code: the folder that the branding lies in.
      let branding = files.names(ending: "/NCAppBranding.m").first ?? "NextcloudTalk/"
      let folder = Name(branding.bytes.prefix { $0 != "/" }) + "/"
      names = files.names(ending: ".m", ".swift").filter { $0.hasPrefix(folder) }
    case (.talk, false): names = files.names(ending: ".java", ".kt").filter { $0.hasPrefix("app/src/main/") }
    default:
      // As the app makes it: its version, and the brand behind a hyphen.
      for name in names {
        guard let code = try code(name), let start = code.assignments["brandUserAgent"]?.first else {
          continue
        }
        guard let text = try code.constant(at: start) else {
          try facts.miss(
            .userAgent, "brandUserAgent is not set to a text literal in the file", file: name,
            line: code.line(start))
          return
        }
        ending = text.bytes.isEmpty ? [] : ["-"] + text.bytes
        break
      }
    }
    var isFound = false
    for name in names {
      // Most files have none, and need not be read further.
      guard let data = try files.data(name), data.withUnsafeBytes({ $0.first(beginning.bytes) != nil }),
        let code = try code(name)
      else { continue }
      for index in code.tokens.indices where code.kind(index) == .text && code[index].hasPrefix(beginning) {
        isFound = true
        let text = Value(code[index], file: name, line: code.line(index)).text.replacing(
          "\\(appVersion)", with: "1.0"
        ).replacing("\\(suffixBrand)", with: Name(ending).text)
        try facts.add(row.aspect, [Value(text: text, file: name, line: code.line(index))])
      }
    }
    if !isFound {
      try facts.miss(row.aspect, "no text that begins with \(beginning.text) was found in the code")
    }
  }

  /// Reads a member of a constant of `lib/firebase_options.dart`. It is a text, or takes it from constants of a class:
  /// `_Options.projectId`, `'1:${_Options.projectNumber}:ios:...'`.
  private mutating func readOption(_ row: Row, _ member: Name, of constant: Name) throws {
    let name: Name = "lib/firebase_options.dart"
    guard let code = try code(name), var start = code.assignments[constant]?.first else {
      return try facts.miss(row.aspect, "not found where it was: \(constant.text) in \(name.text)")
    }
    if code[start] == "const" { start += 1 }
    guard code[start] == "FirebaseOptions", code[mark: start + 1] == "(" else {
      return try facts.miss(
        row.aspect, "\(constant.text) is not set to FirebaseOptions(...)", file: name, line: code.line(start))
    }
    let end = code.closing(start + 1)
    var index = start + 2
    while index < end {
      if code[index] == member, code.kind(index) == .word, code[mark: index + 1] == ":" {
        return try add(row, member, code, index + 2)
      }
      // On to the next member, past whatever this one has in brackets.
      while index < end, code[mark: index] != "," {
        let isOpen = ["(", "[", "{"].contains(code[mark: index])
        index = isOpen ? code.closing(index) + 1 : index + 1
      }
      index += 1
    }
    try facts.miss(row.aspect, "not found where it was: \(member.text) of \(constant.text) in \(name.text)")
  }

  /// Finds the vendors' names in settings that nothing else here reads, but for comments.
  private mutating func readLeftovers() throws {
    let known = Set(
      facts.parts.flatMap { [$0.bundle].compactMap(\.self) + $0.otherBundles }.map(\.key)
        + [.applicationID, .leftover].flatMap { facts[$0] }.map(\.key))
    for name in files.names(
      ending: ".plist", ".xcconfig", "/AndroidManifest.xml", "/auth.xml", "/syncadapter.xml")
    {
      guard let data = try files.data(name) else { continue }
      var found: [Value] = []
      func findVendors(in text: Name, _ line: Int) {
        for word in text.bytes.split(whereSeparator: { !$0.isInIdentifier }) {
          let word = Name(word.prefix(Budget.value))
          if Vendor.bundles.contains(where: { word.hasPrefix(Name($0)) }) {
            found.append(Value(word, file: name, line: line))
          }
        }
      }
      if name.hasSuffix(".xcconfig") {
        for (index, line) in XcodeProject.lines(of: data).enumerated() { findVendors(in: line, index + 1) }
      } else {
        var markup = Markup(Array(data), files.budget)
        while let event = try markup.next() {
          switch event {
          case .text(let text): findVendors(in: text, markup.line)
          case .start(_, let attributes, _):
            for (key, text) in attributes.sorted(by: { $0.key < $1.key }) {
              findVendors(in: text, markup.lines[key] ?? markup.line)
            }
          case .end: break
          }
        }
      }
      try facts.add(.leftover, found.filter { !known.contains($0.key) })
    }
  }
}

extension Value {
  /// What it is, and where.
  fileprivate var key: [Name] { [Name(text), file, Name("\(line ?? 0)")] }
}

extension Code {
  /// Whether a name is set to a word: `YES`, `false`.
  func sets(_ name: Name, to word: Name) -> Bool { assignments[name]?.contains { self[$0] == word } ?? false }

  /// The parts of an expression between marks, without their second halves: `||`, `&&`.
  func split(_ range: some Sequence<Int>, at marks: Set<UInt8?>) -> [[Int]] {
    Array(range).split { marks.contains(self[mark: $0]) }.map(Array.init)
  }

  /// Where the text of an expression stands: at a constant's declaration, if the expression is nothing but its name.
  func origin(of index: Int) throws -> Int {
    var place = index
    if let text = (index..<index + 12).first(where: { kind($0) == .text }),
      !(index..<text).contains(where: { self[mark: $0] == ";" || self[mark: $0] == "," })
    {
      return text
    }
    // `base64Decode(_key)`, `Options.key`
    while kind(place) == .word, [".", "("].contains(self[mark: place + 1]), kind(place + 2) == .word {
      place += 2
    }
    guard kind(place) == .word, let start = assignments[self[place]]?.first else { return index }
    return start
  }
}

extension UInt8 {
  /// Whether it may stand in a bundle id or package name.
  var isInIdentifier: Bool { isWord || self == "." || self == "-" }
}
