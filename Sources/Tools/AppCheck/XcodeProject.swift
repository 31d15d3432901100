import Foundation

/// What an Xcode project builds: its apps and their extensions, with the settings of each configuration. Tests and
/// libraries are left out.
struct XcodeProject {
  typealias Settings = [Name: Value]

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
    fileprivate let layers: [Settings]
    fileprivate let budget: Budget

    /// A setting with its variables replaced; nil if there is none. If it is nothing but a variable, the place is the
    /// variable's.
    subscript(key: Name) -> Value? {
      get throws {
        let value = try setting(key, from: 0, depth: 0)
        return value?.text.isEmpty == true ? nil : value
      }
    }

    private func setting(_ key: Name, from layer: Int, depth: Int) throws -> Value? {
      try budget.step()
      for index in layers.indices.dropFirst(layer) {
        // What is said for devices comes before what is said for everything.
        guard let setting = layers[index][key + "[sdk=iphoneos*]"] ?? layers[index][key] else { continue }
        return try resolved(setting, key, index, depth)
      }
      switch key {
      case "TARGET_NAME", "PRODUCT_NAME", "EXECUTABLE_NAME": return Value(target, file: "")
      case "SRCROOT", "PROJECT_DIR": return Value(".", file: "")
      case "CONFIGURATION": return Value(name, file: "")
      default: return nil
      }
    }

    /// Replaces the variables of a value from outside the project.
    func resolve(_ value: Value) throws -> Value { try resolved(value, "", 0, 0) }

    private func resolved(_ setting: Value, _ key: Name, _ layer: Int, _ depth: Int) throws -> Value {
      let raw = setting.name.bytes
      guard depth < 8, raw.contains("$") else { return setting }
      try budget.step(1 + raw.count / 64)
      var (text, cursor): ([UInt8], Cursor) = ([], Cursor(raw))
      // One that is longer is no value.
      while !cursor.isAtEnd, text.count <= 4 * Budget.value {
        let start = cursor.place
        guard cursor.has("$(") || cursor.has("${") else {
          text.append(cursor.byte())
          cursor.advance()
          continue
        }
        let end: UInt8 = cursor.byte(1) == "(" ? ")" : "}"
        cursor.advance(2)
        let parts = cursor.skip { $0 != end }.split(separator: ":", omittingEmptySubsequences: false)
        guard !cursor.isAtEnd else { break }
        cursor.advance()
        let name = Name(parts.first ?? [])
        let isOuter = name == "inherited" || name == key
        let found = try self.setting(isOuter ? key : name, from: isOuter ? layer + 1 : 0, depth: depth + 1)
        if let found, start == 0, cursor.isAtEnd, parts.count == 1 {
          return found.file.bytes.isEmpty ? setting.with(found.name) : found
        }
        if let found {
          text += parts.dropFirst().reduce(found.name.bytes) { Self.modified($0, Name($1)) }
        } else if name != "inherited" {
          text += raw[start..<cursor.place]
        }
      }
      return setting.with(Name(text))
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
  func path(_ setting: Value) -> Name { Name.path((root + setting.name).bytes) }

  /// What is set for `#if` where the app is compiled for release.
  var conditions: Set<Name> {
    get throws {
      guard let release = targets.first(where: \.isApp)?.release else { return [] }
      let keys: [Name] = ["SWIFT_ACTIVE_COMPILATION_CONDITIONS", "GCC_PREPROCESSOR_DEFINITIONS"]
      let words = try keys.flatMap { try release[$0]?.name.bytes.split(separator: " ") ?? [] }.map {
        Name($0)
      }
      return Set(words.filter { !$0.hasSuffix("=0") }.map { Name($0.bytes.prefix { $0 != "=" }) })
    }
  }

  /// - Returns: nil if the file is no project.
  init?(_ file: Name, _ files: AppFiles) throws {
    let budget = files.budget
    guard let data = try files.data(file), let list = try PropertyList.read(data, budget),
      let objects = list["objects"]?.members, let project = list["rootObject"]?.text.flatMap({ objects[$0] })
    else { return nil }
    let root = Name(file.folder.bytes.dropLast()).folder
    (self.file, self.root) = (file, root)

    func object(_ id: PropertyList?) -> PropertyList? { id?.text.flatMap { objects[$0] } }
    func members(_ key: Name, of owner: PropertyList?) -> [PropertyList] {
      owner?[key]?.list.compactMap(object) ?? []
    }

    func layers(_ owner: PropertyList) throws -> [(name: Name, layers: [Settings])] {
      try members("buildConfigurations", of: object(owner["buildConfigurationList"])).compactMap {
        configuration in
        guard let name = configuration["name"]?.text else { return nil }
        // A list is what its members are, with blanks between them.
        let settings = (configuration["buildSettings"]?.members ?? [:]).mapValues { value in
          Value(
            value.text ?? Name(value.list.compactMap(\.text).map(\.bytes).joined(separator: [0x20])),
            file: file, line: value.line)
        }
        let base =
          configuration["baseConfigurationReference"]
          ?? configuration["baseConfigurationReferenceRelativePath"]
        // Groups of the project may lie in other folders than on disk, so the file is known by the end of its path.
        let end = (object(base)?["path"]?.text ?? base?.text).map { "/" + $0.last }
        let xcconfig = end.flatMap { end in files.names.first { $0.hasPrefix(root) && $0.hasSuffix(end) } }
        return (name, [settings, try xcconfig.map { try Self.settings($0, files) } ?? [:]])
      }
    }

    let all = members("targets", of: project)
    // What is copied into the folder of extensions.
    let copied = Set(
      all.flatMap { members("buildPhases", of: $0) }.filter {
        $0["isa"]?.text == "PBXCopyFilesBuildPhase"
          && ["13", "16", "PlugIns"].contains(($0["dstSubfolderSpec"] ?? $0["dstSubfolder"])?.text)
      }.flatMap { members("files", of: $0) }.compactMap { $0["fileRef"]?.text })
    let own = try layers(project)
    targets = try all.compactMap { target in
      let (name, type) = (target["name"]?.text ?? "", target["productType"]?.text ?? "")
      let isApp = type == "com.apple.product-type.application"
      guard isApp || type.contains("extension") else { return nil }
      return Target(
        name: name, isApp: isApp,
        isEmbedded: isApp || target["productReference"]?.text.map(copied.contains) ?? false,
        configurations: try layers(target).map { configuration in
          Configuration(
            name: configuration.name, target: name,
            layers: configuration.layers + (own.first { $0.name == configuration.name }?.layers ?? []),
            budget: budget)
        })
    }
  }

  /// The lines of an xcconfig file, without comments.
  static func lines(of data: Data) -> [Name] {
    data.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      Name(line.prefix(line.position(of: "//") ?? line.count)).trimmed
    }
  }

  /// The settings of an xcconfig file, and of those that it includes.
  private static func settings(_ name: Name, _ files: AppFiles, depth: Int = 0) throws -> Settings {
    var settings: Settings = [:]
    guard depth < 8, let data = try files.data(name) else { return settings }
    for (index, text) in lines(of: data).enumerated() {
      try files.budget.step()
      if text.hasPrefix("#include") {
        let parts = text.bytes.split(separator: "\"")
        guard parts.count >= 2 else { continue }
        settings.merge(try self.settings(name.folder + Name(parts[1]), files, depth: depth + 1)) { $1 }
      } else if let split = text.bytes.firstIndex(of: "=") {
        let key = Name(text.bytes[..<split]).trimmed
        settings[key] = Value(Name(text.bytes[(split + 1)...]).trimmed, file: name, line: index + 1)
      }
    }
    return settings
  }
}
