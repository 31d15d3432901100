import Basics

/// What an Android app's build files say, as far as their blocks go: `applicationId`, flavours, texts and folders that are
/// added to the resources. They are read, not run.
struct Gradle {
  /// What is set in a block.
  private struct Setting {
    /// `android`, `productFlavors`, `gplay`
    let blocks: [Name]
    let key: Name
    /// nil if it could not be worked out.
    let text: Name?
    let place: Value
  }

  /// The file that the others are applied from.
  let file: Name
  private let folder: Name
  /// This file, and those that it and they apply.
  private var applied: [Name]
  private var settings: [Setting] = []
  /// In the order in which they are declared.
  private var flavors: [Name] = []
  /// The first comes before the others.
  private var dimensions: [Name] = []
  /// Texts that `resValue` adds: the block's name, the text's, and the text; nil if it could not be worked out.
  private(set) var texts: [(block: Name, name: Name, value: Value?, place: Value)] = []
  /// Folders of resources, by the name of their set: `main`, `gplay`.
  private(set) var resources: [(set: Name, folder: Name)] = []
  /// Where the plugin is applied that reads `google-services.json`; nil if it is not.
  private(set) var googleServices: Value?

  /// - Parameter folder: the app's, with a slash at its end.
  /// - Returns: nil if it has no build file.
  init?(_ folder: Name, _ files: AppFiles, _ code: (Name) throws -> Code?) throws {
    let names = [folder + "build.gradle", folder + "build.gradle.kts"]
    guard let name = names.first(where: files.has) else { return nil }
    (file, self.folder, applied) = (name, folder, [name])
    let aliases = try Self.googleServices(files)
    var read = 0
    while read < applied.count {
      if let code = try code(applied[read]) { try add(code, aliases, files) }
      read += 1
    }
  }

  /// What the plugin is called in the version catalog, with dots.
  private static func googleServices(_ files: AppFiles) throws -> Set<Name> {
    let lines = try files.data("gradle/libs.versions.toml")?.split(separator: "\n") ?? []
    let plugins = lines.filter { $0.has("com.google.gms.google-services") }.map { Name($0).trimmed.bytes }
    let keys = plugins.filter { $0.first != "#" }.map { Name($0.prefix { $0 != "=" }).trimmed.bytes }
    return Set(keys.map { key in Name(key.map { ["-", "_"].contains($0) ? "." : $0 }) })
  }

  private mutating func add(_ code: Code, _ aliases: Set<Name>, _ files: AppFiles) throws {
    // Each open bracket, and the name of its block if it is one.
    var open: [Name?] = []
    for index in code.tokens.indices {
      guard open.count <= Budget.depth else { throw Budget.tooDeep }
      let blocks = open.compactMap(\.self)
      switch code[mark: index] {
      case "{":
        let name = Self.name(code, before: index)
        if blocks.last == "productFlavors", !name.bytes.isEmpty, !flavors.contains(name) {
          flavors.append(name)
        }
        open.append(name)
      case "(", "[": open.append(nil)
      case "}", ")", "]": _ = open.popLast()
      default: break
      }
      let plugin: Name = "com.google.gms.google-services"
      guard code.kind(index) == .word || (code.kind(index) == .text && code[index] == plugin) else {
        continue
      }
      // `name = "..."`, `name "..."`, `name("...")`
      let start = ["=", "(", ":"].contains(code[mark: index + 1]) ? index + 2 : index + 1
      var text: Name? { get throws { try code.constant(at: start) } }
      switch code[index] {
      case "applicationId", "applicationIdSuffix", "dimension":
        let mark = code[mark: index - 1]
        guard mark == nil || mark == "{" || code.line(index - 1) != code.line(index) else { continue }
        settings.append(
          Setting(blocks: blocks, key: code[index], text: try text, place: code.place(start)))
      case plugin: noteGoogleServices(code, index)
      case "flavorDimensions": dimensions += code.texts(behind: index).map { code[$0] }
      case "resValue":
        guard code[start] == "string" else { continue }
        try files.budget.values(1)
        guard let name = try code.constant(at: start + 2) else {
          try files.miss(.file, "adds a text whose name is worked out by the build", code.place(index))
          continue
        }
        let (place, text) = (code.place(start + 4), try code.constant(at: start + 4))
        let value = text.flatMap { $0.bytes.contains("$") ? nil : place.with($0) }
        texts.append((blocks.last ?? "", name, value, place))
      case "from" where code[index - 1] == "apply" || code[index - 2] == "apply":
        if let path = try text, let name = self.path(path, files) {
          if !applied.contains(name) { applied.append(name) }
        } else {
          try files.miss(.file, "applies another file, which was not found", code.place(index))
        }
      case "srcDir", "srcDirs", "setSrcDirs": try noteResources(code, index, blocks, files)
      case "libs" where code[index + 2] == "plugins":
        let end = code.endOfPath(index + 4)
        if let alias = code.joined(index + 4..<end), aliases.contains(alias) {
          noteGoogleServices(code, end - 1)
        }
      default: break
      }
    }
    try files.budget.values(settings.count)
  }

  /// A path out of a build file, from the root of the app; nil if there is no such file.
  private func path(_ text: Name, _ files: AppFiles) -> Name? {
    // `${rootDir}/app/brand.gradle`
    let parts = text.bytes.split(separator: "/")
    let rest = Name(parts.drop { $0.first == "$" }.joined(separator: ["/"]))
    let names = [folder + rest, rest].map { Name.path($0.bytes) }
    return names.first { name in files.has(name) || files.names.contains { $0.hasPrefix(name + "/") } }
  }

  /// `main.res.srcDirs += "..."`, `getByName("main").res.srcDir("...")`, `main { res.srcDirs("...") }`
  private mutating func noteResources(_ code: Code, _ index: Int, _ blocks: [Name], _ files: AppFiles) throws
  {
    guard code[index - 2] == "res" || blocks.last == "res" else { return }
    var set = blocks.last { $0 != "res" } ?? ""
    if code[mark: index - 3] == "." {
      set = [")", "]"].contains(code[mark: index - 4]) ? code[index - 5] : code[index - 4]
    }
    let texts = code.texts(behind: index)
    for text in texts {
      if let path = path(code[text], files) {
        resources.append((set, path + "/"))
      } else {
        try files.miss(
          .file, "adds a folder of resources that is not there: \(code[text].text)", code.place(text))
      }
    }
    if texts.isEmpty {
      try files.miss(.file, "adds a folder of resources that the build works out", code.place(index))
    }
  }

  /// `apply false` only makes a plugin known.
  private mutating func noteGoogleServices(_ code: Code, _ index: Int) {
    let line = code.line(index)
    let words = (index + 1..<index + 12).prefix { code.line($0) == line }
    if words.contains(where: { code[$0] == "apply" && code[$0 + 1] == "false" }) { return }
    googleServices = googleServices ?? code.place(index)
  }

  /// The name of the block that opens at an index: `release {`, `create("gplay") {`, `register('gplay') {`.
  private static func name(_ code: Code, before index: Int) -> Name {
    if code.kind(index - 1) == .word { return code[index - 1] }
    return code[mark: index - 1] == ")" && code.kind(index - 2) == .text ? code[index - 2] : ""
  }

  /// The flavours that are looked at, one of each dimension, the most important first: those that are named, or else
  /// those that are published with push.
  ///
  /// - Throws: a ``Fault`` if there are none of that name.
  func variant(_ name: Name?) throws -> [Name] {
    func dimension(_ flavor: Name) -> Name {
      last("dimension", flavor, in: "productFlavors")?.text ?? dimensions.first ?? ""
    }
    var groups: [[Name]] = []
    for next in dimensions + flavors.map(dimension) where groups.allSatisfy({ dimension($0[0]) != next }) {
      let group = flavors.filter { dimension($0) == next }
      if !group.isEmpty { groups.append(group) }
    }
    guard let name else { return groups.map { Self.published(among: $0) } }
    // `gplay`, or all of them in one: `gplayProd`.
    if flavors.contains(name) {
      return groups.map { $0.contains(name) ? name : Self.published(among: $0) }
    }
    var variants: [[Name]] = [[]]
    for group in groups where variants.count * group.count <= 1_000 {
      variants = variants.flatMap { start in group.map { start + [$0] } }
    }
    if let variant = variants.first(where: { Self.joined($0) == name }) { return variant }
    throw Fault(
      key: "--flavor", "names \(name.text), which is no flavour of \(file.text)",
      advice: flavors.isEmpty
        ? "leave it out: there are none" : "name one of \(flavors.map(\.text).joined(separator: ", "))")
  }

  private static func published(among flavors: [Name]) -> Name {
    let others: [Name] = ["generic", "qa", "versionDev", "dev", "beta", "debug", "huawei", "fdroid", "foss"]
    return flavors.contains("gplay") ? "gplay" : flavors.first { !others.contains($0) } ?? flavors[0]
  }

  /// `gplayProd`
  static func joined(_ flavors: [Name]) -> Name {
    flavors.dropFirst().reduce(flavors.first ?? "") { joined, name in
      var bytes = name.bytes
      if let first = bytes.first, ("a"..."z").contains(first) { bytes[0] = first & 0xDF }
      return joined + Name(bytes)
    }
  }

  /// What is set last in a block of this name.
  private func last(_ key: Name, _ block: Name, in outer: Name? = nil) -> Setting? {
    settings.last {
      $0.key == key && $0.blocks.last == block && (outer == nil || $0.blocks.dropLast().last == outer)
    }
  }

  /// Where the application id stands that a variant has when it is published, nil if nowhere; and what it is, nil if it
  /// could not be worked out.
  func applicationID(of variant: [Name]) -> (place: Value, id: Name?)? {
    let own = variant.lazy.compactMap { last("applicationId", $0, in: "productFlavors") }.first
    guard let setting = own ?? last("applicationId", "defaultConfig") else { return nil }
    let key: Name = "applicationIdSuffix"
    let suffixes =
      [last(key, "defaultConfig")] + variant.map { last(key, $0, in: "productFlavors") }
      + [last(key, "release", in: "buildTypes")]
    let id = suffixes.compactMap(\.self).reduce(setting.text) { text, suffix in
      guard let text, let part = suffix.text else { return nil }
      return text + (part.hasPrefix(".") ? part : "." + part)
    }
    return (setting.place, id)
  }
}
