import Foundation

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
    guard let gradle = try Gradle(folder, files, { try code($0) }) else {
      let others =
        facts.product == .zulip
        ? "" : "; which folders of app/src are built, and so which text counts, is unknown"
      return try files.miss(
        .applicationID, "not found where it was: \(folder.text)build.gradle or build.gradle.kts\(others)")
    }
    let variant = try gradle.variant(wanted)
    facts.flavor = variant.isEmpty ? nil : Gradle.joined(variant)
    switch gradle.applicationID(of: variant) {
    case (let place, let id?)?: try facts.add(.applicationID, [place.with(id)])
    case (let place, nil)?:
      try files.miss(.applicationID, "applicationId is not set to a text literal in the file", place)
    case nil: try files.miss(.applicationID, "not found where it was: \(gradle.file.text)")
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
    let folders = sets.map { folder + "src/" + $0 + "/" }
    let manifests = folders.map { $0 + "AndroidManifest.xml" }
    let elements = try manifests.compactMap { try xml($0) }.flatMap(\.descendants)
    guard let main = manifests.first(where: files.has) else {
      return try files.miss(.messaging, "not found where it was: \(folder.text)src/main/AndroidManifest.xml")
    }
    // What the manifests name for what Google delivers.
    let services = elements.filter { element in
      element.name == "service" && element.descendants.contains { $0["android:name"] == Self.messaging }
    }.compactMap { $0["android:name"] }
    if let forgotten = try messagingClass(folders, but: services) {
      try facts.add(.messaging, [forgotten])
    } else if services.isEmpty {
      facts.rows = []
      if !elements.contains(where: { $0["android:name"]?.hasPrefix(Self.unifiedPush) ?? false }) {
        try facts.add(.messaging, [Value(facts.flavor ?? "the app", file: main)])
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
      if declarations.contains(where: data.has) { return nil }
      guard found == nil, data.has("FirebaseMessagingService"), let code = try code(name) else { continue }
      // `class Own : FirebaseMessagingService() {`, `class Own extends FirebaseMessagingService {`
      let parent = code.tokens.indices.first {
        code[$0] == "FirebaseMessagingService" && (code[mark: $0 - 1] == ":" || code[$0 - 1] == "extends")
      }
      guard let declared = (0..<(parent ?? 0)).last(where: { code[$0] == "class" }) else { continue }
      found = Value(
        code[declared + 1], file: name, line: code.line(declared + 1), member: Self.messaging)
    }
    return found
  }

  /// A text among the resources: how late its folder comes, and whether it is for all languages and devices. nil if the
  /// build works it out.
  private typealias Text = (rank: Int, isDefault: Bool, value: Value?)

  private mutating func readResources(_ gradle: Gradle, _ folder: Name, _ sets: [Name], _ variant: [Name])
    throws
  {
    var texts: [Name: [Text]] = [:]
    for set in sets { try files.look(into: folder + "src/" + set + "/res/") }
    let places =
      sets.enumerated().map { ($0, folder + "src/" + $1 + "/res/") }
      + gradle.resources.compactMap { added in sets.firstIndex(of: added.set).map { ($0, added.folder) } }
    // Most files are translations, and have none of these texts.
    let wanted =
      Self.authorities.union(facts.rows.compactMap(\.resource))
      + ["name_for_branded_user_agent", "@string/"]
    for (rank, place) in places {
      for name in files.names(ending: ".xml") where name.hasPrefix(place + "values") {
        let kind = Name(name.bytes.dropFirst(place.bytes.count).prefix { $0 != "/" })
        guard kind == "values" || kind.hasPrefix("values-"), let data = try files.data(name),
          !Name(data.suffix(40)).trimmed.hasSuffix("</resources>") || wanted.contains(where: data.has)
        else { continue }
        for (key, value) in try xml(name)?.androidTexts(in: name) ?? [] {
          texts[key, default: []].append((rank, kind == "values", value))
        }
      }
    }
    for text in gradle.texts
    where ["defaultConfig", "release"].contains(text.block) || variant.contains(text.block) {
      texts[text.name, default: []].append((sets.count, true, text.value))
      if text.value == nil, let row = facts.rows.first(where: { $0.resource == text.name }) {
        try files.miss(row.aspect, "resValue does not set \(text.name.text) to a text literal", text.place)
      }
    }
    for (key, value) in try googleServices(gradle, folder, sets) {
      texts[key, default: []].append((sets.count, true, value))
    }
    let rows = facts.rows.compactMap { row in row.resource.map { (row, $0) } }
    let place = rows.flatMap { Self.values($0.1, among: texts) }.compactMap(\.self).last?.file
    let brand = Self.values("name_for_branded_user_agent", among: texts).compactMap(\.self).first?.text ?? ""
    for (row, key) in rows {
      let found = Self.values(key, among: texts)
      if found.isEmpty, place == nil || row.aspect == .userAgent {
        try files.miss(
          row.aspect, "not found where it was: \(key.text) in res/values/setup.xml under app/src")
      } else {
        try facts.add(row.aspect, key, found, brand: brand, in: place ?? "")
      }
    }
    for key in Self.authorities.sorted() {
      let values = Self.values(key, among: texts).compactMap(\.self)
      try facts.add(.leftover, values.filter { Self.isVendors($0.text) })
    }
  }

  /// What the app has of a text: that of the last folder, and those for single languages or devices.
  private static func values(_ key: Name, among texts: [Name: [Text]], depth: Int = 0) -> [Value?] {
    let all = texts[key] ?? []
    let last = all.filter(\.isDefault).map(\.rank).max()
    return all.filter { !$0.isDefault || $0.rank == last }.sorted { $0.isDefault && !$1.isDefault }.flatMap {
      text in
      guard let value = text.value, value.name.hasPrefix("@string/"), depth < 4 else { return [text.value] }
      let named = values(Name(value.name.bytes.dropFirst(8)), among: texts, depth: depth + 1)
      return named.isEmpty ? [value] : named
    }
  }

  private static func isVendors(_ name: String) -> Bool {
    name == "nextcloud" || name == "org.nextcloud" || name.hasPrefix("org.nextcloud.")
      || Vendor.name(of: name) != nil
  }

  /// The texts that a build makes of `google-services.json`, if it reads it.
  private mutating func googleServices(_ gradle: Gradle, _ folder: Name, _ sets: [Name]) throws
    -> [(key: Name, value: Value)]
  {
    guard let applied = gradle.googleServices else {
      facts.unusedGoogleServices = files.names(ending: "/google-services.json").first { $0.hasPrefix(folder) }
      return []
    }
    let places = (sets.reversed().map { folder + "src/" + $0 + "/" } + [folder]).map {
      $0 + "google-services.json"
    }
    guard let name = places.first(where: files.has), let code = try code(name) else {
      try files.miss(
        .firebaseProject, "the build reads a google-services.json, and there is none", applied)
      return []
    }
    let id = facts[.applicationID].first?.name
    var (app, isKnown): (Int?, Bool) = (nil, id == nil)
    var found: [(key: Name, value: Value)] = []
    func add(_ key: Name, _ index: Int) {
      found.append((key, code.place(index).with(code[index])))
    }
    for index in code.tokens.indices where code.kind(index) == .text && code[mark: index + 1] == ":" {
      switch code[index] {
      case "project_number": add("gcm_defaultSenderId", index + 2)
      case "project_id": add("project_id", index + 2)
      // Each client has its app's id before its package.
      case "mobilesdk_app_id":
        app = index + 2
        if id == nil { add("google_app_id", index + 2) }
      case "package_name" where !isKnown && code[index + 2] == id:
        isKnown = true
        if let app { add("google_app_id", app) }
      case "current_key" where isKnown: add("google_api_key", index + 2)
      default: break
      }
    }
    // A file of another app, or one that is not filled in, is one mistake, whatever else it lacks.
    let empty = found.map(\.value).filter(\.text.isEmpty)
    if isKnown, empty.isEmpty { return found }
    facts.rows.removeAll { $0.aspect.isFirebase }
    try facts.add(.googleServices, isKnown ? empty : [Value(id ?? "", file: name)])
    return []
  }
}
