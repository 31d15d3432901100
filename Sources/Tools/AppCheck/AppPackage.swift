internal import Foundation
internal import NextcloudProxy

/// Reads built packages by their tables: an IPA by its property lists, signatures and provisioning profiles, an APK or AAB
/// by its manifest and resources, and both by the texts that their compiled code contains.
extension AppFacts {
  /// - Returns: nil if it is no package of an app that is known.
  init?(package files: AppFiles, for service: AppCheck.Service) throws {
    var reader = PackageReader(files, service)
    guard let facts = try reader.read() else { return nil }
    self = facts
  }
}

private struct PackageReader {
  let files: AppFiles
  let service: AppCheck.Service

  init(_ files: AppFiles, _ service: AppCheck.Service) { (self.files, self.service) = (files, service) }

  mutating func read() throws -> AppFacts? {
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
      if texts == nil { files.note("cannot be read as resources", resources) }
      return nil
    }
    var facts = AppFacts(table, for: .android, files.budget)
    if let package = manifest?.package {
      try facts.add(.applicationID, [Value(package, file: name, line: nil)])
    } else {
      try facts.miss(.applicationID, "\(name.text) cannot be read")
    }
    try readSignature(&facts)
    if let code {
      try readCode(&facts, [code], isDart: true)
      return facts
    }
    if let manifest, !manifest.has(SourceReader.messaging) {
      facts.rows.removeAll { $0.platform == .android }
      if !manifest.has(SourceReader.unifiedPush) {
        try facts.add(.messaging, [Value(manifest.package ?? "the app", file: name, line: nil)])
      }
    }
    let brand = texts?.first { $0.name == "name_for_branded_user_agent" }?.text?.text ?? ""
    for row in facts.rows {
      guard let member = row.package?.resource else { continue }
      let found = (texts ?? []).filter { $0.name == member }.sorted { $0.isDefault && !$1.isDefault }
      for text in found {
        guard let text = text.text else {
          try facts.miss(row.aspect, "\(member.text) is no plain text", file: resources)
          continue
        }
        let made = row.aspect == .userAgent ? Name(AppFacts.userAgent(text.text, brand: brand)) : text
        try facts.add(row.aspect, [Value(made, file: resources, line: nil, member: member)])
      }
      if found.isEmpty { try facts.lack(row, member, in: resources) }
    }
    if facts.rows.contains(where: { $0.aspect == .userAgent && $0.package?.resource == nil }) {
      try readCode(&facts, files.names(ending: ".dex"), isDart: false)
    }
    return facts
  }

  private func readSignature(_ facts: inout AppFacts) throws {
    if let (fingerprint, isDebug) = try AndroidSigning.certificate(files) {
      var value = Value(text: fingerprint, file: "", line: nil)
      value.member = isDebug ? "debug" : nil
      try facts.add(.certificate, [value])
    } else {
      try facts.add(.certificate, [Value("", file: "", line: nil, member: "unsigned")])
    }
  }

  // MARK: iOS

  private mutating func ipa() throws -> AppFacts? {
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
        for (name, _) in tables where text.withUnsafeBytes({ $0.first(name.bytes) != nil }) {
          kinds.insert(name)
        }
      }
    }
    guard let table = files.has(flutter) ? .zulip : tables.first(where: { kinds.contains($0.name) })?.table
    else { return nil }
    var facts = AppFacts(table, for: .ios, files.budget)
    let extensions = files.names(ending: ".appex/Info.plist").filter {
      $0.hasPrefix(app + "PlugIns/") || $0.hasPrefix(app + "Extensions/")
    }
    facts.project = info
    for name in [info] + extensions { try readPart(&facts, name, isApp: name == info) }
    try readCode(&facts, files.has(flutter) ? [flutter] : [executable], isDart: files.has(flutter))
    if facts.isSilent(.team) { try facts.miss(.team, "neither signature nor profile says it") }
    return facts
  }

  /// Whether it is `Payload/NAME.app/Info.plist`.
  private static func isOfApp(_ name: Name) -> Bool {
    name.hasPrefix("Payload/") && name.bytes.count { $0 == "/" } == 2
  }

  private func readPart(_ facts: inout AppFacts, _ name: Name, isApp: Bool) throws {
    guard let plist = try files.data(name).flatMap({ try PropertyList.read($0, files.budget) }),
      let id = plist["CFBundleIdentifier"]?.value(in: name)
    else { return try facts.miss(.bundleID, "there is no CFBundleIdentifier that can be read", file: name) }
    var part = AppFacts.Part(name: id.text, isApp: isApp)
    part.bundle = id
    let kind = plist["NSExtension"] ?? plist["EXAppExtensionAttributes"]
    part.point = (kind?["NSExtensionPointIdentifier"] ?? kind?["EXExtensionPointIdentifier"])?.value(in: name)
    if isApp {
      part.backgroundModes = (Value("", file: name, line: nil), plist.texts("UIBackgroundModes", in: name))
    }
    part.needsEntitlements = isApp || part.isNotificationService || facts.product == .talk
    let code = name.folder + (plist["CFBundleExecutable"]?.text ?? "")
    part.entitlements =
      try signature(&facts, code) ?? profile(&facts, name.folder + "embedded.mobileprovision", isApp)
    try facts.add(part)
  }

  /// What a property list in clear inside other data says; nil if there is none.
  private func list(in data: some Collection<UInt8>) throws -> PropertyList? {
    let bytes = Array(data)
    let range = bytes.withUnsafeBytes { bytes -> Range<Int>? in
      guard let start = bytes.first(Array("<plist".utf8)),
        let length = UnsafeRawBufferPointer(rebasing: bytes[start...]).first(Array("</plist>".utf8))
      else { return nil }
      return start..<start + length + 8
    }
    return try range.flatMap { try PropertyList.read(Data(bytes[$0]), files.budget) }
  }

  /// What the signature in the code allows, which is in it as a property list; nil if there is none.
  private func signature(_ facts: inout AppFacts, _ code: Name) throws -> AppFacts.Part.Entitlements? {
    var found: PropertyList?
    guard files.has(code) else { return nil }
    _ = try files.texts(code) { text in
      guard text.count < 65_536, text.withUnsafeBytes({ $0.first(Array("<plist".utf8)) != nil }),
        let list = try list(in: text),
        list["application-identifier"] != nil || list["aps-environment"] != nil
          || list["com.apple.security.application-groups"] != nil
      else { return }
      found = list
    }
    guard let found else { return nil }
    let team = found["com.apple.developer.team-identifier"]?.text
    try facts.add(.team, team.map { [Value($0, file: code, line: nil)] } ?? [])
    return try facts.entitlements(found, file: code) { Value(text: $0.text, file: code, line: nil) }
  }

  /// Reads a provisioning profile: a signed message (CMS) with a property list in clear inside.
  private func profile(_ facts: inout AppFacts, _ name: Name, _ isApp: Bool) throws
    -> AppFacts.Part.Entitlements
  {
    guard let profile = try files.data(name).flatMap({ try list(in: $0) }),
      let allowed = profile["Entitlements"]
    else {
      try facts.miss(.entitledGroup, "neither the signature in the code nor \(name.text) can be read")
      if isApp {
        try facts.miss(.environment, "neither the signature in the code nor \(name.text) can be read")
      }
      return .unreadable
    }
    // A profile is binary, so that its lines say nothing.
    func placed(_ value: Value) -> Value { Value(text: value.text, file: name, line: nil) }
    try facts.add(.team, profile.texts("TeamIdentifier", in: name).prefix(1).map(placed))
    return try facts.entitlements(allowed, file: name, resolve: placed)
  }

  // MARK: Code

  /// Finds what the rows look for in the code among its texts. One processor's code says what all do.
  private func readCode(_ facts: inout AppFacts, _ names: [Name], isDart: Bool) throws {
    var found: [Aspect: Set<Name>] = [:]
    let aspects = Set(facts.rows.filter { $0.package?.isCode ?? false }.map(\.aspect))
    var isRead = !names.isEmpty
    for name in names {
      isRead =
        try files.texts(name) { text in
          for aspect in aspects {
            for word in words(of: aspect, in: text, isDart) { found[aspect, default: []].insert(word) }
          }
        } && isRead
    }
    let file = names.first ?? "classes.dex"
    for row in facts.rows where row.isNeeded && (row.package?.isCode ?? false) && facts[row.aspect].isEmpty {
      let all = (found[row.aspect] ?? []).sorted()
      // The code has other texts of this form: what is one's own decides, then what is the vendor's.
      let vendors = all.filter { Vendor.owns(row.aspect, $0.text) }
      let others = all.filter { !vendors.contains($0) }
      let own = all.filter { isOwn($0, row.aspect, facts) }
      var values =
        [own, Self.isDecisive(row.aspect) ? [] : others, vendors, others].first { !$0.isEmpty } ?? []
      // A short text of Swift is no text of the compiled code.
      if own.isEmpty, !isDart, isShort(row.aspect, facts) { values = [] }
      let member: Name? = row.aspect == .firebaseForIOS ? "appId" : nil
      try facts.add(row.aspect, values.map { Value($0, file: file, line: nil, member: member) })
      if values.isEmpty {
        try facts.miss(
          row.aspect,
          isRead
            ? "the compiled code contains neither this service's nor the vendor's"
            : "the compiled code cannot be read", file: file)
      }
    }
  }

  /// Whether the vendor's text is the one that counts beside others of its form: these may be of something else.
  private static func isDecisive(_ aspect: Aspect) -> Bool { [.bouncerKey, .group].contains(aspect) }

  private func isOwn(_ text: Name, _ aspect: Aspect, _ facts: AppFacts) -> Bool {
    switch aspect {
    case .bouncerKey: service.keys.contains { $0.text == text.text }
    case .proxy: service.address.map { Vendor.plain($0) == Vendor.plain(text.text) } ?? false
    case .firebaseProject: service.projects.contains(text.text)
    case .group:
      facts.parts.contains { $0.groups.contains { $0.text == text.text && !Vendor.owns(.group, $0.text) } }
    case .userAgent: service.apps.app(of: [text.text]) != nil
    default: false
    }
  }

  private func isShort(_ aspect: Aspect, _ facts: AppFacts) -> Bool {
    switch aspect {
    case .proxy: service.address.map { $0.utf8.count < 16 } ?? false
    case .group: facts.parts.contains { $0.groups.contains { $0.text.utf8.count < 16 } }
    default: false
    }
  }

  /// The texts of an aspect's form in a text of the code, whole.
  private func words(of aspect: Aspect, in text: [UInt8], _ isDart: Bool) -> [Name] {
    func has(_ part: Name) -> Bool { text.withUnsafeBytes { $0.first(part.bytes) != nil } }
    func words(_ isPart: (UInt8) -> Bool) -> [Name] { text.split { !isPart($0) }.map { Name($0) } }
    func isURL(_ byte: UInt8) -> Bool {
      byte > 0x20 && byte < 0x7F && !"\"'<>()[]{}|\\^`,;".utf8.contains(byte)
    }
    switch aspect {
    case .bouncerKey:
      guard text.contains("=") else { return [] }
      return words { $0.isWord && $0 != "_" || "+/=".utf8.contains($0) }.filter {
        $0.bytes.count == 44 && $0.bytes.last == "=" && $0.bytes[42] != "="
      }
    case .proxy:
      let hosts = [service.address, Vendor.proxy].compactMap { $0.flatMap(Self.host) }
      guard hosts.contains(where: { has(Name($0)) }) else { return [] }
      return words(isURL).filter { word in hosts.contains { Self.host(word.text) == $0 } }
    case .firebaseProject:
      let names = service.projects.map { Name($0) } + Vendor.projects.map { Name($0) }
      let words = words { $0.isWord || $0 == "-" }
      return names.filter { name in
        words.contains { word in
          // The next object may follow such a text of Dart's without a gap.
          word == name
            || (isDart && name.bytes.count % 8 == 0 && word.hasPrefix(name)
              && word.bytes.count < name.bytes.count + 8)
        }
      }
    case .firebaseApp, .firebaseForIOS:
      let platform: Name = aspect == .firebaseApp ? ":android:" : ":ios:"
      guard has(platform) else { return [] }
      return words { $0.isWord || $0 == ":" }.filter { $0.hasPrefix("1:") && $0.contains(platform) }
    case .firebaseKey:
      guard has("AIza") else { return [] }
      return words { $0.isWord || $0 == "-" }.filter { $0.hasPrefix("AIza") }
    case .group:
      guard has("group.") else { return [] }
      return words(\.isInIdentifier).filter { $0.hasPrefix("group.") && $0.bytes.count { $0 == "." } > 2 }
    case .userAgent:
      let start = "Mozilla/5.0 (" as Name
      guard let place = text.withUnsafeBytes({ $0.first(start.bytes) }) else { return [] }
      let found = Name(text[place...])
      return found.hasPrefix("Mozilla/5.0 (Android) ") || found.hasPrefix("Mozilla/5.0 (iOS) ") ? [found] : []
    default: return []
    }
  }

  /// The host of an address in small letters; nil if it is none.
  private static func host(_ address: String) -> String? {
    guard let scheme = address.range(of: "://") else { return nil }
    let rest = address[scheme.upperBound...].utf8
    return String(decoding: rest.prefix { $0 != "/" && $0 != ":" }, as: UTF8.self).lowercased()
  }
}
