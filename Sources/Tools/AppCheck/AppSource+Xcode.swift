import Foundation

extension SourceReader {
  /// The project that builds the app: the one nearest to the root, if there are several.
  mutating func xcodeProject() throws -> XcodeProject? {
    func depth(_ name: Name) -> Int { name.bytes.count { $0 == "/" } }
    let names = files.names(ending: ".xcodeproj/project.pbxproj").filter { !$0.hasPrefix("macos/") }
    for name in names.sorted(by: { (depth($0), $0) < (depth($1), $1) }) {
      guard let project = try XcodeProject(name, files) else {
        // Another one would be another app's.
        try files.miss(.bundleID, "the project cannot be read", Value("", file: name))
        return nil
      }
      if project.targets.contains(where: \.isApp) { return project }
    }
    try files.miss(.bundleID, "no Xcode project was found that builds an app")
    return nil
  }

  /// Reads the app and its extensions: bundle ids, teams, entitlements, background modes.
  mutating func read(_ project: XcodeProject) throws {
    facts.project = project.file
    for target in project.targets {
      guard let release = target.release else {
        try files.miss(.bundleID, "\(target.name.text) has no configuration", Value("", file: project.file))
        continue
      }
      if target.isApp { facts.configuration = release.name }
      let id: Name = "PRODUCT_BUNDLE_IDENTIFIER"
      let others = target.configurations.filter { $0.name != release.name }
      var part = AppFacts.Part(
        name: target.name.text, isApp: target.isApp, isEmbedded: target.isEmbedded,
        bundle: try setting(id, .bundleID, release, orMiss: target.name.text),
        otherBundles: try others.compactMap { try $0[id] }.filter { !$0.isOpen })
      try readSigning(target)
      try readInfo(&part, release, project)
      part.entitlements = try entitlements(target, release, project)
      // All of Talk's extensions read the accounts; of others a file with their name says so.
      part.needsEntitlements =
        part.isApp || part.isNotificationService || part.isCalledNotificationService || facts.product == .talk
        || !files.names(ending: "/" + target.name + ".entitlements").isEmpty
      part.bundle?.target = part.name
      for index in part.otherBundles.indices { part.otherBundles[index].target = part.name }
      try facts.add(part)
    }
  }

  /// A setting, if it is known.
  ///
  /// - Parameter owner: what has to have it; nil if it may be missing.
  private mutating func setting(
    _ key: Name, _ aspect: Aspect, _ configuration: XcodeProject.Configuration, orMiss owner: String?
  ) throws -> Value? {
    guard let value = try configuration[key] else {
      if let owner {
        try files.miss(aspect, "\(owner) has no \(key.text)", Value("", file: facts.project ?? ""))
      }
      return nil
    }
    if value.isOpen { try files.miss(aspect, "\(value.text) is not defined", value) }
    return value.isOpen ? nil : value
  }

  private mutating func readSigning(_ target: XcodeProject.Target) throws {
    for configuration in target.configurations {
      let isNeeded = target.isApp && configuration.name == target.release?.name
      let team = try setting(
        "DEVELOPMENT_TEAM", .team, configuration, orMiss: isNeeded ? configuration.name.text : nil)
      try facts.add(.team, [team].compactMap(\.self))
      // `iPhone Distribution: Somebody (TEAM567890)`
      if let identity = try configuration["CODE_SIGN_IDENTITY"], identity.name.hasSuffix(")"),
        let start = identity.name.bytes.lastIndex(of: "(")
      {
        try facts.add(.team, [identity.with(Name(identity.name.bytes[(start + 1)...].dropLast()))])
      }
    }
  }

  private mutating func readInfo(
    _ part: inout AppFacts.Part, _ release: XcodeProject.Configuration, _ project: XcodeProject
  ) throws {
    let written = try release["INFOPLIST_KEY_UIBackgroundModes"]
    var modes = written?.name.bytes.split(separator: " ").map { Value(Name($0), file: project.file) } ?? []
    var place = written?.with("")
    if let setting = try release["INFOPLIST_FILE"] {
      let file = project.path(setting)
      guard let data = try files.data(file), let info = try PropertyList.read(data, files.budget) else {
        return try files.miss(
          part.isApp ? .backgroundModes : .notificationService,
          "\(file.text) cannot be read as a property list", setting)
      }
      modes += info.texts("UIBackgroundModes", in: file)
      place = place ?? Value("", file: file, line: info["UIBackgroundModes"]?.line)
      // A name that stands here is the one that counts.
      if let id = try info["CFBundleIdentifier"]?.value(in: file).map(release.resolve), !id.isOpen,
        id.text != part.bundle?.text
      {
        part.otherBundles += [part.bundle].compactMap(\.self)
        part.bundle = id
      }
      part.point = info["NSExtension"]?["NSExtensionPointIdentifier"]?.value(in: file)
      let group = info["NSExtension"]?["NSExtensionFileProviderDocumentGroup"]?.value(in: file)
      try facts.add(.group, [group].compactMap(\.self).map(release.resolve))
    }
    if part.isApp, let place { part.backgroundModes = (place, modes) }
  }

  private mutating func entitlements(
    _ target: XcodeProject.Target, _ release: XcodeProject.Configuration, _ project: XcodeProject
  ) throws -> AppFacts.Part.Entitlements {
    let key: Name = "CODE_SIGN_ENTITLEMENTS"
    guard try release[key] != nil else {
      return .none(try target.configurations.compactMap { try $0[key] }.first)
    }
    guard let setting = try setting(key, .entitledGroup, release, orMiss: nil) else { return .unreadable }
    let file = project.path(setting)
    guard let data = try files.data(file) else {
      return files.unread.contains { file == $0.place.file || file.hasPrefix($0.place.file + "/") }
        ? .unreadable : .gone(setting)
    }
    guard let list = try PropertyList.read(data, files.budget) else {
      try files.miss(
        .entitledGroup, "\(file.text) cannot be read as a property list", Value("", file: file))
      return .unreadable
    }
    return try facts.entitlements(list, file: file, isApp: target.isApp, resolve: release.resolve)
  }
}
