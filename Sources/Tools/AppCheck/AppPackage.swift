internal import Foundation
internal import NextcloudProxy

/// Reads built packages by their tables: an IPA by its property lists, signatures and provisioning profiles, an APK or AAB
/// by its manifest and resources, and both by the texts that their compiled code contains.
struct PackageReader {
  let files: AppFiles
  let service: AppCheck.Service

  /// - Returns: nil if it is no package of an app that is known.
  func facts() throws -> AppFacts? {
    let budget = files.budget
    if let manifest = try files.data("AndroidManifest.xml") {
      return try android(BinaryXML(manifest, budget), "AndroidManifest.xml", "resources.arsc") {
        try ResourceTable.texts($0, in: $1, budget)
      }
    }
    if let manifest = try files.data("base/manifest/AndroidManifest.xml") {
      return try android(
        .init(ProtocolBuffer(manifest, budget), manifest), "base/manifest/AndroidManifest.xml",
        "base/resources.pb"
      ) { try ProtocolBuffer($1, budget).resourceTexts($0) }
    }
    return try ipa()
  }

  // MARK: Android

  private func android(
    _ manifest: BinaryXML?, _ name: Name, _ resources: Name,
    _ read: (Set<Name>, Data) throws -> [ResourceText]?
  ) throws -> AppFacts? {
    let tables = [AppTable.talkForAndroid, .filesForAndroid]
    let names = Set(
      tables.flatMap { $0.rows.compactMap { $0.package?.resource } } + ["name_for_branded_user_agent"])
    let data = try files.data(resources)
    let texts = try data.flatMap { try read(names, $0) }
    let code = files.names(ending: "/libapp.so").first
    let known =
      code != nil
      ? .zulip
      : tables.first { table in texts?.contains { $0.name == table.rows[0].package?.resource } ?? false }
    guard let table = known else {
      if texts == nil { try files.miss("cannot be read as resources", resources) }
      return nil
    }
    var facts = AppFacts(table, for: .android, files)
    if let package = manifest?.package {
      try facts.add(.applicationID, [Value(package, file: name)])
    } else {
      try files.miss(.applicationID, "\(name.text) cannot be read")
    }
    if let (fingerprint, isDebug) = try AndroidSigning.certificate(files) {
      try facts.add(.certificate, [Value(Name(fingerprint), file: "", member: isDebug ? "debug" : nil)])
    } else {
      try facts.lack(.certificate, "signature", Value("", file: ""))
    }
    if let code {
      try readCode(&facts, [code], isDart: true)
      return facts
    }
    if let manifest, !manifest.has(SourceReader.messaging) {
      facts.rows.removeAll { $0.platform == .android }
      if !manifest.has(SourceReader.unifiedPush) {
        try facts.add(.messaging, [Value(manifest.package ?? "the app", file: name)])
      }
    }
    let brand = texts?.first { $0.name == "name_for_branded_user_agent" }?.text?.text ?? ""
    for row in facts.rows {
      guard let member = row.package?.resource else { continue }
      let found = (texts ?? []).filter { $0.name == member }.sorted { $0.isDefault && !$1.isDefault }
      try facts.add(
        row, member, found.map { $0.text.map { Value($0, file: resources) } }, brand: brand, in: resources)
      if found.contains(where: { $0.text == nil }) {
        try files.miss(row.aspect, "\(member.text) is no plain text", Value("", file: resources))
      }
    }
    if facts.rows.contains(where: { $0.aspect == .userAgent && $0.package?.resource == nil }) {
      try readCode(&facts, files.names(ending: ".dex"), isDart: false)
    }
    return facts
  }

  // MARK: iOS

  private func ipa() throws -> AppFacts? {
    guard let info = files.names(ending: ".app/Info.plist").first(where: Self.isOfApp) else { return nil }
    let app = info.folder
    let plist = try files.data(info).flatMap { try PropertyList.read($0, files.budget) }
    let executable = app + (plist?["CFBundleExecutable"]?.text ?? Name(app.bytes.dropLast(5)).last)
    let flutter = app + "Frameworks/App.framework/App"
    var kinds: Set<Name> = []
    let tables: [(name: Name, table: AppTable)] = [
      ("NCAppBranding", .talkForIOS), ("NCBrandOptions", .filesForIOS),
    ]
    if !files.has(flutter) {
      _ = try files.texts(executable) { text in
        kinds.formUnion(tables.map(\.name).filter(text.has))
      }
    }
    guard let table = files.has(flutter) ? .zulip : tables.first(where: { kinds.contains($0.name) })?.table
    else { return nil }
    var facts = AppFacts(table, for: .ios, files)
    let extensions = files.names(ending: ".appex/Info.plist").filter {
      $0.hasPrefix(app + "PlugIns/") || $0.hasPrefix(app + "Extensions/")
    }
    facts.project = info
    for name in [info] + extensions { try readPart(&facts, name, isApp: name == info) }
    try readCode(&facts, files.has(flutter) ? [flutter] : [executable], isDart: files.has(flutter))
    if facts[.team].isEmpty { try files.miss(.team, "neither signature nor profile says it") }
    return facts
  }

  /// Whether it is `Payload/NAME.app/Info.plist`.
  private static func isOfApp(_ name: Name) -> Bool {
    name.hasPrefix("Payload/") && name.bytes.count { $0 == "/" } == 2
  }

  private func readPart(_ facts: inout AppFacts, _ name: Name, isApp: Bool) throws {
    guard let plist = try files.data(name).flatMap({ try PropertyList.read($0, files.budget) }),
      let id = plist["CFBundleIdentifier"]?.value(in: name)
    else {
      return try files.miss(
        .bundleID, "there is no CFBundleIdentifier that can be read", Value("", file: name))
    }
    var part = AppFacts.Part(name: id.text, isApp: isApp)
    part.bundle = id
    part.point = plist["NSExtension"]?["NSExtensionPointIdentifier"]?.value(in: name)
    if isApp {
      part.backgroundModes = (Value("", file: name), plist.texts("UIBackgroundModes", in: name))
    }
    part.needsEntitlements = isApp || part.isNotificationService || facts.product == .talk
    part.entitlements = try entitlements(
      &facts, name.folder + (plist["CFBundleExecutable"]?.text ?? ""),
      name.folder + "embedded.mobileprovision", isApp)
    try facts.add(part)
  }

  /// What the signature in the code allows, or else the provisioning profile: both have a property list in clear inside.
  private func entitlements(_ facts: inout AppFacts, _ code: Name, _ profile: Name, _ isApp: Bool) throws
    -> AppFacts.Part.Entitlements
  {
    var (file, found): (Name, PropertyList?) = (code, nil)
    _ = try files.texts(code) { text in
      guard text.count < 65_536, let list = try list(in: text) else { return }
      let keys: [Name] = [
        "application-identifier", "aps-environment", "com.apple.security.application-groups",
      ]
      if keys.contains(where: { list[$0] != nil }) { found = list }
    }
    var team = found?["com.apple.developer.team-identifier"]
    if found == nil, let list = try files.data(profile).flatMap({ try list(in: Array($0)) }) {
      (file, found, team) = (profile, list["Entitlements"], list["TeamIdentifier"]?.list.first)
    }
    guard let found else {
      for aspect in isApp ? [Aspect.entitledGroup, .environment] : [.entitledGroup] {
        try files.miss(aspect, "neither the signature in the code nor \(profile.text) can be read")
      }
      return .unreadable
    }
    try facts.add(.team, team?.text.map { [Value($0, file: file)] } ?? [])
    // The file is binary, so that the list's lines say nothing.
    return try facts.entitlements(found, file: file, isApp: isApp) { Value($0.name, file: file) }
  }

  /// The property list in clear inside other data; nil if there is none.
  private func list(in bytes: [UInt8]) throws -> PropertyList? {
    guard let start = bytes.position(of: "<plist"), let length = bytes[start...].position(of: "</plist>")
    else { return nil }
    return try PropertyList.read(Data(bytes[start..<start + length + 8]), files.budget)
  }
}
