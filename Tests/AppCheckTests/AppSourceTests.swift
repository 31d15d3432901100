import AppCheck
import Foundation
import Operations
import Providers
import Sealing
import TestSupport
import Testing

@Suite struct AppSourceTests {
  static let examples: [(name: String, app: App)] = [
    ("Zulip", .zulip), ("Talk for iOS", .talkForIOS), ("Files for iOS", .filesForIOS),
    ("Talk for Android", .talkForAndroid), ("Files for Android", .filesForAndroid),
  ]

  @Test(arguments: examples)
  func `An app that fits has no fault, and everything was looked at`(example: (name: String, app: App)) throws
  {
    let report = try example.app.check(.example())
    #expect(report.bad == [], "\(example.name)")
    #expect(report.findings.count >= 4)
    #expect(report.isGood)
  }

  /// One change to an app, and the finding that has to come of it.
  struct Change: CustomTestStringConvertible, Sendable {
    let name: String
    let app: App
    let file: String
    let old: String
    let new: String
    let check: String
    /// The file and the text in its line where the finding has to be; nil: where the change is.
    let place: (file: String, text: String)?
    var standing = Finding.Standing.fault
    /// A part of what happens on a phone.
    let effect: String

    var testDescription: String { "\(name): \(old) -> \(new)" }

    init(
      _ name: String, _ app: App, _ file: String, _ old: String, _ new: String, _ check: String,
      at place: (file: String, text: String)? = nil, standing: Finding.Standing = .fault, _ effect: String
    ) {
      (self.name, self.app, self.file, self.old, self.new) = (name, app, file, old, new)
      (self.check, self.place, self.standing, self.effect) = (check, place, standing, effect)
    }

    /// The app with the change, and the place of the finding.
    var changed: (app: App, file: String, line: Int) {
      var changed = app
      changed[file] = app[file].replacing(old, with: new)
      let text = changed[place?.file ?? file]
      let start =
        place.map { text.range(of: $0.text)?.lowerBound ?? text.endIndex }
        ?? app[file].range(of: old).map { range in
          text.index(
            text.startIndex, offsetBy: app[file].distance(from: app[file].startIndex, to: range.lowerBound))
        } ?? text.endIndex
      return (changed, place?.file ?? file, text[..<start].count(where: \.isNewline) + 1)
    }
  }

  private static let active = AppCheck.Service.active.publicKeyBase64
  private static let (key, firebase) = ("lib/model/push_device.dart", "lib/firebase_options.dart")
  private static let (zulipProject, talkProject) = (
    "ios/Runner.xcodeproj/project.pbxproj", "NextcloudTalk.xcodeproj/project.pbxproj"
  )
  private static let branding = "NextcloudTalk/Settings/NCAppBranding.m"
  private static let setup = "app/src/main/res/values/setup.xml"

  static let changes: [Change] = [
    .init(
      "Zulip's key", .zulip, key, active, "mm4F/3WLqECY637NulC5j/ZeHkmpwmtlfIxwt8MfREM=", "bouncer key",
      "Zulip's own bouncer"),
    .init(
      "a foreign key", .zulip, key, active, BouncerKeyPair().publicKeyBase64, "bouncer key",
      "another key"),
    .init(
      "a retired key", .zulip, key, active, AppCheck.Service.retired.publicKeyBase64, "bouncer key",
      standing: .warning,
      "this key is retired"),
    .init(
      "a foreign project", .zulip, firebase, "'example-chat'", "'other-chat'", "Firebase project",
      "SENDER_ID_MISMATCH"),
    .init(
      "Zulip's project", .zulip, firebase, "_Options.projectId,\n  apiKey", "'zulip-android',\n  apiKey",
      "Firebase project", "SENDER_ID_MISMATCH"),
    .init(
      "Zulip's number", .zulip, firebase,
      "messagingSenderId: _Options.projectNumber,\n  projectId: _Options.projectId,\n  apiKey",
      "messagingSenderId: '835904834568',\n  projectId: _Options.projectId,\n  apiKey", "Firebase number",
      "SENDER_ID_MISMATCH"),
    .init(
      "an app of another number", .zulip, firebase, "'1:${_Options.projectNumber}:android", "'1:999:android",
      "Firebase app", "another project"),
    .init(
      "Zulip's app id", .zulip, firebase, "'1:${_Options.projectNumber}:android", "'1:835904834568:android",
      "Firebase app", "SENDER_ID_MISMATCH"),
    .init(
      "no app id", .zulip, firebase, "'1:${_Options.projectNumber}:android:0123456789abcdef'", "'...'",
      "Firebase app", "does not start"),
    .init(
      "Zulip's Firebase on iOS", .zulip, firebase, "'1:${_Options.projectNumber}:ios", "'1:835904834568:ios",
      "Firebase for iOS", standing: .warning, "by APNs all the same"),
    .init(
      "Zulip's package", .zulip, "android/app/build.gradle", "org.example.chat", "com.zulipmobile",
      "applicationId", "beside the vendor's"),
    .init(
      "Zulip's bundle", .zulip, zulipProject, "org.example.chat", "org.zulip.Zulip", "bundle id",
      "only the vendor can sign"),
    .init(
      "a topic without key", .zulip, zulipProject, "org.example.chat", "org.example.other", "bundle id",
      "no key for the topic org.example.other"),
    .init(
      "a foreign extension", .zulip, zulipProject, "org.example.chat.Not", "org.elsewhere.chat.Not",
      "bundle id",
      "foreign name"),
    .init(
      "Zulip's team", .zulip, "ios/Flutter/Zulip.xcconfig", "TEAM567890", "66KHCWMEYB", "team",
      "cannot be signed"),
    .init(
      "a foreign team", .zulip, "ios/Flutter/Zulip.xcconfig", "TEAM567890", "OTHER67890", "team",
      "InvalidProviderToken"),
    .init(
      "another group in the code", .zulip, "lib/model/store.dart", "group.org.example.chat",
      "group.org.example.other",
      "app group", "stops at its start"),
    .init(
      "Zulip's group", .zulip, "ios/Flutter/Zulip.xcconfig", "group.org.example.chat", "group.com.zulip.app",
      "app group in the entitlements", "cannot sign"),
    .init(
      "Zulip's name for links", .zulip, "ios/Runner/Info.plist", "$(PRODUCT_BUNDLE_IDENTIFIER)",
      "org.zulip.Zulip",
      "left over", standing: .warning, "pushes arrive"),

    .init(
      "Nextcloud's proxy", .talkForIOS, branding, "https://push.example.org",
      "https://push-notifications.nextcloud.com",
      "push proxy", "Nextcloud's proxy"),
    .init(
      "a slash", .talkForIOS, branding, "push.example.org", "push.example.org/", "push proxy",
      "two slashes"),
    .init(
      "another service", .talkForIOS, branding, "push.example.org", "push.example.com", "push proxy",
      "another service"),
    .init(
      "Talk's bundle", .talkForIOS, talkProject, "org.example.talk", "com.nextcloud.Talk", "bundle id",
      "only the vendor can sign"),
    .init(
      "two bundle ids", .talkForIOS, branding, "@\"org.example.talk\"", "@\"org.example.Talk\"",
      "bundle id in the code", "another name than its own"),
    .init(
      "Talk's group", .talkForIOS, branding, "group.org.example.talk", "group.com.nextcloud.Talk",
      "app group",
      "cannot sign"),
    .init(
      "an extension without group", .talkForIOS, "ShareExtension/ShareExtension.entitlements",
      "    <string>group.org.example.talk</string>\n", "", "app group in the entitlements",
      "stay without text"),
    .init(
      "an app that the proxy takes for Files", .talkForIOS, "NextcloudTalk/Network/Client.swift",
      "Nextcloud-Talk",
      "Nextcloud-iOS", "User-Agent", "sends to the topic it.twsweb.Nextcloud"),
    .init(
      "an unknown app", .filesForIOS, "Brand/NCBrand.swift", "return \"Mozilla/5.0 (iOS) Example-Files",
      "return \"Mozilla/5.0 (iOS) Own-Files", "User-Agent", "does not know"),
    .init(
      "Files' group", .filesForIOS, "Brand/NCBrand.swift", "group.org.example.files",
      "group.it.twsweb.Crypto-Cloud",
      "app group", "cannot sign"),
    .init(
      "no proxy", .talkForAndroid, setup, ">https://push.example.org<", "><", "push proxy",
      "registers nowhere"),
    .init(
      "Talk's package", .talkForAndroid, "app/build.gradle.kts", "org.example.talk", "com.nextcloud.talk2",
      "applicationId", "beside the vendor's"),
    .init(
      "a foreign project for Talk", .talkForAndroid, setup, "example-chat",
      "other",
      "Firebase project", "SENDER_ID_MISMATCH"),
    .init(
      "Files' project", .filesForAndroid, "app/src/gplay/res/values/setup.xml", "example-chat",
      "nextcloud-a7dea",
      "Firebase project", "SENDER_ID_MISMATCH"),
  ]

  @Test(arguments: changes) func `Each fault is found in its file and line`(change: Change) throws {
    #expect(change.app[change.file].contains(change.old))
    let (app, file, line) = change.changed
    let report = try app.check(.example())
    let finding = report.findings.first {
      $0.check == change.check && $0.standing == change.standing && $0.file == file && $0.line == line
    }
    let found = try #require(finding, "\(file):\(line) \(report.bad)")
    #expect(found.effect?.contains(change.effect) == true, "\(found.effect ?? "")")
    #expect(found.expected != nil)
    #expect(report.isGood == (change.standing != .fault))
    let isVendors = change.standing == .fault && change.name.prefixMatch(of: #/[A-Z]\w+'s? /#) != nil
    #expect(found.found.hasSuffix(", the vendor's own") == isVendors, "\(found.found)")
  }

  @Test(arguments: examples)
  func `A file that has moved is not found where it was, and no fault`(example: (name: String, app: App))
    throws
  {
    for name in example.app.files.keys.sorted() where !name.hasSuffix("Info.plist") {
      var app = example.app
      app.files["moved/\(name.replacing("/", with: "-"))"] = app.files.removeValue(forKey: name)
      guard let report = try? app.check(.example()) else { continue }
      #expect(report.faults == [], "without \(name)")
      #expect(
        !report.skipped.isEmpty || name.contains("entitlements") || name.hasSuffix(".java"), "without \(name)"
      )
    }
  }

  @Test func `A setting that is missing in its file is not found where it was`() throws {
    var app = App.zulip
    app["lib/model/push_device.dart"] = "// moved"
    app["lib/firebase_options.dart"] = "const kFirebaseOptionsAndroid = FirebaseOptions(\n  apiKey: 'x',\n);"
    let report = try app.check(.example())
    #expect(report.faults == [])
    #expect(
      report.skipped.map(\.found) == [
        "not found where it was: lib/model/push_device.dart",
        "not found where it was: projectId of kFirebaseOptionsAndroid in lib/firebase_options.dart",
        "not found where it was: messagingSenderId of kFirebaseOptionsAndroid in lib/firebase_options.dart",
        "not found where it was: appId of kFirebaseOptionsAndroid in lib/firebase_options.dart",
        "not found where it was: kFirebaseOptionsIos in lib/firebase_options.dart",
      ])
  }

  @Test func `A property list that is broken is skipped`() throws {
    var app = App.talkForIOS
    app["ShareExtension/ShareExtension.entitlements"] = "<plist><dict><key>"
    let report = try app.check(.example())
    #expect(
      report.skipped.map(\.found) == [
        "ShareExtension/ShareExtension.entitlements cannot be read as a property list"
      ])
    #expect(report.faults == [])
  }

  @Test func `The environment of a source is that of its builds from Xcode`() throws {
    #expect(try App.zulip.check(.example(environment: .production)).isGood)
    #expect(try App.zulip.check(.example(environment: .sandbox)).isGood)
    var app = App.zulip
    app["ios/Runner/Runner.entitlements"].replace("development", with: "production")
    #expect(try app.check(.example(environment: .production)).isGood)
    let fault = try app.check(.example(environment: .sandbox)).faults.first
    #expect(fault?.check == "aps-environment")
    #expect(fault?.line == 5)
    #expect(fault?.effect?.contains("BadDeviceToken") == true)
  }

  @Test func `An app group that no file defines is not looked at`() throws {
    var app = App.zulip
    app["ios/Flutter/Zulip.xcconfig"].replace("ZULIP_APP_GROUP", with: "MY_APP_GROUP")
    let report = try app.check(.example())
    #expect(report.faults == [])
    #expect(report.skipped.count == 2)
    #expect(report.skipped.first?.found.contains("$(ZULIP_APP_GROUP_IDENTIFIER)") == true)
  }

  @Test func `Without http.public_url a proxy of one's own is not judged`() throws {
    let report = try App.talkForIOS.check(.example(publicURL: nil))
    #expect(report.faults == [])
    #expect(report.skipped.map(\.check) == ["push proxy"])
  }

  @Test func `Links are not followed`() throws {
    try withTemporaryFolder { folder in
      let outside = folder.appending(path: "outside.dart")
      try Data(App.zulip["lib/model/push_device.dart"].utf8).write(to: outside)
      let app = folder.appending(path: "app")
      try FileManager.default.createDirectory(
        at: app.appending(path: "lib/model"), withIntermediateDirectories: true)
      try FileManager.default.createSymbolicLink(
        at: app.appending(path: "lib/model/push_device.dart"), withDestinationURL: outside)
      #expect(throws: Fault.self) { try AppCheck(service: .example()).report(on: .init(path: app.path)) }
    }
  }

  @Test func `Another folder is no app`() throws {
    #expect(throws: Fault.self) { try App(["README.md": "hello"]).check(.example()) }
    #expect(throws: Fault.self) {
      try AppCheck(service: .example()).report(on: .init(path: "/nowhere/at/all"))
    }
  }
}
