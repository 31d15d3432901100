internal import Foundation
internal import NextcloudProxy

extension SourceReader {
  /// Texts among the resources that could make two apps one to Android.
  private static let authorities: Set<Name> = [
    "authority", "document_provider_authority", "file_provider_authority", "image_cache_provider_authority",
    "users_and_groups_search_authority", "account_type",
  ]

  /// What an app's manifest has for notifications by way of Google, and what for those of a UnifiedPush distributor.
  static let (messaging, unifiedPush) = (
    "com.google.firebase.MESSAGING_EVENT" as Name, "org.unifiedpush.android.connector" as Name
  )

  /// - Parameter folder: where the build file lies.
  mutating func readAndroid(_ folder: Name) throws {
    var codes: [Name: Code] = [:]
    guard
      let gradle = try Gradle(
        folder, files,
        { name in
          codes[name] = try code(name)
          return codes[name]
        })
    else {
      let reason = "not found where it was: \(folder.text)build.gradle or build.gradle.kts"
      try facts.miss(.applicationID, reason)
      guard facts.product != .zulip else { return }
      for row in facts.rows where row.aspect != .userAgent {
        try facts.miss(
          row.aspect, "it is unknown which folders of app/src are built, and so which text counts")
      }
      return
    }
    let variant = try gradle.variant(wanted)
    facts.flavor = variant.isEmpty ? nil : Gradle.joined(variant)
    switch gradle.applicationID(of: variant) {
    case .found(let id): try facts.add(.applicationID, [id])
    case .unknown(let file, let line):
      try facts.miss(
        .applicationID, "applicationId is not set to a text literal in the file", file: file, line: line)
    case .missing: try facts.miss(.applicationID, "not found where it was: \(gradle.file.text)")
    }
    guard facts.product != .zulip else { return }
    // A later folder's text comes in the place of an earlier one's.
    let joined = variant.isEmpty ? [] : [Gradle.joined(variant)]
    let sets =
      ["main"] + variant.reversed() + (variant.count > 1 ? joined : []) + ["release"]
      + joined.map { $0 + "Release" }
    try readMessaging(folder, sets)
    try readResources(gradle, folder, sets, variant)
  }

  /// Drops what does not count in a flavour without Google.
  private mutating func readMessaging(_ folder: Name, _ sets: [Name]) throws {
    var found: Set<Name> = []
    var main: Name?
    for name in sets.map({ folder + "src/" + $0 + "/AndroidManifest.xml" }) {
      guard let data = try files.data(name) else { continue }
      main = main ?? name
      var markup = Markup(Array(data), files.budget)
      while let event = try markup.next() {
        guard case .start(_, let attributes, _) = event else { continue }
        for text in [Self.messaging, Self.unifiedPush]
        where attributes.values.contains(where: { $0.hasPrefix(text) }) { found.insert(text) }
      }
      if !markup.isWhole { files.note("ends before what is open in it does", name) }
    }
    guard let main else {
      return try facts.miss(.messaging, "not found where it was: \(folder.text)src/main/AndroidManifest.xml")
    }
    if !found.contains(Self.messaging) {
      facts.rows.removeAll { $0.platform == .android }
      if found.isEmpty {
        try facts.add(.messaging, [Value(facts.flavor ?? "the app", file: main, line: nil)])
      }
    }
  }

  private mutating func readResources(_ gradle: Gradle, _ folder: Name, _ sets: [Name], _ variant: [Name])
    throws
  {
    var wanted = Self.authorities.union(["name_for_branded_user_agent"])
    for row in facts.rows { if case .resource(let name) = row.source { wanted.insert(name) } }
    // Each text with its rank; nil if the build works it out.
    var texts: [Name: [(rank: Int, isDefault: Bool, value: Value?)]] = [:]
    for set in sets { files.look(into: folder + "src/" + set + "/res/") }
    let places =
      sets.enumerated().map { ($0, folder + "src/" + $1 + "/res/") }
      + gradle.resources.compactMap { added in sets.firstIndex(of: added.set).map { ($0, added.folder) } }
    for (rank, place) in places {
      for name in files.names(ending: ".xml") where name.hasPrefix(place + "values") {
        let kind = Name(name.bytes.dropFirst(place.bytes.count).prefix { $0 != "/" })
        guard kind == "values" || kind.hasPrefix("values-"), let data = try files.data(name),
          // Most are translations, and have none of these texts.
          !Name(data.suffix(40)).trimmed.hasSuffix("</resources>")
            || data.withUnsafeBytes({ bytes in
              wanted.contains { bytes.first($0.bytes) != nil } || bytes.first(Array("@string/".utf8)) != nil
            })
        else { continue }
        let found = try AndroidTexts(Array(data), file: name, files.budget)
        if !found.isWhole { files.note("ends before what is open in it does", name) }
        for (key, value) in found.texts { texts[key, default: []].append((rank, kind == "values", value)) }
      }
    }
    for text in gradle.texts
    where ["defaultConfig", "release"].contains(text.block) || variant.contains(text.block) {
      texts[text.name, default: []].append((sets.count, true, text.value))
      guard text.value == nil, let row = facts.rows.first(where: { $0.source.resource == text.name }) else {
        continue
      }
      try facts.miss(
        row.aspect, "resValue does not set \(text.name.text) to a text literal", file: text.place.file,
        line: text.place.line)
    }
    try readGoogleServices(gradle, folder, sets) { texts[$0, default: []].append((sets.count, true, $1)) }

    /// What the app has of a text: that of the last folder, and those for single languages or devices.
    func values(_ key: Name, depth: Int = 0) -> [Value?] {
      let all = texts[key] ?? []
      let last = all.filter(\.isDefault).map(\.rank).max()
      return all.filter { !$0.isDefault || $0.rank == last }.sorted { $0.isDefault && !$1.isDefault }.flatMap
      { text in
        guard let value = text.value, value.text.hasPrefix("@string/"), depth < 4 else { return [text.value] }
        let named = values(Name(value.text.dropFirst(8).utf8), depth: depth + 1)
        return named.isEmpty ? [value] : named
      }
    }
    let rows = facts.rows.compactMap { row in row.source.resource.map { (row, $0) } }
    let place = rows.flatMap { values($0.1) }.compactMap(\.self).last?.file
    let brand = values("name_for_branded_user_agent").compactMap(\.self).first?.text ?? ""
    for (row, key) in rows {
      let found = values(key)
      for case let value? in found {
        let text = row.aspect == .userAgent ? AppFacts.userAgent(value.text, brand: brand) : value.text
        var made = Value(text: text, file: value.file, line: value.line)
        made.member = key.text
        try facts.add(row.aspect, [made])
      }
      guard found.isEmpty else { continue }
      if let place, row.aspect != .userAgent {
        try facts.lack(row, key, in: place)
      } else {
        try facts.miss(
          row.aspect, "not found where it was: \(key.text) in res/values/setup.xml under app/src")
      }
    }
    for key in Self.authorities.sorted() {
      for case let value? in values(key) where Self.isVendors(value.text) {
        try facts.add(.leftover, [value])
      }
    }
  }

  private static func isVendors(_ name: String) -> Bool {
    name == "nextcloud" || name == "org.nextcloud" || name.hasPrefix("org.nextcloud.")
      || Vendor.name(of: name) != nil
  }

  /// Reads `google-services.json` if the build does.
  private mutating func readGoogleServices(
    _ gradle: Gradle, _ folder: Name, _ sets: [Name], _ add: (Name, Value) -> Void
  ) throws {
    guard let applied = gradle.googleServices else {
      facts.unusedGoogleServices = files.names(ending: "/google-services.json").first { $0.hasPrefix(folder) }
      return
    }
    let places =
      sets.reversed().map { folder + "src/" + $0 + "/google-services.json" } + [
        folder + "google-services.json"
      ]
    guard let name = places.first(where: files.has), let code = try code(name) else {
      return try facts.miss(
        .firebaseProject, "the build reads a google-services.json, and there is none", file: applied.file,
        line: applied.line)
    }
    let id = facts[.applicationID].first?.text
    var (app, isKnown): (Int?, Bool) = (nil, false)
    func value(_ index: Int) -> Value { Value(code[index], file: name, line: code.line(index)) }
    for index in code.tokens.indices where code.kind(index) == .text && code[mark: index + 1] == ":" {
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
    if !isKnown, id != nil { facts.unknownClient = Value("", file: name, line: nil) }
  }
}
