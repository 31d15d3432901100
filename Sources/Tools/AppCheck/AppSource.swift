internal import Foundation

/// Reads the source of an app by its table.
struct SourceReader {
  let files: AppFiles
  /// Which of an Android app's flavours; nil: the one that is published.
  let wanted: Name?
  var facts: AppFacts
  /// What is set for `#if`.
  var conditions: Set<Name> = []
  var codes: [Name: Code] = [:]

  /// - Parameter flavor: which of an Android app's flavours; nil: the one that is published.
  /// - Returns: nil if it is the source of no app that is known.
  static func facts(of files: AppFiles, flavor: Name?) throws -> AppFacts? {
    guard let table = try table(of: files) else { return nil }
    var reader = SourceReader(files: files, wanted: flavor, facts: AppFacts(table, files))
    try reader.read()
    return reader.facts
  }

  /// An app is known by what it contains: a brand renames folders, projects and packages first.
  private static func table(of files: AppFiles) throws -> AppTable? {
    func has(_ beginnings: Name...) -> Bool {
      files.names.contains { name in beginnings.contains(where: name.hasPrefix) }
    }
    if has("lib/model/push_device.dart", "lib/firebase_options.dart", "ios/Flutter/Zulip.xcconfig") {
      return .zulip
    }
    if !files.names(ending: "/NCAppBranding.m").isEmpty || has("NextcloudTalk.xcodeproj/", "NextcloudTalk/") {
      return .talkForIOS
    }
    if !brands(files).isEmpty || has("Nextcloud.xcodeproj/") { return .filesForIOS }
    if has("app/src/main/java/com/nextcloud/talk/") { return .talkForAndroid }
    if has("app/src/main/java/com/owncloud/android/") { return .filesForAndroid }
    for name in files.names(ending: ".xml") where name.hasPrefix("app/src/") && name.contains("/res/values") {
      guard let data = try files.data(name) else { continue }
      if data.has("\"nc_push_server_url\"") { return .talkForAndroid }
      if data.has("\"push_server_url\"") { return .filesForAndroid }
    }
    return nil
  }

  private mutating func read() throws {
    let project = facts.table.isForIOS ? try xcodeProject() : nil
    conditions = try project?.conditions ?? []
    if let folder = facts.table.build { try readAndroid(folder) }
    for row in facts.rows {
      switch row.source {
      case .constant(let name, let place): try readConstant(row, name, place)
      case .text(let beginning): try readTexts(row, beginning)
      case .resource, .code, .build: break
      }
    }
    if let project { try read(project) }
    try readLeftovers()
  }

  /// The files in which Files for iOS keeps what a brand changes: what a brand sets in a file of its own comes after what
  /// stands in the vendor's.
  static func brands(_ files: AppFiles) -> [Name] {
    let names = files.names(ending: ".swift").filter {
      $0.last.hasPrefix("NCBrand.") || $0.last.hasPrefix("NCBrand-")
    }
    return names.filter { $0.last != "NCBrand.swift" } + names.filter { $0.last == "NCBrand.swift" }
  }

  /// The files that something can stand in which has stood in this one.
  func places(_ place: Name) -> [Name] {
    if place.last == "NCBrand.swift" { return Self.brands(files) }
    let all = files.has(place) ? [] : files.names(ending: "/" + place.last)
    return all.isEmpty ? [place] : all
  }

  /// Reads a file of code, and the headers beside it that it imports; nil if it is not there.
  mutating func code(_ name: Name) throws -> Code? {
    if let known = codes[name] { return known }
    let beside = name.hasSuffix(".m") ? files.names(ending: ".h").filter { $0.folder == name.folder } : []
    let conditions = conditions.union(beside.map(\.last))
    func read(_ name: Name) throws -> Code? {
      guard let data = try files.data(name) else { return nil }
      let code = try Code(Array(data), file: name, conditions: conditions, files.budget)
      if code.isCut { try files.miss(AppFiles.cut, name) }
      return code
    }
    guard var code = try read(name) else { return nil }
    let headers = Set(beside.isEmpty ? [] : code.imports).sorted()
    code.imported = try headers.compactMap { try read(name.folder + $0) }
    codes[name] = code
    return code
  }

  /// Reads a file of XML; nil if it is not there, or has no element.
  func xml(_ name: Name) throws -> Element? {
    guard let data = try files.data(name) else { return nil }
    let root = try Element(data, files.budget)
    if root?.isWhole != true { try files.miss(AppFiles.cut, name) }
    return root
  }

  /// Finds the vendors' names in settings that nothing else here reads, but for comments.
  private mutating func readLeftovers() throws {
    for name in files.names(
      ending: ".plist", ".xcconfig", "/AndroidManifest.xml", "/auth.xml", "/syncadapter.xml")
    {
      guard let data = try files.data(name) else { continue }
      var texts: [(text: [UInt8], line: Int)] = []
      if name.hasSuffix(".xcconfig") {
        texts = XcodeProject.lines(of: data).enumerated().map { ($1.bytes, $0 + 1) }
      } else if !data.starts(with: "bplist".utf8), let root = try Element(data, files.budget) {
        for element in [root] + root.descendants {
          texts += element.attributes.map { ($0.text.bytes, $0.line) } + [(element.text, element.line)]
        }
      }
      for (text, line) in texts {
        let words = text.split { !$0.isInIdentifier }.map { Name($0.prefix(Budget.value)) }
        try facts.add(
          .leftover,
          words.filter { word in Vendor.bundles.contains { word.hasPrefix(Name($0)) } }.map {
            Value($0, file: name, line: line)
          })
      }
    }
  }
}
