internal import Foundation

/// Reads the source of the apps. Where each value stands was looked up in their public sources in August 2026
/// (`Documentation/Apps.md`).
extension AppFacts {
  /// - Returns: nil if it is the source of no app that is known.
  init?(source files: AppFiles) throws {
    func has(_ beginnings: Name...) -> Bool {
      files.names.contains { name in beginnings.contains(where: name.hasPrefix) }
    }
    if has("lib/model/push_device.dart", "lib/firebase_options.dart", "ios/Flutter/Zulip.xcconfig") {
      self.init(.zulip, files.budget)
      try readZulip(files)
    } else if has("NextcloudTalk.xcodeproj/", "NextcloudTalk/") {
      self.init(.talk, files.budget)
      try readTalkForIOS(files)
    } else if has("Brand/NCBrand.swift", "Nextcloud.xcodeproj/") {
      self.init(.files, files.budget)
      try readFilesForIOS(files)
    } else if has("app/src/main/java/com/nextcloud/talk/") {
      self.init(.talk, files.budget)
      try readAndroid(files, proxy: "nc_push_server_url")
      try readUserAgents(
        files,
        files.names(ending: ".java", ".kt").filter { $0.hasPrefix("app/src/main/java/com/nextcloud/talk/") },
        beginning: "Mozilla/5.0 (Android)")
    } else if has("app/src/main/java/com/owncloud/android/") {
      self.init(.files, files.budget)
      try readAndroid(files, proxy: "push_server_url")
    } else {
      return nil
    }
    try readLeftovers(files)
  }

  /// Finds the vendors' names in settings that nothing else here reads.
  private mutating func readLeftovers(_ files: AppFiles) throws {
    let known = Set(values.values.joined())
    var found: [Value] = []
    for name in files.names(ending: ".plist", ".xcconfig", "/AndroidManifest.xml") {
      guard let data = try files.data(name) else { continue }
      var line = 1
      var place = data.startIndex
      // Words of letters, digits, dots and hyphens, each looked at once.
      while place < data.endIndex {
        guard data[place].isInIdentifier else {
          if data[place] == UInt8(ascii: "\n") { line += 1 }
          place += 1
          continue
        }
        let end = data[place...].firstIndex { !$0.isInIdentifier } ?? data.endIndex
        let word = Name(data[place..<min(end, place + Budget.value)])
        if Vendor.names.contains(where: { word.hasPrefix(Name($0)) }) {
          try files.budget.values(1)
          found.append(Value(word, file: name, line: line))
        }
        place = end
      }
    }
    try add(.leftover, found.filter { !known.contains($0) })
  }
}

// MARK: Code

extension AppFacts {
  /// Reads a file of code; nil if it is not there.
  private func code(_ files: AppFiles, _ name: Name) throws -> Code? {
    try files.data(name).map { try Code(Array($0), file: name, files.budget) }
  }

  /// Adds the texts that a name is set to in the first of the files that is there.
  private mutating func look(_ aspect: Aspect, _ files: AppFiles, _ names: [Name], for keys: Name...) throws {
    var isFound = false
    for name in names {
      guard let code = try code(files, name) else { continue }
      for key in keys {
        for start in code.assignments[key] ?? [] {
          isFound = true
          switch try code.constant(at: start) {
          case .text(let text):
            try add(aspect, [Value(text, file: name, line: code.line(code.firstText(from: start) ?? start))])
          case .unknown:
            try miss(
              aspect, "\(key.text) is not set to a text that stands in the file", file: name,
              line: code.line(start))
          }
        }
      }
      break
    }
    if !isFound { try miss(aspect, "not found where it was: \(names.map(\.text).joined(separator: " or "))") }
  }

  /// Adds the texts of code that begin so.
  private mutating func readUserAgents(_ files: AppFiles, _ names: [Name], beginning: Name) throws {
    var isFound = false
    for name in names {
      // Most files have none, and need not be read further.
      guard let data = try files.data(name), data.withUnsafeBytes({ $0.first(beginning.bytes) != nil }) else {
        continue
      }
      let code = try Code(Array(data), file: name, files.budget)
      for index in code.tokens.indices where code.kind(index) == .text && code[index].hasPrefix(beginning) {
        isFound = true
        try add(.userAgent, [Value(code[index], file: name, line: code.line(index))])
      }
    }
    if !isFound { try miss(.userAgent, "no text that begins with \(beginning.text) was found in the code") }
  }

  private mutating func readZulip(_ files: AppFiles) throws {
    try look(.bouncerKey, files, ["lib/model/push_device.dart"], for: "bouncerPublicKey")
    let members: [(Aspect, Name)] = [
      (.firebaseProject, "projectId"), (.firebaseNumber, "messagingSenderId"), (.firebaseApp, "appId"),
    ]
    try readFirebaseOptions(files, "kFirebaseOptionsAndroid", members)
    try readFirebaseOptions(files, "kFirebaseOptionsIos", members.map { (.firebaseForIOS, $0.1) })
    try readApplicationID(files, "android/app/", flavor: nil)
    try look(.group, files, ["lib/model/store.dart"], for: "iosAppGroupIdentifier")
    try readXcodeProjects(files)
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
          member.aspect, "\(member.name.text) is not set to a text that stands in the file", file: name,
          line: code.line(value))
      }
    }
  }

  private mutating func readTalkForIOS(_ files: AppFiles) throws {
    let branding: [Name] = ["NextcloudTalk/Settings/NCAppBranding.m", "NextcloudTalk/NCAppBranding.m"]
    try look(.proxy, files, branding, for: "pushNotificationServer")
    try look(.bundleIDInCode, files, branding, for: "bundleIdentifier")
    try look(.group, files, branding, for: "groupIdentifier", "appsGroupIdentifier")
    try readUserAgents(
      files, files.names(ending: ".m", ".swift").filter { $0.hasPrefix("NextcloudTalk/") },
      beginning: "Mozilla/5.0 (iOS)")
    try readXcodeProjects(files)
  }

  private mutating func readFilesForIOS(_ files: AppFiles) throws {
    let brand: [Name] = ["Brand/NCBrand.swift"]
    try look(.proxy, files, brand, for: "pushNotificationServerProxy")
    try readUserAgents(files, brand, beginning: "Mozilla/5.0")
    try look(.group, files, brand, for: "capabilitiesGroup", "capabilitiesGroups", "capabilitiesGroupApps")
    try readXcodeProjects(files)
  }
}

// MARK: Android

extension AppFacts {
  private mutating func readAndroid(_ files: AppFiles, proxy: Name) throws {
    try readApplicationID(files, "app/", flavor: nil)
    let members: [Name: Aspect] = [
      proxy: .proxy, "nextcloud_user_agent": .userAgent, "project_id": .firebaseProject,
      "gcm_defaultSenderId": .firebaseNumber, "google_app_id": .firebaseApp,
    ]
    for name in files.names(ending: "/res/values/setup.xml") where name.hasPrefix("app/src/") {
      guard let data = try files.data(name) else { continue }
      for (key, value) in try AndroidTexts(Array(data), file: name, files.budget).texts {
        guard let aspect = members[key], aspect != .proxy || !value.text.isEmpty || product == .talk else {
          continue
        }
        try add(aspect, [value])
      }
    }
    for (key, aspect) in members where self[aspect].isEmpty && (aspect != .userAgent || product == .files) {
      try miss(aspect, "not found where it was: \(key.text) in a file setup.xml of app/src/*/res/values")
    }
  }

  private mutating func readApplicationID(_ files: AppFiles, _ folder: Name, flavor: Name?) throws {
    for name in [folder + "build.gradle", folder + "build.gradle.kts"] {
      guard let code = try code(files, name) else { continue }
      switch try Gradle(code, files.budget).applicationID(of: flavor) {
      case .found(let id): try add(.applicationID, [id])
      case .unknown(let line):
        try miss(
          .applicationID, "applicationId is not set to a text that stands in the file", file: name, line: line
        )
      case .missing: try miss(.applicationID, "not found where it was: \(name.text)")
      }
      return
    }
    try miss(.applicationID, "not found where it was: \(folder.text)build.gradle or build.gradle.kts")
  }
}

// MARK: Xcode

extension AppFacts {
  /// Reads the first project that builds an app: bundle ids and teams of the app and its extensions, and what their
  /// entitlements allow.
  private mutating func readXcodeProjects(_ files: AppFiles) throws {
    for name in files.names(ending: ".xcodeproj/project.pbxproj") {
      guard let project = try XcodeProject(name, files), project.targets.contains(where: \.isApp) else {
        continue
      }
      return try read(project, files)
    }
    try miss(.bundleID, "no Xcode project was found that builds an app")
  }

  private mutating func read(_ project: XcodeProject, _ files: AppFiles) throws {
    var isRead: Set<Name> = []
    for target in project.targets {
      for configuration in target.configurations {
        if let id = try configuration["PRODUCT_BUNDLE_IDENTIFIER"] {
          if id.isOpen {
            try miss(.bundleID, "nothing says what \(id.value.text) is", file: id.file, line: id.line)
          } else {
            try add(.bundleID, [id.value])
          }
        }
        if let team = try configuration["DEVELOPMENT_TEAM"], !team.text.bytes.isEmpty {
          try add(.team, [team.value])
        }
      }
      guard let release = target.release, let setting = try release["CODE_SIGN_ENTITLEMENTS"],
        !setting.text.bytes.isEmpty
      else { continue }
      let path = setting.text.hasPrefix("./") ? Name(setting.text.bytes.dropFirst(2)) : setting.text
      let file = project.root + path
      guard isRead.insert(file).inserted else { continue }
      guard let data = try files.data(file), let list = try PropertyList.read(data, files.budget) else {
        try miss(
          .entitledGroup, "\(file.text) cannot be read as a property list", file: setting.file,
          line: setting.line)
        continue
      }
      try addEntitlements(list, file: file) { value in
        let resolved = try release.resolve(.init(text: Name(value.text), file: value.file, line: value.line))
        return resolved.value
      }
    }
  }
}

extension Code {
  /// The first text from an index on, in the same expression.
  func firstText(from index: Int) -> Int? {
    (index..<index + 12).first { kind($0) == .text }
  }

  /// Where the text of an expression stands: at a constant's declaration, if the expression is nothing but its name.
  func origin(of index: Int) throws -> Int {
    guard kind(index) == .word, firstText(from: index) != index else { return index }
    var place = index
    while self[mark: place + 1] == UInt8(ascii: "."), kind(place + 2) == .word { place += 2 }
    guard let start = assignments[self[place]]?.first else { return index }
    return start
  }
}

extension UInt8 {
  /// Whether it may stand in a bundle id or package name.
  var isInIdentifier: Bool { isWord || self == UInt8(ascii: ".") || self == UInt8(ascii: "-") }
}
