import Foundation

/// Reads the source of an app by its table.
struct SourceReader {
  let files: AppFiles
  /// Which of an Android app's flavours; nil: the one that is published.
  let wanted: Name?
  var facts: AppFacts
  /// What is set for `#if`.
  var conditions: Set<Name> = []
  var codes: [Name: Code] = [:]

  /// - Returns: nil if it is the source of no app that is known.
  static func facts(of files: AppFiles, flavor: Name?) throws -> AppFacts? {
    guard let table = try table(of: files) else { return nil }
    var reader = SourceReader(files: files, wanted: flavor, facts: AppFacts(table, files))
    try reader.read()
    return reader.facts
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
    if !brands(files).isEmpty || has("Nextcloud.xcodeproj/") { return .filesForIOS }
    if has("app/src/main/java/com/nextcloud/talk/") { return .talkForAndroid }
    if has("app/src/main/java/com/owncloud/android/") { return .filesForAndroid }
    for name in files.names(ending: ".xml") where name.hasPrefix("app/src/") && name.contains("/res/values") {
      guard let data = try files.data(name) else { continue }
      if data.has("\"nc_push_server_url\"") { return .talkForAndroid }
      if data.has("\"push_server_url\"") { return .filesForAndroid }
    }
    return nil
  }

  private mutating func read() throws {
    let project = facts.table.isForIOS ? try xcodeProject() : nil
    conditions = try project?.conditions ?? []
    if let folder = facts.table.build { try readAndroid(folder) }
    for row in facts.rows {
      switch row.source {
      case .constant(let name, let place): try readConstant(row, name, place)
      case .text(let beginning): try readTexts(row, beginning)
      case .resource: break
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
  func places(_ place: Name) -> [Name] {
    if place.last == "NCBrand.swift" { return Self.brands(files) }
    let all = files.has(place) ? [] : files.names(ending: "/" + place.last)
    return all.isEmpty ? [place] : all
  }

  /// Reads a file of code, and the headers beside it that it imports; nil if it is not there.
  mutating func code(_ name: Name) throws -> Code? {
    if let known = codes[name] { return known }
    let beside = name.hasSuffix(".m") ? files.names(ending: ".h").filter { $0.folder == name.folder } : []
    let conditions = conditions.union(beside.map(\.last))
    func read(_ name: Name) throws -> Code? {
      guard let data = try files.data(name) else { return nil }
      let code = try Code(
        Array(data), file: name, Language(of: name), conditions: conditions, files.budget)
      if code.isCut { try files.miss(AppFiles.cut, name) }
      return code
    }
    guard var code = try read(name) else { return nil }
    code.imported = try Set(code.imports).sorted().compactMap { try read(name.folder + $0) }
    codes[name] = code
    return code
  }

  /// Reads a file of XML; nil if it is not there, or has no element.
  func xml(_ name: Name) throws -> Element? {
    guard let data = try files.data(name) else { return nil }
    let root = try Element(data, files.budget)
    if root?.isWhole != true { try files.miss(AppFiles.cut, name) }
    return root
  }

  /// Finds the vendors' names in settings that nothing else here reads, but for comments.
  private mutating func readLeftovers() throws {
    for name in files.names(
      ending: ".plist", ".xcconfig", "/AndroidManifest.xml", "/auth.xml", "/syncadapter.xml")
    {
      guard let data = try files.data(name) else { continue }
      var texts: [(text: [UInt8], line: Int)] = []
      if name.hasSuffix(".xcconfig") {
        texts = XcodeProject.lines(of: data).enumerated().map { ($1.bytes, $0 + 1) }
      } else if !data.starts(with: "bplist".utf8), let root = try Element(data, files.budget) {
        for element in [root] + root.descendants {
          texts += element.attributes.map { ($0.text.bytes, $0.line) } + [(element.text, element.line)]
        }
      }
      for (text, line) in texts {
        let words = text.split { !$0.isInIdentifier }.map { Name($0.prefix(Budget.value)) }
        let vendors = words.filter { word in Vendor.bundles.contains { word.hasPrefix(Name($0)) } }
        try facts.add(.leftover, vendors.map { Value($0, file: name, line: line) })
      }
    }
  }

  // MARK: Code

  /// Adds the text that a name is set to, in the first of the files that sets it.
  mutating func readConstant(_ row: Row, _ key: Name, _ place: Name) throws {
    let codes = try places(place).compactMap { try code($0) }
    if let (name, word) = row.unless,
      codes.contains(where: { code in code.assignments[name, default: []].contains { code[$0] == word } })
    {
      return
    }
    // In older versions the name has a plural.
    for key in [key, key + "s"] {
      guard let code = codes.first(where: { $0.assignments[key] != nil }) else { continue }
      for start in try code.counting(key) {
        guard let text = try text(row.aspect, key, code, start) else { continue }
        let line = code.line(code.origin(of: start))
        try facts.add(row.aspect, [Value(text, file: code.file, line: line, member: key)])
      }
      return
    }
    if row.unless == nil {
      try files.miss(row.aspect, "not found where it was: \(key.text) in \(place.text)")
    }
  }

  /// What a name is set to there; nil if it is no text, of which a note is kept.
  private func text(_ aspect: Aspect, _ name: Name, _ code: Code, _ start: Int) throws -> Name? {
    let text = try code.constant(at: start)
    if text == nil {
      try files.miss(aspect, "\(name.text) is not set to a text literal in the file", code.place(start))
    }
    return text
  }

  /// Adds the texts of code that begin so.
  mutating func readTexts(_ row: Row, _ beginning: Name) throws {
    var (names, brand): ([Name], Name) = (Self.brands(files), "")
    switch (facts.product, facts.table.isForIOS) {
    case (.talk, true):
      // The app's own code: the folder that the branding lies in.
      let branding = files.names(ending: "/NCAppBranding.m").first ?? "NextcloudTalk/"
      let folder = Name(branding.bytes.prefix { $0 != "/" }) + "/"
      names = files.names(ending: ".m", ".swift").filter { $0.hasPrefix(folder) }
    case (.talk, false): names = files.names(ending: ".java", ".kt").filter { $0.hasPrefix("app/src/main/") }
    default:
      // As the app makes it: its version, and the brand behind a hyphen.
      let key: Name = "brandUserAgent"
      let branded = try names.compactMap { try code($0) }.first { $0.assignments[key] != nil }
      if let branded, let start = branded.assignments[key]?.first {
        guard let text = try text(row.aspect, key, branded, start) else { return }
        brand = text.bytes.isEmpty ? "" : "-" + text
      }
    }
    for name in names {
      // Most files have none, and need not be read further.
      guard let data = try files.data(name), data.has(beginning), let code = try code(name) else { continue }
      for index in code.tokens.indices where code.kind(index) == .text && code[index].hasPrefix(beginning) {
        let made = code[index].text.replacing("\\(appVersion)", with: "1.0").replacing(
          "\\(suffixBrand)", with: brand.text)
        try facts.add(row.aspect, [code.place(index).with(Name(made))])
      }
    }
    if facts[row.aspect].isEmpty {
      try files.miss(row.aspect, "no text that begins with \(beginning.text) was found in the code")
    }
  }
}

extension Code {
  /// The assignments to a name that count. Files for iOS fills in the vendor's proxy where a brand has none:
  /// `if proxy.isEmpty, brand == "Nextcloud" { proxy = "..." }`.
  fileprivate func counting(_ key: Name) throws -> [Int] {
    let starts = assignments[key] ?? []
    var counting = starts.filter { guards[$0] == nil }
    guard !counting.isEmpty else { return starts }
    for start in starts {
      guard let condition = guards[start] else { continue }
      let isMet = try holds(condition)
      if isMet != false { counting = (isMet == true ? [] : counting) + [start] }
    }
    return counting
  }

  /// Whether a condition holds when the app starts, of `name.isEmpty` and `name == "..."`, all of which have to; nil if
  /// that is not known.
  private func holds(_ condition: Range<Int>) throws -> Bool? {
    guard !condition.contains(where: { ["|", "!"].contains(self[mark: $0]) }) else { return nil }
    let atoms = try Array(condition).split { ["&", ","].contains(self[mark: $0]) }.map { atom -> Bool? in
      let words = Array(atom.drop { self[mark: $0] == "." || self[$0] == "self" })
      guard let first = words.first, let start = assignments[self[first]]?.last(where: { guards[$0] == nil }),
        let value = try constant(at: start)
      else { return nil }
      if words.count == 3, self[words[2]] == "isEmpty" { return value.bytes.isEmpty }
      return words.count == 4 && kind(words[3]) == .text ? value == self[words[3]] : nil
    }
    return atoms.contains(false) ? false : atoms.contains(nil) ? nil : true
  }

  /// Where the text of an expression stands: at a constant's declaration, if it has none of its own.
  fileprivate func origin(of index: Int) -> Int {
    let words = (index..<index + 12).prefix { ![";", ","].contains(self[mark: $0]) }
    if let text = words.first(where: { kind($0) == .text }) { return text }
    // `base64Decode(_key)`, `Options.key`
    let line = words.prefix { self.line($0) == self.line(index) }
    return line.compactMap { assignments[self[$0]]?.first }.last ?? index
  }
}
