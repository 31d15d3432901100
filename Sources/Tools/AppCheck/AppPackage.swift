import Foundation
import Platform

/// Reads built packages by their tables: an IPA by its property lists, signatures and provisioning profiles, an APK or AAB
/// by its manifest and resources, and both by the texts that their compiled code contains.
struct PackageReader {
  let files: AppFiles
  let service: AppCheck.Service

  /// - Returns: nil if it is no package of an app that is known.
  func facts() throws -> AppFacts? {
    let (apk, bundle): (Name, Name) = ("AndroidManifest.xml", "base/manifest/AndroidManifest.xml")
    if let manifest = try files.data(apk) {
      return try android(
        manifest, apk, package: APK.package(of: manifest, files.budget), "resources.arsc")
    }
    if let manifest = try files.data(bundle) {
      return try android(
        manifest, bundle, package: ProtocolBuffer(manifest, files.budget).package, "base/resources.pb")
    }
    return try ipa()
  }

  // MARK: Android

  private func android(_ manifest: Data, _ name: Name, package: Name?, _ resources: Name) throws -> AppFacts?
  {
    let budget = files.budget
    let tables = [AppTable.talkForAndroid, .filesForAndroid]
    let names = Set(tables.flatMap { $0.rows.compactMap(\.resource) } + ["name_for_branded_user_agent"])
    let texts = try files.data(resources).flatMap { data in
      resources.hasSuffix(".pb")
        ? try ProtocolBuffer(data, budget).resourceTexts(names) : try APK.texts(names, in: data, budget)
    }
    let code = files.names(ending: "/libapp.so").first
    let known =
      code != nil
      ? .zulipForAndroid
      : tables.first { table in texts?.contains { $0.name == table.rows[0].resource } ?? false }
    guard let table = known else {
      if texts == nil { try files.miss("cannot be read as resources", resources) }
      return nil
    }
    var facts = AppFacts(table, files)
    if let package {
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
    func has(_ text: Name) -> Bool {
      // An APK's texts may be in UTF-16.
      manifest.has(text) || manifest.has(Name(text.bytes.flatMap { [$0, 0] }))
    }
    if let package, !has(SourceReader.messaging) {
      facts.rows = []
      if !has(SourceReader.unifiedPush) { try facts.add(.messaging, [Value(package, file: name)]) }
    }
    let brand = texts?.first { $0.name == "name_for_branded_user_agent" }?.text?.text ?? ""
    for row in facts.rows {
      guard let member = row.resource else { continue }
      let found = (texts ?? []).filter { $0.name == member }.sorted { $0.isDefault && !$1.isDefault }
      try facts.add(
        row.aspect, member, found.map { $0.text.map { Value($0, file: resources) } }, brand: brand,
        in: resources)
      if found.contains(where: { $0.text == nil }) {
        try files.miss(row.aspect, "\(member.text) is no plain text", Value("", file: resources))
      }
    }
    try readCode(&facts, files.names(ending: ".dex"), isDart: false)
    return facts
  }

  // MARK: iOS

  private func ipa() throws -> AppFacts? {
    let infos = files.names(ending: ".app/Info.plist")
    // `Payload/NAME.app/Info.plist`
    guard let info = infos.first(where: { $0.hasPrefix("Payload/") && $0.bytes.count { $0 == "/" } == 2 })
    else { return nil }
    let app = info.folder
    let plist = try files.data(info).flatMap { try PropertyList.read($0, files.budget) }
    let executable = app + (plist?["CFBundleExecutable"]?.text ?? Name(app.bytes.dropLast(5)).last)
    let flutter = app + "Frameworks/App.framework/App"
    let isDart = files.has(flutter)
    var (isTalk, isFiles) = (false, false)
    if !isDart {
      _ = try files.texts(executable) { text in
        isTalk = isTalk || text.has("NCAppBranding")
        isFiles = isFiles || text.has("NCBrandOptions")
      }
    }
    guard isDart || isTalk || isFiles else { return nil }
    var facts = AppFacts(isDart ? .zulipForIOS : isTalk ? .talkForIOS : .filesForIOS, files)
    let extensions = files.names(ending: ".appex/Info.plist").filter {
      $0.hasPrefix(app + "PlugIns/") || $0.hasPrefix(app + "Extensions/")
    }
    facts.project = info
    for name in [info] + extensions { try readPart(&facts, name, isApp: name == info) }
    try readCode(&facts, [isDart ? flutter : executable], isDart: isDart)
    if facts[.team].isEmpty { try files.miss(.team, "neither signature nor profile says it") }
    return facts
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

  // MARK: Code

  /// Finds what the rows look for in the code among its texts. One processor's code says what all do.
  private func readCode(_ facts: inout AppFacts, _ names: [Name], isDart: Bool) throws {
    let rows = facts.rows.filter(\.isInCode)
    guard !rows.isEmpty else { return }
    let aspects = Set(rows.map(\.aspect))
    var found: [Aspect: Set<Name>] = [:]
    let addresses = Set([service.address].compactMap(\.self))
    let hosts = Set((addresses + [Vendor.proxy]).compactMap(Self.host))
    var isRead = !names.isEmpty
    for name in names {
      isRead =
        try files.texts(name) { text in
          for aspect in aspects {
            found[aspect, default: []].formUnion(words(of: aspect, in: text, isDart, hosts))
          }
        } && isRead
    }
    let file = names.first ?? "classes.dex"
    let groups = Set(facts.parts.flatMap(\.groups).map(\.text)).subtracting(Vendor.groups)
    let expected = Expectation(app: facts, service: service, isPackage: true)
    for row in rows where row.unless == nil && facts[row.aspect].isEmpty {
      let all = (found[row.aspect] ?? []).sorted()
      // The code has other texts of this form: what is one's own decides, then what is the vendor's.
      let vendors = all.filter { Vendor.owns(row.aspect, $0.text) }
      let others = all.filter { !vendors.contains($0) }
      let own = others.filter { text in
        row.aspect == .group
          ? groups.contains(text.text)
          : row.aspect.judge(Value(text, file: file), expected).standing == .good
      }
      // Beside the vendor's key or group others of its form may be of something else.
      let rest = [.bouncerKey, .group].contains(row.aspect) ? [vendors, others] : [others, vendors]
      var values = ([own] + rest).first { !$0.isEmpty } ?? []
      // A short text of Swift is no text of the compiled code.
      let known = row.aspect == .group ? groups : row.aspect == .proxy ? addresses : []
      if own.isEmpty, !isDart, known.contains(where: { $0.utf8.count < 16 }) { values = [] }
      try facts.add(row.aspect, values.map { Value($0, file: file) })
      if values.isEmpty {
        try files.miss(
          row.aspect,
          isRead
            ? "the compiled code contains neither this service's nor the vendor's"
            : "the compiled code cannot be read", Value("", file: file))
      }
    }
  }

  /// The texts of an aspect's form in a text of the code, whole.
  ///
  /// - Parameter hosts: those of the push proxies that are looked for.
  private func words(of aspect: Aspect, in text: [UInt8], _ isDart: Bool, _ hosts: Set<String>) -> [Name] {
    func words(
      with parts: [Name], of isPart: (UInt8) -> Bool, where isWanted: (Name) -> Bool
    ) -> [Name] {
      parts.contains(where: text.has) ? text.split { !isPart($0) }.map { Name($0) }.filter(isWanted) : []
    }
    func isURL(_ byte: UInt8) -> Bool {
      byte > 0x20 && byte < 0x7F && !"\"'<>()[]{}|\\^`,;".utf8.contains(byte)
    }
    switch aspect {
    case .bouncerKey:
      return words(with: ["="], of: { $0.isWord && $0 != "_" || "+/=".utf8.contains($0) }) {
        $0.bytes.count == 44 && $0.bytes.last == "=" && $0.bytes[42] != "="
      }
    case .proxy:
      return words(with: hosts.map { Name($0) }, of: isURL) {
        Self.host($0.text).map(hosts.contains) ?? false
      }
    case .firebaseProject:
      let names = (service.projects + Vendor.projects).map { Name($0) }
      let words = words(with: names, of: { $0.isWord || $0 == "-" }) { _ in true }
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
      return words(with: [platform], of: { $0.isWord || $0 == ":" }) {
        $0.hasPrefix("1:") && $0.contains(platform)
      }
    case .firebaseKey:
      return words(with: ["AIza"], of: { $0.isWord || $0 == "-" }) { $0.hasPrefix("AIza") }
    case .group:
      return words(with: ["group."], of: \.isInIdentifier) {
        $0.hasPrefix("group.") && $0.bytes.count { $0 == "." } > 2
      }
    case .userAgent:
      let agents: [Name] = ["Mozilla/5.0 (Android) ", "Mozilla/5.0 (iOS) "]
      return agents.compactMap(text.position).map { Name(text[$0...]) }
    default: return []
    }
  }

  /// The host of an address in small letters; nil if it is none.
  private static func host(_ address: String) -> String? { URL(string: address)?.host()?.lowercased() }
}
