internal import Foundation

extension SourceReader {
  /// The project that builds the app: the one nearest to the root, if there are several.
  mutating func xcodeProject() throws -> XcodeProject? {
    let names = files.names(ending: ".xcodeproj/project.pbxproj").filter { !$0.hasPrefix("macos/") }.sorted {
      left, right in
      let depths = [left, right].map { $0.bytes.count { $0 == "/" } }
      return (depths[0], left) < (depths[1], right)
    }
    for name in names {
      guard let project = try XcodeProject(name, files) else {
        // Another one would be another app's.
        try facts.miss(.bundleID, "the project cannot be read", file: name)
        return nil
      }
      if project.targets.contains(where: \.isApp) { return project }
    }
    try facts.miss(.bundleID, "no Xcode project was found that builds an app")
    return nil
  }

  /// Reads the app and its extensions: bundle ids, teams, entitlements, background modes.
  mutating func read(_ project: XcodeProject) throws {
    facts.project = project.file
    for target in project.targets {
      guard let release = target.release else {
        try facts.miss(.bundleID, "\(target.name.text) has no configuration", file: project.file)
        continue
      }
      if target.isApp { facts.configuration = release.name }
      var part = AppFacts.Part(name: target.name.text, isApp: target.isApp)
      part.isEmbedded = target.isEmbedded
      if let id = try release["PRODUCT_BUNDLE_IDENTIFIER"], !id.text.bytes.isEmpty {
        if id.isOpen {
          try facts.miss(.bundleID, "\(id.value.text) is not defined", file: id.file, line: id.line)
        } else {
          part.bundle = id.value
        }
      } else {
        try facts.miss(.bundleID, "\(target.name.text) has no PRODUCT_BUNDLE_IDENTIFIER", file: project.file)
      }
      for configuration in target.configurations where configuration.name != release.name {
        if let id = try configuration["PRODUCT_BUNDLE_IDENTIFIER"], !id.isOpen {
          part.otherBundles.append(id.value)
        }
      }
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

  private mutating func readSigning(_ target: XcodeProject.Target) throws {
    for configuration in target.configurations {
      if let team = try configuration["DEVELOPMENT_TEAM"], !team.text.bytes.isEmpty {
        try team.isOpen
          ? facts.miss(.team, "\(team.value.text) is not defined", file: team.file, line: team.line)
          : facts.add(.team, [team.value])
      } else if target.isApp, configuration.name == target.release?.name {
        try facts.miss(.team, "\(configuration.name.text) has no DEVELOPMENT_TEAM", file: facts.project)
      }
      // `iPhone Distribution: Somebody (TEAM567890)`
      if let identity = try configuration["CODE_SIGN_IDENTITY"],
        let start = identity.text.bytes.lastIndex(of: "("), identity.text.hasSuffix(")")
      {
        let team = Name(identity.text.bytes[(start + 1)...].dropLast())
        try facts.add(.team, [Value(team, file: identity.file, line: identity.line)])
      }
    }
  }

  private mutating func readInfo(
    _ part: inout AppFacts.Part, _ release: XcodeProject.Configuration, _ project: XcodeProject
  ) throws {
    func resolve(_ value: Value) throws -> Value {
      let setting = XcodeProject.Setting(text: Name(value.text), file: value.file, line: value.line)
      return Value(text: try release.resolve(setting).value.text, file: value.file, line: value.line)
    }
    let written = try release["INFOPLIST_KEY_UIBackgroundModes"]
    var modes = (written?.text.bytes.split(separator: " ") ?? []).map {
      Value(Name($0), file: project.file, line: written?.line)
    }
    var place = written.map { Value("", file: $0.file, line: $0.line) }
    if let setting = try release["INFOPLIST_FILE"], !setting.text.bytes.isEmpty {
      let file = project.path(setting)
      guard let data = try files.data(file), let info = try PropertyList.read(data, files.budget) else {
        return try facts.miss(
          part.isApp ? .backgroundModes : .notificationService,
          "\(file.text) cannot be read as a property list", file: setting.file, line: setting.line)
      }
      modes += info.texts("UIBackgroundModes", in: file)
      place = place ?? Value("", file: file, line: info["UIBackgroundModes"]?.line)
      if let id = try info["CFBundleIdentifier"]?.value(in: file).map(resolve) {
        // A name that stands here is the one that counts.
        if !id.isOpen, id.text != part.bundle?.text {
          if let bundle = part.bundle { part.otherBundles.append(bundle) }
          part.bundle = id
        }
      }
      let kind = info["NSExtension"] ?? info["EXAppExtensionAttributes"]
      part.point = (kind?["NSExtensionPointIdentifier"] ?? kind?["EXExtensionPointIdentifier"])?.value(
        in: file)
      if let group = try kind?["NSExtensionFileProviderDocumentGroup"]?.value(in: file).map(resolve) {
        try facts.add(.group, [group])
      }
    }
    if part.isApp, let place { part.backgroundModes = (place, modes) }
  }

  private mutating func entitlements(
    _ target: XcodeProject.Target, _ release: XcodeProject.Configuration, _ project: XcodeProject
  ) throws -> AppFacts.Part.Entitlements {
    guard let setting = try release["CODE_SIGN_ENTITLEMENTS"], !setting.text.bytes.isEmpty else {
      let others = try target.configurations.compactMap { try $0["CODE_SIGN_ENTITLEMENTS"] }
      return .none(others.first { !$0.text.bytes.isEmpty }?.value)
    }
    let file = project.path(setting)
    if setting.isOpen {
      try facts.miss(
        .entitledGroup, "\(setting.value.text) is not defined", file: setting.file, line: setting.line)
      return .unreadable
    }
    guard let data = try files.data(file) else {
      return files.notes.contains { file == $0.file || file.hasPrefix($0.file + "/") }
        ? .unreadable : .gone(setting.value)
    }
    guard let list = try PropertyList.read(data, files.budget) else {
      try facts.miss(.entitledGroup, "\(file.text) cannot be read as a property list", file: file)
      return .unreadable
    }
    return try facts.entitlements(list, file: file) { value in
      try release.resolve(.init(text: Name(value.text), file: value.file, line: value.line)).value
    }
  }
}
