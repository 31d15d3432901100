import Foundation
import HTTP
import Providers
import Sealing
import TestSupport
import Testing

@testable import AppCheck
@testable import Settings

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

  @Test(arguments: examples)
  func `A file that has moved is named`(example: (name: String, app: App)) throws {
    for name in example.app.files.keys.sorted()
    where !name.hasSuffix("strings.xml") && !name.hasSuffix(".json") {
      var app = example.app
      app.files["moved/\(name.replacing("/", with: "-"))"] = app.files.removeValue(forKey: name)
      guard let report = try? app.check(.example()), !name.contains("/qa/"),
        !name.hasSuffix("Release.xcconfig")
      else { continue }
      // What a build cannot do without is a fault where it is named; the rest could not be looked at.
      let isExpected = name.hasSuffix(".entitlements") || name.contains("/gplay/")
      if isExpected {
        #expect(!report.faults.isEmpty, "without \(name)")
      } else {
        #expect(report.faults == [], "without \(name)")
        #expect(
          !report.skipped.isEmpty || name.hasSuffix(".java") || name.hasSuffix("Info.plist")
            || name.hasSuffix("Extension.plist"), "without \(name)")
      }
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

  @Test func `A comment of build settings begins with two slashes`() {
    let lines = XcodeProject.lines(of: Data("A = b/c // d\n// e\n/\nURL = https:/$()/x/".utf8))
    #expect(lines.map(\.text) == ["A = b/c", "", "/", "URL = https:/$()/x/"])
  }

  @Test func `What a service expects is read again as it was written`() throws {
    let service = try AppCheck.Service.example(publicURL: "https://push.example.org/a")
    let again = try AppCheck.Service(Array(service.json.text.utf8), path: "expected.json")
    #expect(again.json == service.json)
    #expect(again.defaultProject == "example-chat" && again.address == "https://push.example.org/a")
    #expect(again.keys.filter(\.isActive).map(\.text) == [AppCheck.Service.active.publicKeyBase64])
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

  @Test func `A checkout behind a link is read`() throws {
    try withTemporaryFolder { folder in
      let app = folder.appending(path: "talk")
      try App.talkForAndroid.write(to: app)
      let link = folder.appending(path: "link")
      try FileManager.default.createSymbolicLink(at: link, withDestinationURL: app)
      #expect(try AppCheck(service: .example()).report(on: .init(path: link.path)).bad == [])
    }
  }

  @Test func `A brand's folders and project may have other names`() throws {
    var app = App()
    for (name, data) in App.talkForIOS.files {
      let text = String(decoding: data, as: UTF8.self)
      app[
        name.replacing("NextcloudTalk/", with: "SumTalk/").replacing("NextcloudTalk.x", with: "SumTalk.x")] =
        text.replacing("NextcloudTalk/", with: "SumTalk/")
    }
    #expect(app.files.count == App.talkForIOS.files.count)
    #expect(try app.check(.example()).bad == [])
    app["SumTalk/Settings/NCAppBranding.m"].replace("https://push", with: "https://pull")
    #expect(try app.check(.example()).faults.map(\.check) == ["push proxy"])
  }

  @Test func `A brand's constants may stand in a header`() throws {
    var app = App.talkForIOS
    let branding = "NextcloudTalk/Settings/NCAppBranding.m"
    app[branding].replace("@\"https://push.example.org\"", with: "PUSH_SERVER")
    app[branding] = """
      #if __has_include("Local.h")
      #import "Local.h"
      #else
      #define PUSH_SERVER @"https://push.example.com"
      #endif
      \(app[branding])
      """
    #expect(try app.check(.example()).faults.map(\.found) == ["https://push.example.com"])
    app["NextcloudTalk/Settings/Local.h"] = "#define PUSH_SERVER @\"https://push.example.org\"\n"
    #expect(try app.check(.example()).bad == [])
    app["NextcloudTalk/Settings/Local.h"] = "#define PUSH_SERVER @\"https://push.example.net\"\n"
    #expect(try app.check(.example()).faults.map(\.found) == ["https://push.example.net"])
  }

  @Test func `The flavour that is named is looked at`() throws {
    func check(_ flavor: String?) throws -> AppCheck.Report {
      try withTemporaryFolder { folder in
        var app = App.filesForAndroid
        app["app/src/huawei/res/values/setup.xml"] =
          "<resources><string name=\"push_server_url\">https://push.example.com</string></resources>"
        try app.write(to: folder)
        return try AppCheck(service: .example()).report(on: .init(path: folder.path, flavor: flavor))
      }
    }
    #expect(try check(nil).bad == [])
    #expect(try check("gplay").bad == [])
    let huawei = try check("huawei")
    #expect(huawei.faults.first?.file == "app/src/huawei/res/values/setup.xml")
    #expect(huawei.findings.contains { $0.found == "org.example.files.huawei" })
    #expect(try check("qa").faults.contains { $0.found == "com.nextcloud.android.qa, the vendor's own" })
    #expect(throws: Fault.self) { try check("none") }
  }

  @Test func `With several topics and projects the apps file knows which are Talk's`() throws {
    var ios = App.talkForIOS
    ios["NextcloudTalk.xcodeproj/project.pbxproj"].replace("org.example.talk", with: "com.nextcloud.Talk")
    let bundle = try ios.check(.example()).faults.first { $0.check == "bundle id" }
    #expect(bundle?.expected == "org.example.talk")
    var android = App.talkForAndroid
    android["app/src/main/res/values/setup.xml"].replace("example-chat", with: "nextcloud-a7dea")
    let apps =
      #"[{"name": "Own", "user_agent": "\\(Android\\) Nextcloud-Talk", "kind": "talk", "platform": "android", "fcm_project": "talk-project"}]"#
    let report = try android.check(.example(apps: apps))
    #expect(report.faults.map(\.check) == ["Firebase project"])
    #expect(report.faults.first?.expected == "talk-project, with its service account in Keys/fcm")
  }

  @Test func `An app of the vendor's is told of no value of the vendor's`() throws {
    for (name, app) in Self.examples {
      var untouched = app
      for file in app.files.keys {
        for (own, vendors) in [
          ("group.org.example.talk", "group.com.nextcloud.Talk"),
          ("group.org.example.chat", "group.com.zulip.app"),
          ("group.org.example.files", "group.it.twsweb.Crypto-Cloud"),
          ("group.org.example.apps", "group.com.nextcloud.apps"),
          ("org.example.talk", name.hasSuffix("iOS") ? "com.nextcloud.Talk" : "com.nextcloud.talk2"),
          (
            "org.example.chat",
            name == "Zulip" && file.hasPrefix("android") ? "com.zulipmobile" : "org.zulip.Zulip"
          ),
          ("org.example.files", "com.nextcloud.client"), ("example-chat", "nextcloud-a7dea"),
          ("https://push.example.org", Vendor.proxy), ("TEAM567890", "NKUJUXUJ3B"),
        ] { untouched[file].replace(own, with: vendors) }
      }
      let report = try untouched.check(.example())
      #expect(report.faults.count > 2, "\(name)")
      for finding in report.findings {
        let expected = (finding.expected ?? "").replacing("ios/Flutter", with: "")
        for vendors in ["nextcloud", "zulip", "NKUJUXUJ3B"] where !expected.contains("nextcloud.apps_file") {
          #expect(!expected.lowercased().contains(vendors.lowercased()), "\(finding)")
        }
      }
    }
  }

  @Test func `Another folder is no app`() throws {
    #expect(throws: Fault.self) { try App(["README.md": "hello"]).check(.example()) }
    #expect(throws: Fault.self) {
      try AppCheck(service: .example()).report(on: .init(path: "/nowhere/at/all"))
    }
  }
}
