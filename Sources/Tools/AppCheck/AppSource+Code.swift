internal import Foundation

extension SourceReader {
  /// Adds the text that a name is set to, in the first of the files that sets it.
  mutating func readConstant(_ row: Row, _ key: Name, _ place: Name) throws {
    let codes = try places(place).compactMap { try code($0) }
    if !row.isNeeded,
      codes.contains(where: { $0.sets("useAppsGroup", to: "NO") || $0.sets("use_GroupApps", to: "false") })
    {
      return
    }
    // In older versions the name has a plural.
    for key in [key, key + "s"] {
      guard let code = codes.first(where: { $0.assignments[key] != nil }) else { continue }
      for start in try code.counting(key) { try add(row, key, code, start) }
      return
    }
    if row.isNeeded { try files.miss(row.aspect, "not found where it was: \(key.text) in \(place.text)") }
  }

  private mutating func add(_ row: Row, _ name: Name, _ code: Code, _ start: Int) throws {
    if let text = try code.constant(at: start) {
      let line = code.line(code.origin(of: start))
      try facts.add(row.aspect, [Value(text, file: code.file, line: line, member: name)])
    } else {
      try files.miss(
        row.aspect, "\(name.text) is not set to a text literal in the file",
        code.place(start))
    }
  }

  /// Adds the texts of code that begin so.
  mutating func readTexts(_ row: Row, _ beginning: Name) throws {
    var names = Self.brands(files)
    var brand: Name = ""
    switch (facts.product, facts.table.isForIOS) {
    case (.talk, true):
      // The app's own code: the folder that the branding lies in.
      let branding = files.names(ending: "/NCAppBranding.m").first ?? "NextcloudTalk/"
      let folder = Name(branding.bytes.prefix { $0 != "/" }) + "/"
      names = files.names(ending: ".m", ".swift").filter { $0.hasPrefix(folder) }
    case (.talk, false): names = files.names(ending: ".java", ".kt").filter { $0.hasPrefix("app/src/main/") }
    default:
      // As the app makes it: its version, and the brand behind a hyphen.
      let codes = try names.compactMap { try code($0) }
      if let code = codes.first(where: { $0.assignments["brandUserAgent"] != nil }),
        let start = code.assignments["brandUserAgent"]?.first
      {
        guard let text = try code.constant(at: start) else {
          return try files.miss(
            row.aspect, "brandUserAgent is not set to a text literal in the file",
            code.place(start))
        }
        brand = text.bytes.isEmpty ? "" : "-" + text
      }
    }
    var isFound = false
    for name in names {
      // Most files have none, and need not be read further.
      guard let data = try files.data(name), data.has(beginning), let code = try code(name) else { continue }
      for index in code.tokens.indices where code.kind(index) == .text && code[index].hasPrefix(beginning) {
        isFound = true
        let text = code.place(index).with(code[index])
        let made = text.text.replacing("\\(appVersion)", with: "1.0").replacing(
          "\\(suffixBrand)", with: brand.text)
        try facts.add(row.aspect, [text.with(Name(made))])
      }
    }
    if !isFound {
      try files.miss(row.aspect, "no text that begins with \(beginning.text) was found in the code")
    }
  }
}

extension Code {
  /// Whether a name is set to a word: `YES`, `false`.
  fileprivate func sets(_ name: Name, to word: Name) -> Bool {
    assignments[name]?.contains { self[$0] == word } ?? false
  }

  /// The assignments to a name that count. Files for iOS fills in the vendor's proxy where a brand has none:
  /// `if proxy.isEmpty, brand == "Nextcloud" { proxy = "..." }`.
  fileprivate func counting(_ key: Name) throws -> [Int] {
    let starts = assignments[key] ?? []
    let declared = starts.filter { guards[$0] == nil }
    guard !declared.isEmpty else { return starts }
    var counting = declared
    for start in starts {
      guard let condition = guards[start] else { continue }
      switch try holds(condition) {
      case true?: counting = [start]
      case false?: break
      case nil: counting.append(start)
      }
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
