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
    var main: Name?
    var hasUnifiedPush = false
    // What the manifests name for what Google delivers.
    var services: [Name] = []
    for name in sets.map({ folder + "src/" + $0 + "/AndroidManifest.xml" }) {
      guard let data = try files.data(name) else { continue }
      main = main ?? name
      var markup = Markup(Array(data), files.budget)
      var service: Name = ""
      while let event = try markup.next() {
        guard case .start(let element, let attributes, _) = event else { continue }
        if element == "service" { service = attributes["android:name"] ?? "" }
        if attributes.values.contains(Self.messaging), !service.bytes.isEmpty { services.append(service) }
        if attributes.values.contains(where: { $0.hasPrefix(Self.unifiedPush) }) { hasUnifiedPush = true }
      }
      if !markup.isWhole { files.note("ends before what is open in it does", name) }
    }
    guard let main else {
      return try facts.miss(.messaging, "not found where it was: \(folder.text)src/main/AndroidManifest.xml")
    }
    if let forgotten = try messagingClass(sets.map { folder + "src/" + $0 + "/" }, but: services) {
      return try facts.add(.messaging, [forgotten])
    }
    if services.isEmpty {
      facts.rows.removeAll { $0.platform == .android }
      if !hasUnifiedPush {
        try facts.add(.messaging, [Value(facts.flavor ?? "the app", file: main, line: nil)])
      }
    }
  }

  /// The class that is written for what Google delivers, if no manifest names it: such a flavour is one with Google,
  /// whatever other push it has.
  private mutating func messagingClass(_ folders: [Name], but services: [Name]) throws -> Value? {
    let declarations = services.map { "class " + Name($0.bytes.split(separator: ".").last ?? []) }
    var found: Value?
    for name in files.names(ending: ".java", ".kt") where folders.contains(where: name.hasPrefix) {
      guard let data = try files.data(name) else { continue }
      func has(_ text: Name) -> Bool { data.withUnsafeBytes { $0.first(text.bytes) != nil } }
      if declarations.contains(where: has) { return nil }
      guard found == nil, has("FirebaseMessagingService"), let code = try code(name) else { continue }
      // `class Own : FirebaseMessagingService() {`, `class Own extends FirebaseMessagingService {`
      guard
        let parent = code.tokens.indices.first(where: {
          code[$0] == "FirebaseMessagingService" && (code[mark: $0 - 1] == ":" || code[$0 - 1] == "extends")
        }), let declared = (0..<parent).last(where: { code[$0] == "class" })
      else { continue }
      found = Value(
        code[declared + 1], file: name, line: code.line(declared + 1), member: Self.messaging)
    }
    return found
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
    _ gradle: Gradle, _ folder: Name, _ sets: [Name], _ take: (Name, Value) -> Void
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
    var (app, isKnown): (Int?, Bool) = (nil, id == nil)
    var found: [(key: Name, value: Value)] = []
    func add(_ key: Name, _ index: Int) {
      found.append((key, Value(code[index], file: name, line: code.line(index))))
    }
    for index in code.tokens.indices where code.kind(index) == .text && code[mark: index + 1] == ":" {
      switch code[index] {
      case "project_number": add("gcm_defaultSenderId", index + 2)
      case "project_id": add("project_id", index + 2)
      // Each client has its app's id before its package.
      case "mobilesdk_app_id":
        app = index + 2
        if id == nil { add("google_app_id", index + 2) }
      case "package_name" where id != nil && code[index + 2] == Name(id ?? ""):
        guard !isKnown else { continue }
        isKnown = true
        if let app { add("google_app_id", app) }
      case "current_key" where isKnown: add("google_api_key", index + 2)
      default: break
      }
    }
    // A file of another app, or one that is not filled in, is one mistake, whatever else it lacks.
    let empty = found.map(\.value).filter(\.text.isEmpty)
    if !isKnown {
      facts.wrongServices = ("it knows no app \(id ?? "")", [Value("", file: name, line: nil)])
    } else if !empty.isEmpty {
      facts.wrongServices = ("values in it are empty", empty)
    }
    if facts.wrongServices == nil {
      for (key, value) in found { take(key, value) }
    } else {
      facts.rows.removeAll { $0.aspect.isFirebase }
    }
  }
}
