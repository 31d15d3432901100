internal import Basics

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
    let file: Name
    let line: Int?
  }

  /// A flavour, and the dimension that it is one of.
  private struct Flavor {
    let name: Name
    var dimension: Name?
  }

  /// The file that the others are applied from.
  let file: Name
  private let folder: Name
  private var settings: [Setting] = []
  /// In the order in which they are declared.
  private var flavors: [Flavor] = []
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
  init?(_ folder: Name, _ files: AppFiles, _ read: (Name) throws -> Code?) throws {
    let names = [folder + "build.gradle", folder + "build.gradle.kts"]
    guard let name = names.first(where: files.has) else { return nil }
    (file, self.folder) = (name, folder)
    let aliases = try Self.googleServices(files)
    var (waiting, known): ([Name], Set<Name>) = ([name], [name])
    while let next = waiting.popLast() {
      guard let code = try read(next) else { continue }
      for applied in try add(code, aliases, files) where known.insert(applied).inserted {
        waiting.append(applied)
      }
    }
  }

  /// What the plugin is called in the version catalog, with dots.
  private static func googleServices(_ files: AppFiles) throws -> Set<Name> {
    let lines = try files.data("gradle/libs.versions.toml")?.split(separator: "\n") ?? []
    return Set(
      lines.map { Name($0).trimmed }.filter {
        $0.contains("com.google.gms.google-services") && $0.bytes.first != "#"
      }.map { line in
        let key = Name(line.bytes.prefix { $0 != "=" }).trimmed
        return Name(key.bytes.map { ["-", "_"].contains($0) ? "." : $0 })
      })
  }

  /// Reads one file.
  ///
  /// - Returns: the files that it applies.
  private mutating func add(_ code: Code, _ aliases: Set<Name>, _ files: AppFiles) throws -> [Name] {
    let file = code.file
    var applied: [Name] = []
    // Each open bracket, and the name of its block if it has one.
    var open: [(isBlock: Bool, name: Name)] = []
    for index in code.tokens.indices {
      let blocks = open.filter(\.isBlock).map(\.name)
      switch code[mark: index] {
      case "{":
        let name = Self.name(code, before: index)
        if blocks.last == "productFlavors", !name.bytes.isEmpty, !flavors.contains(where: { $0.name == name })
        {
          flavors.append(Flavor(name: name))
        }
        guard open.count < Budget.depth else { throw Budget.tooDeep }
        open.append((true, name))
      case "(", "[":
        guard open.count < Budget.depth else { throw Budget.tooDeep }
        open.append((false, ""))
      case "}", ")", "]": _ = open.popLast()
      default: break
      }
      guard code.kind(index) == .word else {
        if code.kind(index) == .text, code[index] == "com.google.gms.google-services" {
          noteGoogleServices(code, index)
        }
        continue
      }
      // `name = "..."`, `name "..."`, `name("...")`
      let start = ["=", "(", ":"].contains(code[mark: index + 1]) ? index + 2 : index + 1
      var text: Name? { get throws { try code.constant(at: start) } }
      switch code[index] {
      case "applicationId", "applicationIdSuffix":
        guard
          code.kind(index - 1) != .mark || code.line(index - 1) != code.line(index)
            || code[mark: index - 1] == "{"
        else { continue }
        settings.append(
          Setting(blocks: blocks, key: code[index], text: try text, file: file, line: code.line(start)))
      case "dimension":
        guard let name = blocks.last, let place = flavors.firstIndex(where: { $0.name == name }) else {
          continue
        }
        flavors[place].dimension = try text
      case "flavorDimensions":
        for next in index..<code.tokens.count where code.line(next) == code.line(index) {
          if code.kind(next) == .text { dimensions.append(code[next]) }
          if next > index + 40 { break }
        }
      case "resValue":
        guard code[start] == "string" else { continue }
        try files.budget.values(1)
        guard let name = try code.constant(at: start + 2) else {
          files.note("adds a text whose name is worked out by the build", file, line: code.line(index))
          continue
        }
        var value: Value?
        let place = Value("", file: file, line: code.line(start + 4))
        if let text = try code.constant(at: start + 4), !text.bytes.contains("$") {
          value = Value(text, file: file, line: place.line)
        }
        texts.append((blocks.last ?? "", name, value, place))
      case "from" where code[index - 1] == "apply" || code[index - 2] == "apply":
        if let path = try text, let name = self.path(path, files) {
          applied.append(name)
        } else {
          files.note("applies another file, which was not found", file, line: code.line(index))
        }
      case "srcDir", "srcDirs", "setSrcDirs": noteResources(code, index, blocks, files)
      case "libs" where code[index + 2] == "plugins":
        var (alias, place): (Name, Int) = (code[index + 4], index + 4)
        while code[mark: place + 1] == ".", code.kind(place + 2) == .word {
          place += 2
          alias = alias + "." + code[place]
        }
        if aliases.contains(alias) { noteGoogleServices(code, place) }
      default: break
      }
    }
    try files.budget.values(settings.count)
    return applied
  }

  /// A path out of a build file, from the root of the app; nil if there is no such file.
  private func path(_ text: Name, _ files: AppFiles) -> Name? {
    let rest = text.text.replacing("${rootProject.projectDir}", with: "").replacing("${rootDir}", with: "")
      .replacing("$rootDir", with: "").replacing("${projectDir}", with: "").replacing("$projectDir", with: "")
    let names = [folder + Name(rest), Name(rest)].map { name in Name.path(name.bytes) }
    return names.first { name in files.has(name) || files.names.contains { $0.hasPrefix(name + "/") } }
  }

  /// `main.res.srcDirs += "..."`, `getByName("main").res.srcDir("...")`, `main { res.srcDirs("...") }`
  private mutating func noteResources(_ code: Code, _ index: Int, _ blocks: [Name], _ files: AppFiles) {
    guard code[index - 2] == "res" || blocks.last == "res" else { return }
    var set = blocks.last { $0 != "res" } ?? ""
    if code[mark: index - 3] == "." {
      set = [")", "]"].contains(code[mark: index - 4]) ? code[index - 5] : code[index - 4]
    }
    var isFound = false
    for next in index + 1..<index + 40 where code.line(next) == code.line(index) && code.kind(next) == .text {
      isFound = true
      if let path = path(code[next], files) {
        resources.append((set, path + "/"))
      } else {
        files.note(
          "adds a folder of resources that is not there: \(code[next].text)", code.file, line: code.line(next)
        )
      }
    }
    if !isFound {
      files.note("adds a folder of resources that the build works out", code.file, line: code.line(index))
    }
  }

  /// `apply false` only makes a plugin known.
  private mutating func noteGoogleServices(_ code: Code, _ index: Int) {
    let line = code.line(index)
    for next in index + 1..<index + 12 where code.line(next) == line {
      if code[next] == "apply", code[next + 1] == "false" { return }
    }
    googleServices = googleServices ?? Value("", file: code.file, line: line)
  }

  /// The name of the block that opens at an index: `release {`, `create("gplay") {`, `register('gplay') {`.
  private static func name(_ code: Code, before index: Int) -> Name {
    if code.kind(index - 1) == .word { return code[index - 1] }
    guard code[mark: index - 1] == ")" else { return "" }
    if code.kind(index - 2) == .text { return code[index - 2] }
    return ""
  }

  /// The flavours that are looked at, one of each dimension, the most important first: those that are named, or else
  /// those that are published with push.
  ///
  /// - Throws: a ``Fault`` if there are none of that name.
  func variant(_ name: Name?) throws -> [Name] {
    let order = dimensions + flavors.compactMap(\.dimension).filter { !dimensions.contains($0) }
    var groups: [[Name]] = []
    for (number, dimension) in order.enumerated() where order.firstIndex(of: dimension) == number {
      groups.append(
        flavors.filter { $0.dimension == dimension || ($0.dimension == nil && number == 0) }.map(\.name))
    }
    if order.isEmpty { groups = [flavors.map(\.name)] }
    groups.removeAll(where: \.isEmpty)
    guard let name else { return groups.map { Self.published(among: $0) } }
    // `gplay`, or all of them in one: `gplayProd`.
    if flavors.contains(where: { $0.name == name }) {
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
        ? "leave it out: there are none" : "name one of \(flavors.map(\.name.text).joined(separator: ", "))")
  }

  private static func published(among flavors: [Name]) -> Name {
    flavors.contains("gplay") ? "gplay" : flavors.first { !unpublished.contains($0) } ?? flavors[0]
  }
  private static let unpublished: Set<Name> = [
    "generic", "qa", "versionDev", "dev", "beta", "debug", "huawei", "fdroid", "foss",
  ]

  /// `gplayProd`
  static func joined(_ flavors: [Name]) -> Name {
    flavors.dropFirst().reduce(flavors.first ?? "") { joined, name in
      var bytes = name.bytes
      if let first = bytes.first, ("a"..."z").contains(first) { bytes[0] = first & 0xDF }
      return joined + Name(bytes)
    }
  }

  /// An application id as a variant has it when it is published.
  enum ApplicationID {
    case found(Value)
    case unknown(file: Name, line: Int?)
    case missing
  }

  func applicationID(of variant: [Name]) -> ApplicationID {
    func last(_ key: Name, _ block: Name, in outer: Name) -> Setting? {
      settings.last {
        $0.key == key && $0.blocks.last == block
          && (outer.bytes.isEmpty || $0.blocks.dropLast().last == outer)
      }
    }
    let own = variant.lazy.compactMap { last("applicationId", $0, in: "productFlavors") }.first
    guard let setting = own ?? last("applicationId", "defaultConfig", in: "") else { return .missing }
    let suffixes =
      ([last("applicationIdSuffix", "defaultConfig", in: "")]
      + variant.map { last("applicationIdSuffix", $0, in: "productFlavors") } + [
        last("applicationIdSuffix", "release", in: "buildTypes")
      ]).compactMap(\.self)
    guard let id = setting.text, suffixes.allSatisfy({ $0.text != nil }) else {
      return .unknown(file: setting.file, line: setting.line)
    }
    let text = suffixes.reduce(id) { text, suffix in
      let part = suffix.text ?? ""
      return text + (part.hasPrefix(".") ? part : "." + part)
    }
    return .found(Value(text, file: setting.file, line: setting.line))
  }
}
