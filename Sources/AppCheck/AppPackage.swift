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
  init?(package files: AppFiles, candidates: Candidates) {
    if let manifest = files.data("AndroidManifest.xml") {
      self.init(
        android: files, package: BinaryXML(manifest)?.package, manifest: "AndroidManifest.xml",
        texts: files.data("resources.arsc").flatMap(ResourceTable.texts), resources: "resources.arsc",
        candidates: candidates)
    } else if let manifest = files.data("base/manifest/AndroidManifest.xml") {
      self.init(
        android: files, package: ProtocolBuffer(manifest).package,
        manifest: "base/manifest/AndroidManifest.xml",
        texts: files.data("base/resources.pb").map { ProtocolBuffer($0).resourceTexts },
        resources: "base/resources.pb",
        candidates: candidates)
    } else {
      self.init(ipa: files, candidates: candidates)
    }
  }

  private init?(
    android files: AppFiles, package: String?, manifest: String, texts: [String: String]?, resources: String,
    candidates: Candidates
  ) {
    let code = files.names.filter { $0.hasSuffix("/libapp.so") }
    let texts = texts ?? [:]
    let proxy = ["nc_push_server_url", "push_server_url"].first { texts[$0] != nil }
    if !code.isEmpty {
      self.init(.zulip)
      searchZulip(files, code, candidates)
    } else if let proxy {
      self.init(proxy.hasPrefix("nc_") ? .talk : .files)
    } else {
      return nil
    }
    add(.applicationID, package.map { [Value(text: $0, file: manifest, line: nil)] } ?? [])
    if package == nil { miss(.applicationID, "\(manifest) cannot be read") }
    let members: [(Aspect, String)] = [
      (.proxy, proxy ?? ""), (.userAgent, "nextcloud_user_agent"), (.firebaseProject, "project_id"),
      (.firebaseNumber, "gcm_defaultSenderId"), (.firebaseApp, "google_app_id"),
    ]
    for (aspect, name) in members {
      if let text = texts[name] { add(aspect, [Value(text: text, file: "\(resources), \(name)", line: nil)]) }
    }
    if product != .zulip, self[.firebaseProject].isEmpty {
      miss(
        .firebaseProject,
        "\(resources) has no text project_id: a build without push, or one that cannot be read")
    }
  }

  private init?(ipa files: AppFiles, candidates: Candidates) {
    guard
      let info = files.names.first(where: { $0.wholeMatch(of: #/Payload\/[^\/]+\.app\/Info\.plist/#) != nil })
    else { return nil }
    let app = info.dropLast("Info.plist".count)
    let plist = files.data(info).flatMap(PropertyList.dictionary)
    let executable = "\(app)\(plist?["CFBundleExecutable"] as? String ?? "")"
    let flutter = "\(app)Frameworks/App.framework/App"
    if files.names.contains(flutter) {
      self.init(.zulip)
      searchZulip(files, [flutter], candidates)
    } else if let code = files.data(executable) {
      guard
        let product: Product = code.holds("NCAppBranding")
          ? .talk : code.holds("NCBrandOptions") ? .files : nil
      else { return nil }
      self.init(product)
      search(.proxy, [(executable, code)], candidates.proxies)
    } else {
      return nil
    }
    let bundles = files.names.filter { name in
      name == info || (name.hasPrefix("\(app)PlugIns/") && name.hasSuffix(".appex/Info.plist"))
    }
    for name in bundles {
      guard let id = files.data(name).flatMap(PropertyList.dictionary)?["CFBundleIdentifier"] as? String
      else {
        miss(.bundleID, "\(name) cannot be read")
        continue
      }
      add(.bundleID, [Value(text: id, file: name, line: nil)])
      readProfile(files, "\(name.dropLast("Info.plist".count))embedded.mobileprovision")
    }
  }

  /// Reads a provisioning profile: a signed message (CMS) with a property list in clear inside.
  private mutating func readProfile(_ files: AppFiles, _ name: String) {
    guard let data = files.data(name), let start = data.range(of: Data("<?xml".utf8)),
      let end = data.range(of: Data("</plist>".utf8), in: start.upperBound..<data.endIndex),
      let profile = PropertyList.dictionary(data[start.lowerBound..<end.upperBound])
    else {
      return miss(.entitledGroup, "\(name) cannot be read; builds from the App Store have none")
    }
    let team = (profile["TeamIdentifier"] as? [String])?.first
    add(.team, team.map { [Value(text: $0, file: name, line: nil)] } ?? [])
    addEntitlements(
      profile["Entitlements"] as? [String: Any] ?? [:], file: name, line: { _ in nil }, resolve: { $0 })
  }

  private mutating func searchZulip(_ files: AppFiles, _ names: [String], _ candidates: Candidates) {
    // One processor's code says what all do.
    let code = names.prefix(1).compactMap { name in files.data(name).map { (name, $0) } }
    search(.bouncerKey, code, candidates.bouncerKeys)
    search(.firebaseProject, code, candidates.firebaseProjects)
  }

  private mutating func search(_ aspect: Aspect, _ code: [(name: String, data: Data)], _ candidates: [String])
  {
    let found = code.flatMap { file in
      // The address of a proxy is the beginning of the same with a slash.
      candidates.filter(file.data.holds).filter { text in
        !candidates.contains { $0 != text && $0.hasPrefix(text) && file.data.holds($0) }
      }.map { Value(text: $0, file: file.name, line: nil) }
    }
    add(aspect, found)
    if found.isEmpty {
      miss(
        aspect,
        "\(code.map(\.name).joined(separator: ", ")): in the compiled code is neither one of this service nor the vendor's"
      )
    }
  }
}

extension Data {
  /// Whether a text stands somewhere in the bytes.
  func holds(_ text: String) -> Bool { range(of: Data(text.utf8)) != nil }
}
