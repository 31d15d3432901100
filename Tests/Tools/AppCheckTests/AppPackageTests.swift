import Foundation
import Providers
import Sealing
import TestSupport
import Testing

@testable import AppCheck
@testable import Settings

/// Built packages. The manifests and resources are Android's own: `aapt2 link` has made them of a manifest and a
/// `setup.xml`, once in the binary form and once as protocol buffers.
@Suite struct AppPackageTests {
  private static let talkAPK = Data(PackageResources.talk_apk)
  private static let talkAAB = {
    var bundle = App()
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
          "push proxy: https://push.example.org", "Firebase project: example-chat: a project of Keys/fcm",
          "Firebase app: 1:123456789012:android:0123456789abcdef", "applicationId: com.example.talk",
        ])
    }
    #expect(apk.findings.map(\.file).last == "AndroidManifest.xml")
    #expect(aab.findings.map(\.file).first == "base/resources.pb, nc_push_server_url")
  }

  @Test func `The values of a package are compared like those of a source`() throws {
    let report = try App.checkPackage(Self.talkAPK, .example(publicURL: "https://push.example.com"))
    #expect(report.faults.map(\.check) == ["push proxy"])
    #expect(report.faults.first?.file == "resources.arsc, nc_push_server_url")
  }

  /// Zulip's app for Android: Dart code, of which texts can be found, and a manifest.
  private func zulipAPK(code: String) throws -> App {
    var app = App(["lib/arm64-v8a/libapp.so": "\u{0}code\u{0}\(code)\u{0}more"])
    let parts = try ZipReader(Self.talkAPK)
    app.files["AndroidManifest.xml"] = parts["AndroidManifest.xml"]
    return app
  }

  @Test func `The bouncer key is found in compiled code`() throws {
    let active = AppCheck.Service.active.publicKeyBase64
    let good = try zulipAPK(code: "\(active)\u{0}example-chat").checkPackage(.example())
    #expect(good.bad == [])
    #expect(good.findings.first?.file == "lib/arm64-v8a/libapp.so")
    let vendors = try zulipAPK(code: "mm4F/3WLqECY637NulC5j/ZeHkmpwmtlfIxwt8MfREM=\u{0}zulip-android")
      .checkPackage(.example())
    #expect(vendors.faults.map(\.check) == ["bouncer key", "Firebase project"])
    let other = try zulipAPK(code: "nothing of that").checkPackage(.example())
    #expect(other.faults == [])
    #expect(other.skipped.map(\.check) == ["bouncer key", "Firebase project"])
  }

  /// An app for iOS: binary property lists, and provisioning profiles with their list in clear.
  private func ipa(
    _ id: String = "org.example.chat", extensionID: String = "org.example.chat.NotificationService",
    group: String = "group.org.example.chat", environment: String = "production", code: [String: String]
  ) throws -> App {
    var app = App(code.reduce(into: [:]) { $0["Payload/Chat.app/\($1.key)"] = "\u{0}\($1.value)\u{0}" })
    let profile: [String: Any] = [
      "TeamIdentifier": ["TEAM567890"],
      "Entitlements": [
        "aps-environment": environment, "com.apple.security.application-groups": [group],
      ],
    ]
    let list = try PropertyListSerialization.data(fromPropertyList: profile, format: .xml, options: 0)
    for (folder, id) in [("", id), ("PlugIns/Service.appex/", extensionID)] {
      app.files["Payload/Chat.app/\(folder)Info.plist"] = try PropertyListSerialization.data(
        fromPropertyList: [
          "CFBundleIdentifier": id, "CFBundleExecutable": "Chat",
          "UIBackgroundModes": ["remote-notification", "voip"],
        ], format: .binary,
        options: 0)
      app.files["Payload/Chat.app/\(folder)embedded.mobileprovision"] =
        Data([0x30, 0x82, 0xFF]) + list + Data([0, 1])
    }
    return app
  }

  private func zulipIPA() throws -> App {
    try ipa(code: [
      "Frameworks/App.framework/App": "\(AppCheck.Service.active.publicKeyBase64)\u{0}example-chat"
    ])
  }

  @Test func `An IPA of Zulip's app is read`() throws {
    let report = try zulipIPA().checkPackage(.example())
    #expect(report.bad == [])
    #expect(
      Set(report.findings.map(\.check)).isSuperset(of: [
        "bouncer key", "bundle id", "team", "aps-environment",
      ]))
  }

  @Test func `An IPA for the wrong environment or topic gets nothing`() throws {
    let code = ["Frameworks/App.framework/App": AppCheck.Service.active.publicKeyBase64 + "\u{0}example-chat"]
    let development = try ipa(environment: "development", code: code).checkPackage(.example())
    #expect(Set(development.faults.map(\.check)) == ["aps-environment"])
    #expect(
      try ipa(environment: "development", code: code).checkPackage(.example(environment: .sandbox)).isGood)
    let vendors = try ipa("org.zulip.Zulip", extensionID: "org.zulip.Zulip.NotificationService", code: code)
      .checkPackage(.example())
    #expect(Set(vendors.faults.map(\.check)) == ["bundle id"])
  }

  @Test func `An IPA of Nextcloud's apps has its proxy in the code`() throws {
    func report(_ proxy: String, _ kind: String) throws -> AppCheck.Report {
      try ipa(
        "org.example.talk", extensionID: "org.example.talk.Share", code: ["Chat": "\(kind)\u{0}\(proxy)"]
      )
      .checkPackage(.example())
    }
    #expect(try report("https://push.example.org", "NCAppBranding").bad == [])
    #expect(
      try report("https://push.example.org", "NCBrandOptions").app == "Nextcloud Files, a built package")
    #expect(
      try report("https://push.example.org/", "NCAppBranding").faults.first?.effect?.contains("slashes")
        == true)
    #expect(
      try report("https://push-notifications.nextcloud.com", "NCAppBranding").faults.map(\.check) == [
        "push proxy"
      ])
    #expect(try report("https://else.example.com", "NCAppBranding").skipped.map(\.check) == ["push proxy"])
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

  /// A certificate, as far as it matters here: any element of DER.
  private static let certificate = Data([0x30, 0x03, 0x02, 0x01, 0x07])
  /// Its SHA-256, by `sha256sum`.
  private static let fingerprint =
    "EC:ED:A6:10:45:DB:14:5D:20:9D:EB:F0:D2:45:E4:4B:5B:1C:C5:2E:3C:04:26:6A:A2:A4:86:FD:B6:A2:B2:85"

  @Test func `The certificate that an APK is signed with is named`() throws {
    func prefixed(_ parts: Data...) -> Data { parts.reduce(Data()) { $0 + [$1.count].littleEndian32 + $1 } }
    let signed = prefixed(Data([1, 2, 3])) + prefixed(prefixed(Self.certificate)) + prefixed(Data())
    let scheme = prefixed(prefixed(prefixed(signed) + prefixed(Data()) + prefixed(Data())))
    for id in [0x7109_871A, 0xF053_68C0] {
      let pairs =
        [2 + 4, 0, 0x4272_6577].littleEndian32 + [0, 0] + [scheme.count + 4, 0, id].littleEndian32 + scheme
      let size = [pairs.count + 24, 0].littleEndian32
      let block = size + pairs + size + Data("APK Sig Block 42".utf8)
      var apk = Self.talkAPK
      let end = apk.count - 22
      let directory = (0..<4).reduce(0) { $0 | Int(apk[end + 16 + $1]) << (8 * $1) }
      apk.replaceSubrange(end + 16..<end + 20, with: [directory + block.count].littleEndian32)
      apk.insert(contentsOf: block, at: directory)
      let report = try App.checkPackage(apk, .example())
      #expect(report.bad == [])
      let found = report.findings.first { $0.check == "signing certificate" }
      #expect(
        found?.found.hasPrefix("\(Self.fingerprint): SHA-256, to be registered with com.example.talk") == true
      )
    }
  }

  @Test func `The certificate that a bundle is signed with is named`() throws {
    func element(_ tag: UInt8, _ parts: Data...) -> Data {
      let content = parts.reduce(Data(), +)
      return Data([tag, 0x81, UInt8(content.count)]) + content
    }
    let integer = Data([0x02, 0x01, 0x01])
    let signed = element(
      0x30, integer, element(0x31), element(0x30), element(0xA0, Self.certificate), element(0x31))
    var bundle = Self.talkAAB
    bundle.files["META-INF/KEY.RSA"] = element(0x30, element(0x06, Data([1])), element(0xA0, signed))
    let found = try bundle.checkPackage(.example()).findings.first { $0.check == "signing certificate" }
    #expect(found?.found.hasPrefix(Self.fingerprint) == true)
    #expect(found?.file == nil)
    bundle.files["META-INF/KEY.RSA"] = Data([0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF])
    #expect(try bundle.checkPackage(.example()).bad == [])
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
      #expect(throws: ZipArchive.Failure.unreadable) { try contents(wrong) }
    }
    #expect(throws: ZipArchive.Failure.tooLarge) { try contents(Budget.part + 1) }
  }

  @Test func `The end of an archive is looked for where its longest comment may begin, and no further`()
    throws
  {
    #expect(throws: Never.self) { try ZipArchive(Self.talkAPK + Data(count: 65_535), Budget()) }
    #expect(throws: ZipArchive.Failure.notZip) {
      try ZipArchive(Self.talkAPK + Data(count: 65_536), Budget())
    }
  }

  @Test(arguments: ["", "PK", "no archive at all"]) func `Other files are no package`(text: String) throws {
    #expect(throws: Fault.self) { try App.checkPackage(Data(text.utf8), .example()) }
  }
}
