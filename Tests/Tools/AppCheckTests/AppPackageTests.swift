import Foundation
import Platform
import Providers
import Sealing
import TestSupport
import Testing

@testable import AppCheck
@testable import Basics

/// Built packages. The manifests and resources are Android's own: `aapt2 link` has made them of a manifest and a
/// `setup.xml`, once in the binary form and once as protocol buffers.
@Suite struct AppPackageTests {
  private static let talkAPK = Data(PackageResources.talk_apk)
  private static let talkAAB = {
    var bundle = App()
    let apk = try? ZipReader(talkAPK)
    bundle.files["base/dex/classes.dex"] = apk?["classes.dex"]
    bundle.files["META-INF/K.EC"] = apk?["META-INF/K.EC"]
    let parts = try? ZipReader(Data(PackageResources.talk_protocol_buffers_apk))
    bundle.files["base/manifest/AndroidManifest.xml"] = parts?["AndroidManifest.xml"]
    bundle.files["base/resources.pb"] = parts?["resources.pb"]
    return bundle
  }()

  @Test func `An APK and an AAB say the same`() throws {
    let apk = try App.checkPackage(Self.talkAPK, .example())
    let aab = try Self.talkAAB.checkPackage(.example())
    for report in [apk, aab] {
      #expect(report.bad == [])
      #expect(report.app == "Nextcloud Talk, a built package")
      #expect(
        report.findings.map { "\($0.check): \($0.found)" } == [
          "push proxy: https://push.example.org",
          "User-Agent: Mozilla/5.0 (Android) Nextcloud-Talk v: the proxy knows it as Talk for Android",
          "Firebase project: example-chat: a project of Keys/fcm", "Firebase number: 123456789012",
          "Firebase app: 1:123456789012:android:0123456789abcdef",
          "Firebase API key: AIzaSyExampleExampleExampleExampleExamp",
          "applicationId: com.example.talk",
          "signing certificate: \(Self.fingerprint): SHA-256, to be registered with com.example.talk for Android's "
            + "developer verification; where Google Play signs, with the certificate of the Play Console",
        ])
    }
    #expect(apk.findings.first { $0.check == "applicationId" }?.file == "AndroidManifest.xml")
    #expect(aab.findings.first?.places == [.init(file: "base/resources.pb", member: "nc_push_server_url")])
  }

  @Test func `The values of a package are compared like those of a source`() throws {
    let report = try App.checkPackage(Self.talkAPK, .example(publicURL: "https://push.example.com"))
    #expect(report.faults.map(\.check) == ["push proxy"])
    #expect(report.faults.first?.places == [.init(file: "resources.arsc", member: "nc_push_server_url")])
  }

  private static let active = AppCheck.Service.active.publicKeyBase64
  private static let key = "AIzaSyExampleExampleExampleExampleExamp"
  private static let firebase = ["example-chat", "1:123456789012:android:0123456789abcdef", key]

  /// Zulip's app for Android: Dart code, of which texts can be found, and a manifest.
  private func zulipAPK(_ texts: [String]) throws -> App {
    var app = App()
    let parts = try ZipReader(Self.talkAPK)
    for name in ["AndroidManifest.xml", "META-INF/K.EC"] { app.files[name] = parts[name] }
    app["lib/arm64-v8a/libapp.so"] = "\u{0}code\u{0}" + texts.joined(separator: "\u{0}\u{0}") + "\u{0}more"
    return app
  }

  @Test func `The bouncer key and the Firebase values are found in compiled code`() throws {
    let good = try zulipAPK([Self.active] + Self.firebase).checkPackage(.example())
    #expect(good.bad == [])
    #expect(good.findings.first?.file == "lib/arm64-v8a/libapp.so")
    let vendors = try zulipAPK([
      "mm4F/3WLqECY637NulC5j/ZeHkmpwmtlfIxwt8MfREM=", "zulip-android",
      "1:835904834568:android:6ae61ae43a7c3410",
      "AIzaSyC6kw5sqCYjxQl2Lbd_of-the-vendor-1",
    ]).checkPackage(.example())
    #expect(
      vendors.faults.map(\.check) == ["bouncer key", "Firebase project", "Firebase app", "Firebase API key"])
    let other = try zulipAPK([BouncerKeyPair().publicKeyBase64] + Self.firebase).checkPackage(.example())
    #expect(other.faults.map(\.check) == ["bouncer key"])
    let nothing = try zulipAPK(["nothing of that"]).checkPackage(.example())
    #expect(nothing.faults == [])
    #expect(
      nothing.skipped.map(\.check) == ["bouncer key", "Firebase project", "Firebase app", "Firebase API key"])
  }

  @Test func `A text of the code counts as a whole`() throws {
    let longer = try zulipAPK(["x\(Self.active)", "example-chat-2"] + Self.firebase.dropFirst()).checkPackage(
      .example())
    #expect(longer.skipped.map(\.check) == ["bouncer key", "Firebase project"])
    // One's own beside the vendor's: the vendor's is of something else.
    let both = try zulipAPK([Self.active, "zulip-android"] + Self.firebase).checkPackage(.example())
    #expect(both.bad == [])
  }

  private static func plist(_ list: [String: Any], _ format: PropertyListSerialization.PropertyListFormat)
    throws -> Data
  {
    try PropertyListSerialization.data(fromPropertyList: list, format: format, options: 0)
  }

  /// An app for iOS: binary property lists, and provisioning profiles with their list in clear.
  ///
  /// - Parameter code: files by name, with the texts in them.
  private func ipa(
    _ id: String = "org.example.chat", extensionID: String = "org.example.chat.NotificationService",
    group: String = "group.org.example.chat", extensionGroup: String? = nil,
    environment: String = "production",
    point: String = "com.apple.usernotifications.service", code: [String: [String]]
  ) throws -> App {
    var app = App(
      code.reduce(into: [:]) {
        $0["Payload/Chat.app/\($1.key)"] = "\u{0}" + $1.value.joined(separator: "\u{0}") + "\u{0}"
      })
    for (folder, id, group) in [
      ("", id, group), ("PlugIns/Service.appex/", extensionID, extensionGroup ?? group),
    ] {
      app.files["Payload/Chat.app/\(folder)Info.plist"] = try Self.plist(
        [
          "CFBundleIdentifier": id, "CFBundleExecutable": folder.isEmpty ? "Chat" : "Service",
          "UIBackgroundModes": ["remote-notification", "voip"],
          "NSExtension": folder.isEmpty ? [:] : ["NSExtensionPointIdentifier": point],
        ], .binary)
      let profile: [String: Any] = [
        "TeamIdentifier": ["TEAM567890"],
        "Entitlements": ["aps-environment": environment, "com.apple.security.application-groups": [group]],
      ]
      app.files["Payload/Chat.app/\(folder)embedded.mobileprovision"] =
        try Data([0x30, 0x82, 0xFF]) + Self.plist(profile, .xml) + Data([0, 1])
    }
    return app
  }

  private static let flutter = "Frameworks/App.framework/App"
  private static let chat = [active, "1:123456789012:ios:0123456789abcdef", "group.org.example.chat"]

  private func zulipIPA() throws -> App { try ipa(code: [Self.flutter: Self.chat]) }

  @Test func `An IPA of Zulip's app is read`() throws {
    let report = try zulipIPA().checkPackage(.example())
    #expect(report.bad == [])
    #expect(
      Set(report.findings.map(\.check)) == [
        "bouncer key", "bundle id", "team", "aps-environment", "app group", "app group in the entitlements",
        "background modes", "Firebase for iOS",
      ])
  }

  @Test func `An IPA for the wrong environment or topic gets nothing`() throws {
    func check(_ app: App, _ environment: APNsCredential.Environment = .production) throws -> [String] {
      try app.checkPackage(.example(environment: environment)).faults.map(\.check)
    }
    let code = [Self.flutter: Self.chat]
    let development = try ipa(environment: "development", code: code)
    #expect(try check(development) == ["aps-environment"])
    #expect(try check(development, .sandbox) == [])
    let vendors = try ipa("org.zulip.Zulip", extensionID: "org.zulip.Zulip.NotificationService", code: code)
    #expect(try check(vendors) == ["bundle id"])
    #expect(try vendors.checkPackage(.example()).faults.first?.places.count == 2)
  }

  @Test func `App and extension have to allow the group that the code opens`() throws {
    func check(_ group: String, _ extensionGroup: String, opened: String) throws -> [String] {
      try ipa(
        group: group, extensionGroup: extensionGroup,
        code: [Self.flutter: [Self.chat[0], Self.chat[1], opened]]
      )
      .checkPackage(.example()).bad
    }
    let own = "group.org.example.chat"
    #expect(try check(own, own, opened: own) == [])
    #expect(try check(own, "group.org.example.other", opened: own).count == 1)
    #expect(
      try check(own, own, opened: "group.org.example.else").first?.hasPrefix("fault app group ") == true)
    #expect(try check(own, own, opened: "group.com.zulip.app").first?.contains("the vendor's own") == true)
  }

  @Test func `An extension for notifications has to be there`() throws {
    var app = try zulipIPA()
    for name in app.files.keys where name.contains("PlugIns") { app.files[name] = nil }
    #expect(
      try app.checkPackage(.example()).bad == [
        "fault notification extension Payload/Chat.app/Info.plist:0: there is none"
      ])
    let other = try ipa(point: "com.apple.share-services", code: [Self.flutter: Self.chat]).checkPackage(
      .example())
    #expect(other.faults.map(\.found) == ["com.apple.share-services"])
  }

  /// Builds from the App Store have no profiles.
  @Test func `The signature in the code says what a missing profile does not`() throws {
    var app = try zulipIPA()
    for name in app.files.keys where name.hasSuffix("mobileprovision") { app.files[name] = nil }
    let skipped = try app.checkPackage(.example())
    #expect(skipped.faults == [])
    #expect(
      Set(skipped.skipped.map(\.check)) == ["app group in the entitlements", "aps-environment", "team"])
    for (folder, name) in [("", "Chat"), ("PlugIns/Service.appex/", "Service")] {
      let entitlements: [String: Any] = [
        "application-identifier": "TEAM567890.org.example.chat", "aps-environment": "production",
        "com.apple.developer.team-identifier": "TEAM567890",
        "com.apple.security.application-groups": ["group.org.example.chat"],
      ]
      app.files["Payload/Chat.app/\(folder)\(name)"] =
        try Data([0xFA, 0xDE, 0x71, 0x71, 0, 0, 2, 0x41]) + Self.plist(entitlements, .xml)
        + Data([0xFA, 0xDE])
    }
    #expect(try app.checkPackage(.example()).bad == [])
  }

  @Test func `An IPA of Nextcloud's apps has its proxy in the code`() throws {
    func report(_ proxies: [String], _ kind: String) throws -> AppCheck.Report {
      let name = kind == "NCAppBranding" ? "talk" : "files"
      let agent = name == "talk" ? ["Mozilla/5.0 (iOS) Nextcloud-Talk v"] : []
      return try ipa(
        "org.example.\(name)", extensionID: "org.example.\(name).Service", group: "group.org.example.\(name)",
        code: ["Chat": [kind, "group.org.example.\(name)"] + agent + proxies]
      ).checkPackage(.example())
    }
    let vendors = "https://push-notifications.nextcloud.com"
    #expect(try report(["https://push.example.org"], "NCAppBranding").bad == [])
    // Files for iOS of today has the vendor's proxy in its code, for builds without one.
    let files = try report(["https://push.example.org", vendors], "NCBrandOptions")
    #expect(files.bad == [])
    #expect(files.app == "Nextcloud Files, a built package")
    #expect(
      try report(["https://push.example.org/", vendors], "NCAppBranding").faults.first?.effect?.contains(
        "slashes") == true)
    #expect(try report([vendors], "NCAppBranding").faults.map(\.check) == ["push proxy"])
    #expect(
      try report(["http://push.example.org"], "NCAppBranding").faults.map(\.found) == [
        "http://push.example.org"
      ])
    for other in [
      "https://else.example.com", "https://push.example.org.example.com", "xhttps://push.example.org",
    ] {
      let report = try report([other], "NCAppBranding")
      #expect(
        report.bad.count == 1 && report.bad.first?.contains("push proxy") == true, "\(other): \(report.bad)")
    }
  }

  @Test func `A package that is cut off or damaged is refused or read in part`() throws {
    var random = SplitMix(seed: 28)
    let packages = [Self.talkAPK, Self.talkAAB.zip, try zulipIPA().zip]
    for package in packages {
      for end in stride(from: 0, to: package.count, by: 41) {
        _ = try? App.checkPackage(package.prefix(end), .example())
      }
      for _ in 0..<150 {
        var damaged = package
        for _ in 0..<Int.random(in: 1...8, using: &random) {
          damaged[Int.random(in: 0..<damaged.count, using: &random)] = .random(in: 0...255, using: &random)
        }
        _ = try? App.checkPackage(damaged, .example())
      }
    }
  }

  /// The SHA-256 of the certificate that `apksigner` has signed the APK with, as `apksigner verify --print-certs` says it.
  private static let fingerprint =
    "4C:C4:6E:C9:D9:09:7C:4D:2E:88:3B:44:C0:18:E4:5E:AD:D8:6B:A6:57:7B:8E:70:9F:D5:B4:16:B2:19:40:7C"

  @Test func `A package that is not signed is a fault, whether an APK or a bundle`() throws {
    var apk = App()
    let parts = try ZipReader(Self.talkAPK)
    for name in ["AndroidManifest.xml", "resources.arsc", "classes.dex"] { apk.files[name] = parts[name] }
    var bundle = Self.talkAAB
    bundle.files["META-INF/K.EC"] = Data([0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF])
    for app in [apk, bundle] {
      let report = try app.checkPackage(.example())
      #expect(report.faults.map(\.found) == ["there is no signature"])
      #expect(report.bad.count == 1)
    }
    // The signature of Java's alone, which an APK for old versions has.
    apk.files["META-INF/K.EC"] = parts["META-INF/K.EC"]
    let found = try apk.checkPackage(.example()).findings.first { $0.check == "signing certificate" }
    #expect(found?.value == Self.fingerprint)
  }

  @Test func `A debug certificate is named`() throws {
    func element(_ tag: UInt8, _ parts: Data...) -> Data {
      let content = parts.reduce(Data(), +)
      return Data([tag, UInt8(content.count)]) + content
    }
    let certificate = element(0x30, element(0x0C, Data("Android Debug".utf8)))
    let signed = element(
      0x30, Data([0x02, 0x01, 0x01]), element(0x31), element(0x30), element(0xA0, certificate), element(0x31))
    var bundle = Self.talkAAB
    bundle.files["META-INF/K.EC"] = element(0x30, element(0x06, Data([42, 3, 4])), element(0xA0, signed))
    let report = try bundle.checkPackage(.example())
    #expect(report.bad.count == 1)
    #expect(report.findings.first { $0.standing == .warning }?.remark == "a debug certificate")
  }

  @Test func `An archive that promises more than it holds is not unpacked`() throws {
    // The uncompressed size in the central directory: 24 bytes after its signature, in the first entry.
    var bomb = Self.talkAPK
    let directory = try #require(bomb.range(of: Data([0x50, 0x4B, 0x01, 0x02]))).lowerBound
    bomb.replaceSubrange(directory + 24..<directory + 28, with: [0xFF, 0xFF, 0xFF, 0x7F])
    let entry = String(decoding: bomb[directory + 46..<directory + 65], as: UTF8.self)
    #expect(entry == "AndroidManifest.xml")
    #expect(throws: Fault.self) { try App.checkPackage(bomb, .example()) }
  }

  @Test func `A size that is not that of the entry is an error, and too large a one is not tried`() throws {
    let directory = try #require(Self.talkAPK.range(of: Data([0x50, 0x4B, 0x01, 0x02]))).lowerBound
    let size = Int(Self.talkAPK[directory + 24]) | Int(Self.talkAPK[directory + 25]) << 8
    func contents(_ size: Int) throws -> Int? {
      var archive = Self.talkAPK
      archive.replaceSubrange(directory + 24..<directory + 28, with: [size].littleEndian32)
      return try ZipArchive(archive, Budget()).contents(of: "AndroidManifest.xml")?.count
    }
    #expect(try contents(size) == size)
    for wrong in [size - 1, size + 1, Budget.part] {
      #expect(throws: ZipArchive.Failure.self) { try contents(wrong) }
    }
    #expect(throws: Budget.Exceeded.self) { try contents(Budget.part + 1) }
  }

  @Test func `The end of an archive is looked for where its longest comment may begin, and no further`()
    throws
  {
    #expect(throws: Never.self) { try ZipArchive(Self.talkAPK + Data(count: 65_535), Budget()) }
    #expect(throws: ZipArchive.Failure.self) {
      try ZipArchive(Self.talkAPK + Data(count: 65_536), Budget())
    }
  }

  @Test(arguments: ["", "PK", "no archive at all"]) func `Other files are no package`(text: String) throws {
    #expect(throws: Fault.self) { try App.checkPackage(Data(text.utf8), .example()) }
  }
}
