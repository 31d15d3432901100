internal import Foundation

/// What an Xcode project builds: its apps and their extensions, with the settings of each configuration. Tests and
/// libraries are left out.
struct XcodeProject {
  /// A setting, and where it stands.
  struct Setting: Sendable {
    let text: Name
    let file: Name
    let line: Int?
    var value: Value { Value(text, file: file, line: line) }
    /// Whether it names a variable that nothing sets.
    var isOpen: Bool { text.contains("$(") || text.contains("${") }
  }

  struct Target {
    let name: Name
    let isApp: Bool
    /// Whether the app contains it.
    let isEmbedded: Bool
    let configurations: [Configuration]

    /// The configuration that is published.
    var release: Configuration? {
      configurations.first { $0.name == "Release" } ?? configurations.first {
        $0.name.contains("elease") || $0.name.contains("Store")
      } ?? configurations.last
    }
  }

  struct Configuration {
    let name: Name
    fileprivate let target: Name
    /// The settings of the target, of its file, of the project, and of the project's file.
    fileprivate let layers: [[Name: Setting]]
    fileprivate let budget: Budget

    /// A setting with its variables replaced. If it is nothing but a variable, the place is the variable's.
    subscript(key: Name) -> Setting? { get throws { try setting(key, from: 0, depth: 0) } }

    private func setting(_ key: Name, from layer: Int, depth: Int) throws -> Setting? {
      try budget.step()
      for index in layers.indices.dropFirst(layer) {
        // What is said for devices comes before what is said for everything.
        guard let setting = layers[index][key + "[sdk=iphoneos*]"] ?? layers[index][key] else { continue }
        return try resolved(setting, key, index, depth)
      }
      switch key {
      case "TARGET_NAME": return Setting(text: target, file: "", line: nil)
      case "PRODUCT_NAME",
        "EXECUTABLE_NAME" where depth < 8:
        return try setting("TARGET_NAME", from: 0, depth: depth + 1)
      case "SRCROOT", "PROJECT_DIR": return Setting(text: ".", file: "", line: nil)
      case "CONFIGURATION": return Setting(text: name, file: "", line: nil)
      default: return nil
      }
    }

    /// Replaces the variables of a setting from outside the project's own.
    func resolve(_ setting: Setting) throws -> Setting { try resolved(setting, "", 0, 0) }

    private func resolved(_ setting: Setting, _ key: Name, _ layer: Int, _ depth: Int) throws -> Setting {
      let raw = setting.text.bytes
      guard depth < 8, raw.contains("$") else { return setting }
      try budget.step(1 + raw.count / 64)
      var (text, place): ([UInt8], Int) = ([], 0)
      // One that is longer is no value.
      while place < raw.count, text.count <= 4 * Budget.value {
        let next = place + 1 < raw.count ? raw[place + 1] : 0
        guard raw[place] == "$", next == "(" || next == "{" else {
          text.append(raw[place])
          place += 1
          continue
        }
        let end = raw[place...].firstIndex(of: next == "(" ? ")" : "}")
        guard let end else { break }
        let parts = raw[place + 2..<end].split(separator: ":", omittingEmptySubsequences: false)
        let name = Name(parts.first ?? [])
        let found =
          name == "inherited" || name == key
          ? try self.setting(key, from: layer + 1, depth: depth + 1)
          : try self.setting(name, from: 0, depth: depth + 1)
        if let found {
          if place == 0, end == raw.count - 1, parts.count == 1 {
            return found.file.bytes.isEmpty
              ? Setting(text: found.text, file: setting.file, line: setting.line) : found
          }
          text += parts.dropFirst().reduce(found.text.bytes) { Self.modified($0, Name($1)) }
        } else if name != "inherited" {
          text += raw[place...end]
        }
        place = end + 1
      }
      return Setting(text: Name(text), file: setting.file, line: setting.line)
    }

    private static func modified(_ text: [UInt8], _ modifier: Name) -> [UInt8] {
      switch modifier {
      case "rfc1034identifier": text.map { $0.isWord && $0 < 0x80 && $0 != "_" || $0 == "." ? $0 : "-" }
      case "c99extidentifier", "identifier": text.map { $0.isWord && $0 < 0x80 ? $0 : "_" }
      case "lower": text.map { ("A"..."Z").contains($0) ? $0 | 0x20 : $0 }
      default: text
      }
    }
  }

  let file: Name
  /// The folder that its paths begin at.
  let root: Name
  let targets: [Target]

  /// A path as a setting names it, from the root of the app.
  func path(_ setting: Setting) -> Name { Name.path((root + setting.text).bytes) }

  /// What is set for `#if` where the app is compiled for release.
  var conditions: Set<Name> {
    get throws {
      guard let release = targets.first(where: \.isApp)?.release else { return [] }
      let settings = [
        try release["SWIFT_ACTIVE_COMPILATION_CONDITIONS"], try release["GCC_PREPROCESSOR_DEFINITIONS"],
      ]
      let words = settings.flatMap { $0?.text.bytes.split(separator: " ") ?? [] }
      return Set(
        words.compactMap { word in
          let parts = word.split(separator: "=", omittingEmptySubsequences: false)
          return parts.count > 1 && parts[1].elementsEqual("0".utf8) ? nil : Name(parts[0])
        })
    }
  }

  /// - Returns: nil if the file is no project.
  init?(_ file: Name, _ files: AppFiles) throws {
    let budget = files.budget
    guard let data = try files.data(file), let list = try PropertyList.read(data, budget),
      let objects = list["objects"]?.members, let id = list["rootObject"]?.text, let project = objects[id]
    else { return nil }
    let root = file.folder.dropping(suffix: "/").folder
    self.file = file
    self.root = root

    func layers(_ owner: PropertyList) throws -> [(name: Name, layers: [[Name: Setting]])] {
      let list = owner["buildConfigurationList"]?.text.flatMap { objects[$0] }
      return try (list?["buildConfigurations"]?.list ?? []).compactMap { id in
        guard let configuration = id.text.flatMap({ objects[$0] }), let name = configuration["name"]?.text
        else { return nil }
        var settings: [Name: Setting] = [:]
        for (key, value) in configuration["buildSettings"]?.members ?? [:] {
          // A list is what its members are, with blanks between them.
          let text = value.text ?? Name(value.list.compactMap(\.text).map(\.bytes).joined(separator: [0x20]))
          settings[key] = Setting(text: text, file: file, line: value.line)
        }
        let base =
          configuration["baseConfigurationReference"]?.text
          ?? configuration["baseConfigurationReferenceRelativePath"]?.text
        let path = base.map { objects[$0]?["path"]?.text ?? $0 }
        return (name, [settings, try path.map { try Self.settings($0, root, files) } ?? [:]])
      }
    }

    /// What an app copies into its folder of extensions.
    func embedded(_ target: PropertyList) -> [Name] {
      (target["buildPhases"]?.list ?? []).compactMap { $0.text.flatMap { objects[$0] } }.filter {
        $0["isa"]?.text == "PBXCopyFilesBuildPhase"
          && ["13", "16", "PlugIns"].contains(($0["dstSubfolderSpec"] ?? $0["dstSubfolder"])?.text)
      }.flatMap { $0["files"]?.list ?? [] }.compactMap { $0.text.flatMap { objects[$0]?["fileRef"]?.text } }
    }

    let all = (project["targets"]?.list ?? []).compactMap { id in id.text.flatMap { objects[$0] } }
    let copied = Set(all.flatMap(embedded))
    let own = try layers(project)
    targets = try all.compactMap { target in
      guard let type = target["productType"]?.text,
        type == "com.apple.product-type.application" || type.contains("extension")
      else { return nil }
      let name = target["name"]?.text ?? ""
      let configurations = try layers(target).map { configuration in
        Configuration(
          name: configuration.name, target: name,
          layers: configuration.layers + (own.first { $0.name == configuration.name }?.layers ?? []),
          budget: budget)
      }
      let isApp = type == "com.apple.product-type.application"
      return Target(
        name: name, isApp: isApp,
        isEmbedded: isApp || target["productReference"]?.text.map(copied.contains) ?? false,
        configurations: configurations)
    }
  }

  /// The settings of an xcconfig file that the project names. Groups of the project may lie in other folders than on
  /// disk, so the file is known by the end of its path.
  private static func settings(_ path: Name, _ root: Name, _ files: AppFiles) throws -> [Name: Setting] {
    guard let name = files.names.first(where: { $0.hasPrefix(root) && $0.hasSuffix("/" + path.last) }) else {
      return [:]
    }
    var settings: [Name: Setting] = [:]
    try add(name, to: &settings, files, depth: 0)
    return settings
  }

  /// The lines of an xcconfig file, without comments.
  static func lines(of data: Data) -> [Name] {
    data.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      let comment = line.indices.first { line[$0] == "/" && $0 + 1 < line.endIndex && line[$0 + 1] == "/" }
      return Name(line[..<(comment ?? line.endIndex)]).trimmed
    }
  }

  private static func add(_ name: Name, to settings: inout [Name: Setting], _ files: AppFiles, depth: Int)
    throws
  {
    guard depth < 8, let data = try files.data(name) else { return }
    for (index, text) in lines(of: data).enumerated() {
      try files.budget.step()
      if text.hasPrefix("#include") {
        let parts = text.bytes.split(separator: "\"")
        if parts.count >= 2 { try add(name.folder + Name(parts[1]), to: &settings, files, depth: depth + 1) }
      } else if let split = text.bytes.firstIndex(of: "=") {
        let key = Name(text.bytes[..<split]).trimmed
        settings[key] = Setting(text: Name(text.bytes[(split + 1)...]).trimmed, file: name, line: index + 1)
      }
    }
  }
}
