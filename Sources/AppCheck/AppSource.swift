internal import Foundation

/// Reads the source of the apps. Where each value stands was looked up in their public sources in August 2026
/// (`Documentation/Apps.md`).
extension AppFacts {
  /// - Returns: nil if it is the source of no app that is known.
  init?(source files: AppFiles) {
    func has(_ beginnings: String...) -> Bool {
      files.names.contains { name in beginnings.contains(where: name.hasPrefix) }
    }
    if has("lib/model/push_device.dart", "lib/firebase_options.dart", "ios/Flutter/Zulip.xcconfig") {
      self.init(.zulip)
      readZulip(files)
    } else if has("NextcloudTalk.xcodeproj/", "NextcloudTalk/") {
      self.init(.talk)
      readTalkForIOS(files)
    } else if has("Brand/NCBrand.swift", "Nextcloud.xcodeproj/") {
      self.init(.files)
      readFilesForIOS(files)
    } else if has("app/src/main/java/com/nextcloud/talk/") {
      self.init(.talk)
      readAndroid(files, proxy: #/<string name="nc_push_server_url"[^>]*>([^<]*)</#)
      search(
        .userAgent, files, under: "app/src/main/java/com/nextcloud/talk/", endings: [".java", ".kt"],
        #/"(Mozilla\/5\.0 \(Android\)[^"]*)/#)
    } else if has("app/src/main/java/com/owncloud/android/") {
      self.init(.files)
      readAndroid(files, proxy: #/<string name="push_server_url"[^>]*>([^<]+)</#)
      look(
        .userAgent, files, ["app/src/main/res/values/setup.xml"],
        #/<string name="nextcloud_user_agent"[^>]*>([^<]*)</#)
    } else {
      return nil
    }
    readLeftovers(files)
  }

  /// Finds the vendors' names in settings that nothing else here reads.
  private mutating func readLeftovers(_ files: AppFiles) {
    let known = Set(values.values.joined())
    let endings = [".plist", ".xcconfig", ".pbxproj", ".gradle", ".gradle.kts", "/AndroidManifest.xml"]
    let found = files.names.filter { name in endings.contains(where: name.hasSuffix) }.flatMap { name in
      files.text(name)?.values(
        #/\b((?:org\.zulip\.Zulip|com\.zulipmobile|com\.nextcloud\.(?:talk2|Talk)|it\.twsweb\.Nextcloud)[\w.]*)/#
      ) ?? []
    }
    add(.leftover, found.filter { !known.contains($0) })
  }

  private mutating func readZulip(_ files: AppFiles) {
    look(
      .bouncerKey, files, ["lib/model/push_device.dart"],
      #/bouncerPublicKey\s*=\s*(?:\w+\.)?base64Decode\(\s*['"]([^'"]*)['"]/#)
    let members: [(Aspect, String)] = [
      (.firebaseProject, "projectId"), (.firebaseNumber, "messagingSenderId"), (.firebaseApp, "appId"),
    ]
    readFirebaseOptions(files, "kFirebaseOptionsAndroid", members)
    readFirebaseOptions(files, "kFirebaseOptionsIos", members.map { (.firebaseForIOS, $0.1) })
    readApplicationID(files, in: "android/app/build.gradle")
    look(.team, files, ["ios/Flutter/Zulip.xcconfig"], #/(?m)^\s*DEVELOPMENT_TEAM\s*=\s*(\w+)/#)
    look(.group, files, ["lib/model/store.dart"], #/iosAppGroupIdentifier\s*=\s*['"]([^'"]*)['"]/#)
    readXcodeProject(files, "ios/Runner.xcodeproj/project.pbxproj")
    readEntitlements(files, under: "ios/")
  }

  /// Reads one constant of `lib/firebase_options.dart`. Its members are texts, or take them from constants of a class:
  /// `_Options.projectId`, `'1:${_Options.projectNumber}:ios:...'`.
  private mutating func readFirebaseOptions(
    _ files: AppFiles, _ constant: String, _ members: [(aspect: Aspect, name: String)]
  ) {
    let name = "lib/firebase_options.dart"
    let file = files.text(name)
    guard let file,
      let options = file.values(#/(?s)\b(\w+\s*=\s*(?:const\s+)?FirebaseOptions\(.*?\);)/#)
        .first(where: { $0.text.hasPrefix(constant) })
    else {
      return miss(members[0].aspect, "not found where it was: \(constant) in \(name)")
    }
    let constants = file.values(#/\bconst\s+(?:String\s+)?(\w+\s*=\s*['"][^'"]*)['"]/#).map { value in
      let parts = value.text.split(separator: "=", maxSplits: 1)
      let text = parts[1].trimmingCharacters(in: CharacterSet(charactersIn: "'\" "))
      return (
        name: parts[0].trimmingCharacters(in: .whitespaces),
        value: Value(text: text, file: name, line: value.line)
      )
    }
    func constantOfClass(_ reference: some StringProtocol) -> Value? {
      constants.first { $0.name == reference.split(separator: ".").last ?? "" }?.value
    }
    let section = SourceText(name: name, text: options.text, firstLine: options.line ?? 1)
    let written = section.values(#/\b(\w+:\s*[^,\n]+)/#)
    for member in members {
      guard let value = written.first(where: { $0.text.hasPrefix("\(member.name):") }) else {
        miss(member.aspect, "not found where it was: \(member.name) of \(constant) in \(name)")
        continue
      }
      let expression = value.text.dropFirst(member.name.count + 1).trimmingCharacters(in: .whitespaces)
      if let constant = constantOfClass(expression) {
        add(member.aspect, [constant])
      } else {
        let text = expression.trimmingCharacters(in: CharacterSet(charactersIn: "'\""))
          .replacing(#/\$\{?([\w.]+)\}?/#) { constantOfClass($0.output.1)?.text ?? String($0.output.0) }
        add(member.aspect, [Value(text: text, file: name, line: value.line)])
      }
    }
  }

  private mutating func readTalkForIOS(_ files: AppFiles) {
    let branding = ["NextcloudTalk/Settings/NCAppBranding.m", "NextcloudTalk/NCAppBranding.m"]
    look(.proxy, files, branding, #/\bpushNotificationServer\s*=\s*@"([^"]*)"/#)
    look(.bundleIDInCode, files, branding, #/\bbundleIdentifier\s*=\s*@"([^"]*)"/#)
    look(.group, files, branding, #/\b(?:groupIdentifier|appsGroupIdentifier)\s*=\s*@"([^"]*)"/#)
    search(
      .userAgent, files, under: "NextcloudTalk/", endings: [".m", ".swift"], #/"(Mozilla\/5\.0 \(iOS\)[^"]*)/#
    )
    readXcodeProject(files, "NextcloudTalk.xcodeproj/project.pbxproj")
    readEntitlements(files, under: "")
  }

  private mutating func readFilesForIOS(_ files: AppFiles) {
    let brand = ["Brand/NCBrand.swift"]
    look(.proxy, files, brand, #/\bpushNotificationServerProxy\b[^"\n]*"([^"]*)"/#)
    look(.userAgent, files, brand, #/"(Mozilla\/5\.0[^"]*)/#)
    look(.group, files, brand, #/\bcapabilitiesGroup(?:s|Apps)?\b[^"\n]*"([^"]*)"/#)
    readXcodeProject(files, "Nextcloud.xcodeproj/project.pbxproj")
    readEntitlements(files, under: "")
  }

  private mutating func readAndroid(_ files: AppFiles, proxy: Regex<(Substring, Substring)>) {
    readApplicationID(files, in: "app/build.gradle")
    let setup = "res/values/setup.xml"
    search(.proxy, files, under: "app/src/", endings: [setup], proxy)
    let services = files.names.filter { $0.hasPrefix("app/") && $0.hasSuffix("/google-services.json") }
    let texts = files.names.filter { $0.hasPrefix("app/src/") && $0.hasSuffix(setup) } + services
    let found = texts.compactMap(files.text)
    for file in found {
      add(.firebaseProject, file.values(#/(?:name="project_id"[^>]*>|"project_id"\s*:\s*")([^<"]+)/#))
      add(
        .firebaseNumber,
        file.values(#/(?:name="gcm_defaultSenderId"[^>]*>|"project_number"\s*:\s*")([^<"]+)/#))
      add(.firebaseApp, file.values(#/(?:name="google_app_id"[^>]*>|"mobilesdk_app_id"\s*:\s*")([^<"]+)/#))
    }
    if self[.firebaseNumber].isEmpty {
      miss(.firebaseProject, "no google-services.json, and no gcm_defaultSenderId in a setup.xml, under app/")
    }
  }

  private mutating func readApplicationID(_ files: AppFiles, in name: String) {
    look(.applicationID, files, [name, "\(name).kts"], #/\bapplicationId\s*=?\s*["']([^"']+)["']/#)
  }

  /// Reads the bundle ids, without those of tests, and the team if it stands here.
  private mutating func readXcodeProject(_ files: AppFiles, _ name: String) {
    look(.bundleID, files, [name], #/PRODUCT_BUNDLE_IDENTIFIER\s*=\s*"?([\w.\-]+)"?\s*;/#)
    if let project = files.text(name) { add(.team, project.values(#/DEVELOPMENT_TEAM\s*=\s*"?(\w+)"?\s*;/#)) }
  }

  private mutating func readEntitlements(_ files: AppFiles, under folder: String) {
    let names = files.names.filter { $0.hasPrefix(folder) && $0.hasSuffix(".entitlements") }
    let settings = files.names.filter { $0.hasPrefix(folder) && $0.hasSuffix(".xcconfig") }.compactMap(
      files.text
    )
    .flatMap { $0.values(#/(?m)^\s*(\w+\s*=\s*[^\s\/]+)/#) }
    .map { $0.text.split(separator: "=", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) } }
    let variables = Dictionary(settings.map { ($0[0], $0[1]) }, uniquingKeysWith: { first, _ in first })
    if names.isEmpty { miss(.entitledGroup, "no file *.entitlements was found") }
    for name in names {
      guard let file = files.text(name), let list = PropertyList.dictionary(Data(file.text.utf8)) else {
        miss(.entitledGroup, "\(name) cannot be read as a property list")
        continue
      }
      addEntitlements(list, file: name, line: file.line(with:)) {
        $0.replacing(#/\$[({](\w+)[)}]/#) { variables[String($0.output.1)] ?? String($0.output.0) }
      }
    }
  }
}

enum PropertyList {
  /// Decodes an XML or binary property list; nil if it is none, or no dictionary.
  static func dictionary(_ data: Data) -> [String: Any]? {
    (try? PropertyListSerialization.propertyList(from: data, format: nil)) as? [String: Any]
  }
}
