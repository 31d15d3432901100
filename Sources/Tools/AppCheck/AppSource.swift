internal import Foundation

/// Reads the source of the apps. Where each value stands was looked up in their public sources in August 2026
/// (`Documentation/Apps.md`).
extension AppFacts {
  /// - Parameter flavor: which of an Android app's flavours; nil: the one that is published.
  /// - Returns: nil if it is the source of no app that is known.
  init?(source files: AppFiles, flavor: Name?) throws {
    func has(_ beginnings: Name...) -> Bool {
      files.names.contains { name in beginnings.contains(where: name.hasPrefix) }
    }
    // A brand renames folders and projects first; the names of these files stay.
    let talk = files.names(ending: "/NCAppBranding.m")
    let brand = files.names(ending: ".swift").filter {
      $0.last.hasPrefix("NCBrand.") || $0.last.hasPrefix("NCBrand-")
    }
    if has("lib/model/push_device.dart", "lib/firebase_options.dart", "ios/Flutter/Zulip.xcconfig") {
      self.init(.zulip, files.budget)
      try readZulip(files, flavor)
    } else if !talk.isEmpty || has("NextcloudTalk.xcodeproj/", "NextcloudTalk/") {
      self.init(.talk, files.budget)
      try readTalkForIOS(files, talk)
    } else if !brand.isEmpty || has("Nextcloud.xcodeproj/") {
      self.init(.files, files.budget)
      try readFilesForIOS(files, brand)
    } else if has("app/src/main/java/com/nextcloud/talk/") {
      self.init(.talk, files.budget)
      try readAndroid(files, flavor, proxy: "nc_push_server_url")
      try readUserAgents(
        files, files.names(ending: ".java", ".kt").filter { $0.hasPrefix("app/src/main/java/") },
        beginning: "Mozilla/5.0 (Android)")
    } else if has("app/src/main/java/com/owncloud/android/") {
      self.init(.files, files.budget)
      try readAndroid(files, flavor, proxy: "push_server_url")
    } else {
      return nil
    }
    try readLeftovers(files)
  }

  /// Finds the vendors' names in settings that nothing else here reads, but for comments.
  private mutating func readLeftovers(_ files: AppFiles) throws {
    let known = Set(values.values.joined()).union(parts.compactMap(\.bundle)).union(
      parts.flatMap(\.otherBundles))
    var found: [Value] = []
    func findVendors(in text: Name, _ file: Name, _ line: Int) {
      for word in text.bytes.split(whereSeparator: { !$0.isInIdentifier }) {
        let word = Name(word.prefix(Budget.value))
        if Vendor.bundles.contains(where: { word.hasPrefix(Name($0)) }) {
          found.append(Value(word, file: file, line: line))
        }
      }
    }
    for name in files.names(ending: ".plist", ".xcconfig", "/AndroidManifest.xml") {
      guard let data = try files.data(name) else { continue }
      if name.hasSuffix(".xcconfig") {
        for (index, line) in XcodeProject.lines(of: data).enumerated() {
          findVendors(in: line, name, index + 1)
        }
      } else {
        var markup = Markup(Array(data), files.budget)
        while let event = try markup.next() {
          switch event {
          case .text(let text): findVendors(in: text, name, markup.line)
          case .start(_, let attributes, _):
            for text in attributes.values.sorted() { findVendors(in: text, name, markup.line) }
          case .end: break
          }
        }
      }
      try files.budget.values(found.count)
      try add(.leftover, found.filter { !known.contains($0) })
      found = []
    }
  }
}

// MARK: Code

extension AppFacts {
  /// Reads a file of code, and the headers beside it that it imports; nil if it is not there.
  private func code(_ files: AppFiles, _ name: Name, _ conditions: Set<Name> = []) throws -> Code? {
    guard let data = try files.data(name) else { return nil }
    guard name.hasSuffix(".m") else {
      return try Code(Array(data), file: name, conditions: conditions, files.budget)
    }
    let beside = files.names(ending: ".h").filter { $0.folder == name.folder }
    let conditions = conditions.union(beside.map(\.last))
    var code = try Code(Array(data), file: name, conditions: conditions, files.budget)
    for header in Set(code.imports).sorted() {
      guard let data = try files.data(name.folder + header) else { continue }
      code.imported.append(
        try Code(Array(data), file: name.folder + header, conditions: conditions, files.budget))
    }
    return code
  }

  /// Adds the texts that names are set to, each in the first of the files that sets it.
  ///
  /// - Parameter place: where they were in the vendor's app.
  private mutating func readTexts(_ aspect: Aspect, _ codes: [Code], at place: String, for keys: Name...)
    throws
  {
    var isFound = false
    for key in keys {
      guard let code = codes.first(where: { $0.assignments[key] != nil }) else { continue }
      isFound = true
      for start in try counting(code.assignments[key] ?? [], of: key, in: code) {
        switch try code.constant(at: start) {
        case .text(let text):
          try add(aspect, [Value(text, file: code.file, line: code.line(try code.origin(of: start)))])
        case .unknown:
          try miss(
            aspect, "\(key.text) is not set to a text literal in the file", file: code.file,
            line: code.line(start))
        }
      }
    }
    if !isFound { try miss(aspect, "not found where it was: \(place)") }
  }

  /// The assignments to a name that count. Files for iOS fills in the vendor's proxy where a brand has none:
  /// `if proxy.isEmpty, brand == "Nextcloud" { proxy = "..." }`.
  private func counting(_ starts: [Int], of key: Name, in code: Code) throws -> [Int] {
    func isText(_ start: Int, _ text: Name) throws -> Bool {
      if case .text(text) = try code.constant(at: start) { true } else { false }
    }
    let declared = starts.filter { code.guards[$0] == nil }
    guard !declared.isEmpty else { return starts }
    let isEmpty = try declared.allSatisfy { try isText($0, "") }
    var counting = declared
    for start in starts {
      guard let condition = code.guards[start] else { continue }
      let words = condition.prefix(40)
      guard words.contains(where: { code[$0] == key && code[$0 + 2] == "isEmpty" }) else {
        counting.append(start)
        continue
      }
      guard isEmpty else { continue }
      let brand = words.first { code[$0] == "brand" && code[mark: $0 + 1] == UInt8(ascii: "=") }
      let isMet = try brand.map { brand in
        try code.assignments["brand"]?.contains { try isText($0, code[brand + 3]) } ?? true
      }
      if isMet ?? true { counting = [start] }
    }
    return counting
  }

  /// Adds the texts of code that begin so.
  private mutating func readUserAgents(
    _ files: AppFiles, _ names: [Name], beginning: Name, _ conditions: Set<Name> = [],
    made: (String) -> String = { $0 }
  ) throws {
    var isFound = false
    for name in names {
      // Most files have none, and need not be read further.
      guard let data = try files.data(name), data.withUnsafeBytes({ $0.first(beginning.bytes) != nil }) else {
        continue
      }
      let code = try Code(Array(data), file: name, conditions: conditions, files.budget)
      for index in code.tokens.indices where code.kind(index) == .text && code[index].hasPrefix(beginning) {
        isFound = true
        let raw = Value(code[index], file: name, line: code.line(index))
        try add(.userAgent, [Value(text: made(raw.text), file: name, line: raw.line)])
      }
    }
    if !isFound { try miss(.userAgent, "no text that begins with \(beginning.text) was found in the code") }
  }

  private mutating func readZulip(_ files: AppFiles, _ flavor: Name?) throws {
    let device = "lib/model/push_device.dart"
    try readTexts(
      .bouncerKey, [try code(files, Name(device))].compactMap(\.self), at: device, for: "bouncerPublicKey")
    let members: [(Aspect, Name)] = [
      (.firebaseProject, "projectId"), (.firebaseNumber, "messagingSenderId"), (.firebaseApp, "appId"),
      (.firebaseKey, "apiKey"),
    ]
    try readFirebaseOptions(files, "kFirebaseOptionsAndroid", members)
    try readFirebaseOptions(files, "kFirebaseOptionsIos", members.map { (.firebaseForIOS, $0.1) })
    if let gradle = try gradle(files, "android/app/") { try readApplicationID(gradle, gradle.flavor(flavor)) }
    let store = "lib/model/store.dart"
    try readTexts(
      .group, [try code(files, Name(store))].compactMap(\.self), at: store, for: "iosAppGroupIdentifier")
    if let project = try xcodeProject(files) { try read(project, files) }
  }

  /// Reads one constant of `lib/firebase_options.dart`. Its members are texts, or take them from constants of a class:
  /// `_Options.projectId`, `'1:${_Options.projectNumber}:ios:...'`.
  private mutating func readFirebaseOptions(
    _ files: AppFiles, _ constant: Name, _ members: [(aspect: Aspect, name: Name)]
  ) throws {
    let name: Name = "lib/firebase_options.dart"
    guard let code = try code(files, name), var start = code.assignments[constant]?.first else {
      return try miss(members[0].aspect, "not found where it was: \(constant.text) in \(name.text)")
    }
    if code[start] == "const" { start += 1 }
    var found: [Name: Int] = [:]
    if code[start] == "FirebaseOptions", code[mark: start + 1] == UInt8(ascii: "(") {
      let end = code.closing(start + 1)
      var index = start + 2
      while index < end {
        if code.kind(index) == .word, code[mark: index + 1] == UInt8(ascii: ":") {
          found[code[index]] = index + 2
        }
        // On to the next member, past whatever this one has in brackets.
        while index < end, code[mark: index] != UInt8(ascii: ",") {
          let isOpen = [UInt8(ascii: "("), UInt8(ascii: "["), UInt8(ascii: "{")].contains(code[mark: index])
          index = isOpen ? code.closing(index) + 1 : index + 1
        }
        index += 1
      }
    }
    for member in members {
      guard let value = found[member.name] else {
        try miss(
          member.aspect, "not found where it was: \(member.name.text) of \(constant.text) in \(name.text)")
        continue
      }
      switch try code.constant(at: value) {
      case .text(let text):
        try add(member.aspect, [Value(text, file: name, line: code.line(try code.origin(of: value)))])
      case .unknown:
        try miss(
          member.aspect, "\(member.name.text) is not set to a text literal in the file", file: name,
          line: code.line(value))
      }
    }
  }

  private mutating func readTalkForIOS(_ files: AppFiles, _ names: [Name]) throws {
    let project = try xcodeProject(files)
    let conditions = try project?.conditions ?? []
    let codes = try names.compactMap { try code(files, $0, conditions) }
    let place = "NextcloudTalk/Settings/NCAppBranding.m"
    try readTexts(.proxy, codes, at: place, for: "pushNotificationServer")
    try readTexts(.bundleIDInCode, codes, at: place, for: "bundleIdentifier")
    if codes.contains(where: { $0.sets("useAppsGroup", to: "NO") }) {
      try readTexts(.group, codes, at: place, for: "groupIdentifier")
    } else {
      try readTexts(.group, codes, at: place, for: "groupIdentifier", "appsGroupIdentifier")
    }
    // The app's own code: the folder that the branding lies in.
    let folder = Name((names.first ?? "NextcloudTalk/").bytes.prefix { $0 != UInt8(ascii: "/") }) + "/"
    try readUserAgents(
      files, files.names(ending: ".m", ".swift").filter { $0.hasPrefix(folder) },
      beginning: "Mozilla/5.0 (iOS)",
      conditions)
    if let project { try read(project, files) }
  }

  private mutating func readFilesForIOS(_ files: AppFiles, _ names: [Name]) throws {
    let project = try xcodeProject(files)
    let conditions = try project?.conditions ?? []
    // What a brand sets in a file of its own comes after what stands in the vendor's.
    let codes = try
      (names.filter { $0.last != "NCBrand.swift" } + names.filter { $0.last == "NCBrand.swift" })
      .compactMap { try code(files, $0, conditions) }
    let place = "Brand/NCBrand.swift"
    try readTexts(.proxy, codes, at: place, for: "pushNotificationServerProxy")
    // As the app makes it: its version, and the brand behind a hyphen.
    var brand: Name = ""
    for code in codes {
      guard let start = code.assignments["brandUserAgent"]?.first else { continue }
      if case .text(let text) = try code.constant(at: start) { brand = text.bytes.isEmpty ? "" : "-" + text }
      break
    }
    try readUserAgents(files, names, beginning: "Mozilla/5.0", conditions) { text in
      text.replacing("\\(appVersion)", with: "1.0").replacing("\\(suffixBrand)", with: brand.text)
    }
    if codes.contains(where: { $0.sets("use_GroupApps", to: "false") }) {
      try readTexts(.group, codes, at: place, for: "capabilitiesGroup", "capabilitiesGroups")
    } else {
      try readTexts(
        .group, codes, at: place, for: "capabilitiesGroup", "capabilitiesGroups", "capabilitiesGroupApps")
    }
    if let project { try read(project, files) }
  }
}

// MARK: Android

extension AppFacts {
  /// Texts among the resources that could make two apps one to Android.
  private static let authorities: Set<Name> = [
    "authority", "document_provider_authority", "file_provider_authority", "image_cache_provider_authority",
    "users_and_groups_search_authority",
  ]

  private mutating func readAndroid(_ files: AppFiles, _ wanted: Name?, proxy: Name) throws {
    let gradle = try gradle(files, "app/")
    let flavor = try gradle?.flavor(wanted)
    let aspects: [(key: Name, aspect: Aspect)] = [
      (proxy, .proxy), ("project_id", .firebaseProject), ("gcm_defaultSenderId", .firebaseNumber),
      ("google_app_id", .firebaseApp), ("google_api_key", .firebaseKey),
    ]
    guard let gradle else {
      for (key, aspect) in aspects {
        try miss(aspect, "it is unknown which folders of app/src are built, and so which \(key.text) counts")
      }
      return
    }
    try readApplicationID(gradle, flavor)
    let names =
      aspects.map(\.key) + Self.authorities + ["nextcloud_user_agent", "name_for_branded_user_agent"]
    // A later folder's text comes in the place of an earlier one's.
    let folders = ["main", flavor, "release", flavor.map { $0 + "Release" }].compactMap(\.self)
    var texts: [Name: [(rank: Int, isDefault: Bool, value: Value)]] = [:]
    for name in files.names(ending: ".xml") where name.hasPrefix("app/src/") {
      let parts = name.bytes.split(separator: UInt8(ascii: "/")).map { Name($0) }
      guard parts.count == 6, parts[3] == "res", parts[4] == "values" || parts[4].hasPrefix("values-"),
        let rank = folders.firstIndex(of: parts[2]), let data = try files.data(name),
        // Most are translations, and have none of these texts.
        data.withUnsafeBytes({ bytes in names.contains { bytes.first($0.bytes) != nil } })
      else { continue }
      for (key, value) in try AndroidTexts(Array(data), file: name, files.budget).texts {
        texts[key, default: []].append((rank, parts[4] == "values", value))
      }
    }
    for text in gradle.texts
    where text.block == "defaultConfig" || text.block == "release" || text.block == flavor {
      texts[text.name, default: []].append((folders.count, true, text.value))
    }
    try readGoogleServices(files, gradle, folders) {
      texts[$0, default: []].append((folders.count, true, $1))
    }
    /// What the app has of a text: that of the last folder, and those for single languages or devices.
    func values(_ key: Name) -> [Value] {
      let all = texts[key] ?? []
      let last = all.filter(\.isDefault).map(\.rank).max()
      return all.filter { !$0.isDefault || $0.rank == last }.sorted { $0.isDefault && !$1.isDefault }.map(
        \.value)
    }
    let place = aspects.flatMap { values($0.key) }.last?.file
    for (key, aspect) in aspects {
      let found = values(key)
      try add(aspect, found)
      guard found.isEmpty else { continue }
      if let place {
        try lack(aspect, key, in: place)
      } else {
        try miss(aspect, "not found where it was: \(key.text) in res/values/setup.xml under app/src")
      }
    }
    guard product == .files else { return }
    let brand = values("name_for_branded_user_agent").first?.text ?? ""
    for agent in values("nextcloud_user_agent") {
      try add(
        .userAgent,
        [Value(text: Self.userAgent(agent.text, brand: brand), file: agent.file, line: agent.line)])
    }
    if self[.userAgent].isEmpty {
      try miss(
        .userAgent, "not found where it was: nextcloud_user_agent in app/src/main/res/values/setup.xml")
    }
    for key in Self.authorities.sorted() {
      try add(
        .leftover,
        values(key).filter {
          $0.text == "org.nextcloud" || $0.text.hasPrefix("org.nextcloud.") || Vendor.owns($0.text)
        })
    }
  }

  /// Reads `google-services.json` if the build does.
  private mutating func readGoogleServices(
    _ files: AppFiles, _ gradle: Gradle, _ folders: [Name], _ add: (Name, Value) -> Void
  ) throws {
    let all = files.names(ending: "/google-services.json").filter { $0.hasPrefix("app/") }
    guard let line = gradle.googleServices else {
      unusedGoogleServices = all.first
      return
    }
    let places =
      folders.reversed().map { "app/src/" + $0 + "/google-services.json" } + ["app/google-services.json"]
    guard let name = places.first(where: files.has), let code = try code(files, name) else {
      return try miss(
        .firebaseProject, "the build reads a google-services.json, and there is none", file: gradle.file,
        line: line)
    }
    let id = self[.applicationID].first?.text
    var (app, isKnown): (Int?, Bool) = (nil, false)
    func value(_ index: Int) -> Value { Value(code[index], file: name, line: code.line(index)) }
    for index in code.tokens.indices
    where code.kind(index) == .text && code[mark: index + 1] == UInt8(ascii: ":") {
      switch code[index] {
      case "project_number": add("gcm_defaultSenderId", value(index + 2))
      case "project_id": add("project_id", value(index + 2))
      // Each client has its app's id before its package.
      case "mobilesdk_app_id": app = index + 2
      case "package_name" where id != nil && code[index + 2] == Name(id ?? ""):
        guard !isKnown else { continue }
        isKnown = true
        if let app { add("google_app_id", value(app)) }
      case "current_key" where isKnown || id == nil: add("google_api_key", value(index + 2))
      default: break
      }
    }
    if !isKnown, let id { try lack(.applicationID, Name(id), in: name) }
  }

  private mutating func gradle(_ files: AppFiles, _ folder: Name) throws -> Gradle? {
    for name in [folder + "build.gradle", folder + "build.gradle.kts"] {
      if let code = try code(files, name) { return try Gradle(code, files.budget) }
    }
    try miss(.applicationID, "not found where it was: \(folder.text)build.gradle or build.gradle.kts")
    return nil
  }

  private mutating func readApplicationID(_ gradle: Gradle, _ flavor: Name?) throws {
    switch gradle.applicationID(of: flavor) {
    case .found(let id): try add(.applicationID, [id])
    case .unknown(let line):
      try miss(
        .applicationID, "applicationId is not set to a text literal in the file", file: gradle.file,
        line: line)
    case .missing: try miss(.applicationID, "not found where it was: \(gradle.file.text)")
    }
  }
}

// MARK: Xcode

extension AppFacts {
  /// The project that builds the app: the one nearest to the root, if there are several.
  private mutating func xcodeProject(_ files: AppFiles) throws -> XcodeProject? {
    let names = files.names(ending: ".xcodeproj/project.pbxproj").sorted { left, right in
      let depths = [left, right].map { $0.bytes.count { $0 == UInt8(ascii: "/") } }
      return (depths[0], left) < (depths[1], right)
    }
    for name in names {
      if let project = try XcodeProject(name, files), project.targets.contains(where: \.isApp) {
        return project
      }
    }
    try miss(.bundleID, "no Xcode project was found that builds an app")
    return nil
  }

  /// Reads the app and its extensions: bundle ids, teams, entitlements, background modes.
  private mutating func read(_ project: XcodeProject, _ files: AppFiles) throws {
    for target in project.targets {
      guard let release = target.release else { continue }
      var part = Part(
        name: target.name.text, isApp: target.isApp,
        isNotificationService: target.name.contains("NotificationService")
          || target.name.contains("Notification Service"))
      if let id = try release["PRODUCT_BUNDLE_IDENTIFIER"] {
        if id.isOpen {
          try miss(.bundleID, "\(id.value.text) is not defined", file: id.file, line: id.line)
        } else {
          part.bundle = id.value
        }
      } else {
        try miss(.bundleID, "\(target.name.text) has no PRODUCT_BUNDLE_IDENTIFIER", file: project.file)
      }
      for configuration in target.configurations where configuration.name != release.name {
        if let id = try configuration["PRODUCT_BUNDLE_IDENTIFIER"], !id.isOpen {
          part.otherBundles.append(id.value)
        }
      }
      try readSigning(target)
      try readInfo(&part, release, project, files)
      part.entitlements = try entitlements(target, release, project, files)
      // All of Talk's extensions read the accounts; of others a file with their name says so.
      part.needsEntitlements =
        part.isApp || part.isNotificationService || product == .talk
        || !files.names(ending: "/" + target.name + ".entitlements").isEmpty
      try add(part)
    }
  }

  private mutating func readSigning(_ target: XcodeProject.Target) throws {
    for configuration in target.configurations {
      if let team = try configuration["DEVELOPMENT_TEAM"], !team.text.bytes.isEmpty {
        try team.isOpen
          ? miss(.team, "\(team.value.text) is not defined", file: team.file, line: team.line)
          : add(.team, [team.value])
      }
      // `iPhone Distribution: Somebody (TEAM567890)`
      if let identity = try configuration["CODE_SIGN_IDENTITY"],
        let start = identity.text.bytes.lastIndex(of: UInt8(ascii: "(")), identity.text.hasSuffix(")")
      {
        let team = Name(identity.text.bytes[(start + 1)...].dropLast())
        try add(.team, [Value(team, file: identity.file, line: identity.line)])
      }
    }
  }

  private mutating func readInfo(
    _ part: inout Part, _ release: XcodeProject.Configuration, _ project: XcodeProject, _ files: AppFiles
  ) throws {
    let written = try release["INFOPLIST_KEY_UIBackgroundModes"]
    var modes = (written?.text.bytes.split(separator: UInt8(ascii: " ")) ?? []).map {
      Value(Name($0), file: project.file, line: written?.line)
    }
    var place: (file: Name, line: Int?)? = written.map { ($0.file, $0.line) }
    if let setting = try release["INFOPLIST_FILE"], !setting.text.bytes.isEmpty {
      let file = project.path(setting)
      guard let data = try files.data(file), let info = try PropertyList.read(data, files.budget) else {
        if part.isApp {
          try miss(
            .backgroundModes, "\(file.text) cannot be read as a property list", file: setting.file,
            line: setting.line)
        }
        return
      }
      modes += info.texts("UIBackgroundModes", in: file)
      place = place ?? (file, info["UIBackgroundModes"]?.line)
      if let id = info["CFBundleIdentifier"]?.value(in: file) {
        let resolved = try release.resolve(.init(text: Name(id.text), file: id.file, line: id.line))
        // A name that stands here is the one that counts.
        if !resolved.isOpen, resolved.value.text != part.bundle?.text {
          if let bundle = part.bundle { part.otherBundles.append(bundle) }
          part.bundle = Value(text: resolved.value.text, file: file, line: id.line)
        }
      }
      let kind = info["NSExtension"]
      if kind?["NSExtensionPointIdentifier"]?.text == "com.apple.usernotifications.service" {
        part.isNotificationService = true
      }
      if let group = kind?["NSExtensionFileProviderDocumentGroup"]?.value(in: file) {
        try add(
          .group, [try release.resolve(.init(text: Name(group.text), file: file, line: group.line)).value])
      }
    }
    if part.isApp, let place { part.backgroundModes = (place.file, place.line, modes) }
  }

  private mutating func entitlements(
    _ target: XcodeProject.Target, _ release: XcodeProject.Configuration, _ project: XcodeProject,
    _ files: AppFiles
  ) throws -> Part.Entitlements {
    guard let setting = try release["CODE_SIGN_ENTITLEMENTS"], !setting.text.bytes.isEmpty else {
      let others = try target.configurations.compactMap { try $0["CODE_SIGN_ENTITLEMENTS"] }
      return .none(others.first { !$0.text.bytes.isEmpty }?.value)
    }
    let file = project.path(setting)
    guard files.has(file) else { return .gone(setting.value) }
    guard let data = try files.data(file), let list = try PropertyList.read(data, files.budget) else {
      try miss(.entitledGroup, "\(file.text) cannot be read as a property list", file: file)
      return .unreadable
    }
    return try entitlements(list, file: file) { value in
      try release.resolve(.init(text: Name(value.text), file: value.file, line: value.line)).value
    }
  }
}

extension Code {
  /// Whether a name is set to a word: `YES`, `false`.
  func sets(_ name: Name, to word: Name) -> Bool {
    assignments[name]?.contains { self[$0] == word } ?? false
  }

  /// Where the text of an expression stands: at a constant's declaration, if the expression is nothing but its name.
  func origin(of index: Int) throws -> Int {
    var place = index
    if let text = (index..<index + 12).first(where: { kind($0) == .text }),
      !(index..<text).contains(where: {
        self[mark: $0] == UInt8(ascii: ";") || self[mark: $0] == UInt8(ascii: ",")
      })
    {
      return text
    }
    while self[mark: place + 1] == UInt8(ascii: "."), kind(place + 2) == .word { place += 2 }
    guard kind(place) == .word, let start = assignments[self[place]]?.first else { return index }
    return start
  }
}

extension UInt8 {
  /// Whether it may stand in a bundle id or package name.
  var isInIdentifier: Bool { isWord || self == UInt8(ascii: ".") || self == UInt8(ascii: "-") }
}
