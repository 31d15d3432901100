internal import Foundation

/// Reads built packages: an IPA by its property lists and provisioning profiles, an APK or AAB by its manifest and
/// resources, and both by texts that their compiled code contains.
extension AppFacts {
  /// Values that the compiled code is searched for, since it does not say which text is which.
  struct Candidates: Sendable {
    var bouncerKeys: [String]
    var firebaseProjects: [String]
    /// Addresses of push proxies.
    var proxies: [String]
  }

  /// - Returns: nil if it is no package of an app that is known.
  init?(package files: AppFiles, candidates: Candidates) throws {
    let budget = files.budget
    if let manifest = try files.data("AndroidManifest.xml") {
      try self.init(
        android: files, package: BinaryXML(manifest, budget)?.package, manifest: "AndroidManifest.xml",
        texts: files.data("resources.arsc").flatMap { try ResourceTable.texts(Self.texts, in: $0, budget) },
        resources: "resources.arsc", candidates: candidates)
    } else if let manifest = try files.data("base/manifest/AndroidManifest.xml") {
      try self.init(
        android: files, package: ProtocolBuffer(manifest, budget).package,
        manifest: "base/manifest/AndroidManifest.xml",
        texts: files.data("base/resources.pb").map {
          try ProtocolBuffer($0, budget).resourceTexts(Self.texts)
        },
        resources: "base/resources.pb", candidates: candidates)
    } else {
      try self.init(ipa: files, candidates: candidates)
    }
  }

  /// The texts that are looked for among an Android app's resources.
  private static let texts: Set<Name> = [
    "nc_push_server_url", "push_server_url", "nextcloud_user_agent", "project_id", "gcm_defaultSenderId",
    "google_app_id",
  ]

  private init?(
    android files: AppFiles, package: Name?, manifest: Name, texts: [Name: Name]?, resources: Name,
    candidates: Candidates
  ) throws {
    let code = files.names(ending: "/libapp.so")
    let texts = texts ?? [:]
    let proxy = (["nc_push_server_url", "push_server_url"] as [Name]).first { texts[$0] != nil }
    if let code = code.first {
      self.init(.zulip, files.budget)
      try searchZulip(files, code, candidates)
    } else if let proxy {
      self.init(proxy.hasPrefix("nc_") ? .talk : .files, files.budget)
    } else {
      return nil
    }
    if let package {
      try add(.applicationID, [Value(package, file: manifest, line: nil)])
    } else {
      try miss(.applicationID, "\(manifest.text) cannot be read")
    }
    if let fingerprint = try AndroidSigning.fingerprint(files) {
      try add(.certificate, [Value(text: fingerprint, file: "", line: nil)])
    }
    let members: [(Aspect, Name)] = [
      (.proxy, proxy ?? ""), (.firebaseProject, "project_id"),
      (.firebaseNumber, "gcm_defaultSenderId"), (.firebaseApp, "google_app_id"),
      (.firebaseKey, "google_api_key"),
    ]
    for (aspect, name) in members {
      if let text = texts[name] { try add(aspect, [Value(text, file: resources + ", " + name, line: nil)]) }
    }
    if let agent = texts["nextcloud_user_agent"] {
      let text = Self.userAgent(agent.text, brand: texts["name_for_branded_user_agent"]?.text ?? "")
      try add(.userAgent, [Value(text: text, file: resources + ", nextcloud_user_agent", line: nil)])
    }
    if product != .zulip, self[.firebaseProject].isEmpty {
      try miss(
        .firebaseProject,
        "\(resources.text) has no text project_id: a build without push, or one that cannot be read")
    }
  }

  private init?(ipa files: AppFiles, candidates: Candidates) throws {
    guard let info = files.names(ending: ".app/Info.plist").first(where: Self.isOfApp) else { return nil }
    let app = info.folder
    let plist = try files.data(info).flatMap { try PropertyList.read($0, files.budget) }
    let executable = app + (plist?["CFBundleExecutable"]?.text ?? "")
    let flutter = app + "Frameworks/App.framework/App"
    if files.has(flutter) {
      self.init(.zulip, files.budget)
      try searchZulip(files, flutter, candidates)
    } else {
      let kinds: [(name: Name, product: Product)] = [("NCAppBranding", .talk), ("NCBrandOptions", .files)]
      let proxies = candidates.proxies.map { Name($0) }
      guard let found = try files.search(executable, for: kinds.map(\.name) + proxies),
        let kind = kinds.first(where: { found.contains($0.name) })
      else { return nil }
      self.init(kind.product, files.budget)
      try add(.proxy, proxies, found: found, in: executable)
    }
    let extensions = files.names(ending: ".appex/Info.plist").filter {
      $0.hasPrefix(app + "PlugIns/") || $0.hasPrefix(app + "Extensions/")
    }
    for name in [info] + extensions {
      guard let plist = try files.data(name).flatMap({ try PropertyList.read($0, files.budget) }),
        let id = plist["CFBundleIdentifier"]?.value(in: name)
      else {
        try miss(.bundleID, "\(name.text) cannot be read")
        continue
      }
      var part = Part(
        name: id.text, isApp: name == info,
        isNotificationService: plist["NSExtension"]?["NSExtensionPointIdentifier"]?.text
          == "com.apple.usernotifications.service")
      part.bundle = id
      if name == info {
        part.backgroundModes = (name, nil, plist.texts("UIBackgroundModes", in: name))
      }
      part.entitlements = try readProfile(files, name.folder + "embedded.mobileprovision")
      try add(part)
    }
  }

  /// Whether it is `Payload/NAME.app/Info.plist`.
  private static func isOfApp(_ name: Name) -> Bool {
    name.hasPrefix("Payload/") && name.bytes.count { $0 == UInt8(ascii: "/") } == 2
  }

  /// Reads a provisioning profile: a signed message (CMS) with a property list in clear inside.
  private mutating func readProfile(_ files: AppFiles, _ name: Name) throws -> Part.Entitlements {
    let end = Array("</plist>".utf8)
    guard let data = try files.data(name),
      let range = data.withUnsafeBytes({ bytes -> Range<Int>? in
        guard let start = bytes.first(Array("<?xml".utf8)),
          let length = UnsafeRawBufferPointer(rebasing: bytes[start...]).first(end)
        else { return nil }
        return start..<start + length + end.count
      }),
      let profile = try PropertyList.read(
        data[data.startIndex + range.lowerBound..<data.startIndex + range.upperBound], files.budget)
    else {
      try miss(.entitledGroup, "\(name.text) cannot be read; builds from the App Store have none")
      return .unreadable
    }
    // A profile is binary, so that its lines say nothing.
    func placed(_ value: Value) -> Value { Value(text: value.text, file: name, line: nil) }
    try add(.team, profile.texts("TeamIdentifier", in: name).prefix(1).map(placed))
    return try profile["Entitlements"].map { try entitlements($0, file: name, resolve: placed) }
      ?? .unreadable
  }

  /// One processor's code says what all do.
  private mutating func searchZulip(_ files: AppFiles, _ code: Name, _ candidates: Candidates) throws {
    let keys = candidates.bouncerKeys.map { Name($0) }
    let projects = candidates.firebaseProjects.map { Name($0) }
    let found = try files.search(code, for: keys + projects) ?? []
    try add(.bouncerKey, keys, found: found, in: code)
    try add(.firebaseProject, projects, found: found, in: code)
  }

  private mutating func add(_ aspect: Aspect, _ candidates: [Name], found: Set<Name>, in code: Name) throws {
    let values = candidates.filter(found.contains).filter { text in
      // The address of a proxy is the beginning of the same with a slash.
      !candidates.contains { $0 != text && $0.hasPrefix(text) && found.contains($0) }
    }
    try add(aspect, values.map { Value($0, file: code, line: nil) })
    if values.isEmpty {
      try miss(
        aspect, "\(code.text): the compiled code contains neither this service's nor the vendor's")
    }
  }
}
