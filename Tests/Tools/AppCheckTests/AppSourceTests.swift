import Foundation
import HTTP
import Providers
import Sealing
import TestSupport
import Testing

@testable import AppCheck
@testable import Basics

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
    where !name.hasSuffix("strings.xml") && !name.hasSuffix(".json") && !name.hasSuffix("AndroidManifest.xml")
      && !name.contains("/services/")
    {
      var app = example.app
      app.files["moved/\(name.replacing("/", with: "-"))"] = app.files.removeValue(forKey: name)
      guard let report = try? app.check(.example()), !name.contains("/qa/"),
        !name.hasSuffix("Release.xcconfig")
      else { continue }
      // What a build cannot do without is a fault where it is named; the rest could not be looked at.
      let isExpected = name.hasSuffix(".entitlements") || name.contains("/gplay/")
      #expect(report.faults.isEmpty != isExpected, "without \(name): \(report.bad)")
      #expect(isExpected || !report.skipped.isEmpty || name.contains("/java/"), "without \(name)")
    }
  }

  @Test func `A setting that is missing in its file is not found where it was`() throws {
    var app = App.zulip
    app["lib/model/push_device.dart"] = "// moved"
    app["lib/firebase_options.dart"] =
      "const kFirebaseOptionsAndroid = FirebaseOptions(\n  apiKey: 'AIzaSyExampleExampleExampleExampleExamp',\n);"
    let report = try app.check(.example())
    #expect(report.faults == [])
    #expect(
      report.skipped.map(\.found) == [
        "not found where it was: bouncerPublicKey in lib/model/push_device.dart"
      ]
        + [
          "Android.projectId", "Android.messagingSenderId", "Android.appId", "Ios.projectId",
          "Ios.messagingSenderId", "Ios.appId", "Ios.apiKey",
        ].map { "not found where it was: kFirebaseOptions\($0) in lib/firebase_options.dart" })
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
    #expect(report.skipped.map(\.places.count) == [2])
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
    func json(_ service: AppCheck.Service) -> JSON { .object(AppCheck.Service.members.object(service)) }
    let again = try AppCheck.Service(Array(json(service).text.utf8), path: "expected.json")
    #expect(json(again) == json(service))
    #expect(again.defaultProject == "example-chat" && again.address == "https://push.example.org/a")
    #expect(again.keys.filter(\.isActive).map(\.text) == [AppCheck.Service.active.publicKeyBase64])
  }

  @Test func `Links are followed inside the app, and one that leads out of it is named`() throws {
    func check(_ part: String, _ target: String) throws -> AppCheck.Report {
      try withTemporaryFolder { folder in
        let app = folder.appending(path: "app")
        try App.zulip.write(to: app)
        let link = app.appending(path: part), elsewhere = folder.appending(path: target)
        try FileManager.default.moveItem(at: link, to: elsewhere)
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: elsewhere)
        // Two that lead back to where they are: whoever follows them has twice as many files with each step.
        for name in ["ios/app", "ios/again"] {
          try FileManager.default.createSymbolicLink(at: app.appending(path: name), withDestinationURL: app)
        }
        return try AppCheck(service: .example()).report(on: .init(path: app.path))
      }
    }
    // The entitlements are named by their path, so that the folder in its other place is not enough.
    #expect(try check("ios/Runner", "app/shared").bad == [])
    let outside = try check("lib", "library")
    #expect(outside.faults == [])
    #expect(
      outside.skipped.contains {
        $0.found == "is a link that leads out of the app" && $0.file == "lib"
      },
      "\(outside.bad)")
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
        app["app/src/huawei/AndroidManifest.xml"] = app["app/src/gplay/AndroidManifest.xml"]
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
    #expect(try check("qa").faults.contains { $0.found == "com.nextcloud.android.qa: the vendor's own" })
    #expect(throws: Fault.self) { try check("none") }
  }

  @Test func `With several topics and projects the apps file knows which are Talk's`() throws {
    var ios = App.talkForIOS
    ios["NextcloudTalk.xcodeproj/project.pbxproj"].replace("org.example.talk", with: "com.nextcloud.Talk")
    let bundle = try ios.check(.example()).faults.first { $0.check == "bundle id" }
    #expect(bundle?.expected == "org.example.talk, also before the names of extensions")
    #expect(bundle?.value == "com.nextcloud.Talk")
    #expect(bundle?.places.count == 10)
    var android = App.talkForAndroid
    android["app/src/main/res/values/setup.xml"].replace("example-chat", with: "nextcloud-a7dea")
    let apps =
      #"[{"name": "Own", "user_agent": "\\(Android\\) Nextcloud-Talk", "kind": "talk", "platform": "android", "fcm_project": "talk-project"}]"#
    let report = try android.check(.example(apps: apps))
    #expect(report.faults.map(\.check) == ["Firebase project"])
    #expect(report.faults.first?.expected == "talk-project, with its service account in Keys/fcm")
  }

  @Test func `What cannot be read is never passed`() throws {
    func bad(_ change: (inout App) -> Void, in example: App) throws -> [String] {
      var app = example
      change(&app)
      let report = try app.check(.example())
      return report.faults.isEmpty ? report.bad : ["fault"] + report.bad
    }
    let (branding, project) = (
      "NextcloudTalk/Settings/NCAppBranding.m", "NextcloudTalk.xcodeproj/project.pbxproj"
    )
    let (setup, build) = ("app/src/main/res/values/setup.xml", "app/build.gradle.kts")
    // A mark of the encoding is no text.
    for (example, name) in [(App.talkForIOS, branding), (.talkForIOS, project), (.talkForAndroid, setup)] {
      #expect(try bad({ $0[name] = "\u{FEFF}" + $0[name] }, in: example) == [], "\(name)")
    }
    let large = String(repeating: "// nothing\n", count: 400_000)
    #expect(try bad({ $0[project] += large }, in: .talkForIOS).contains { $0.contains("has more than 4 MB") })
    // Never the project of another app in its place.
    let macos = try bad(
      {
        $0["macos/Runner.xcodeproj/project.pbxproj"] = $0["ios/Runner.xcodeproj/project.pbxproj"]
        $0["ios/Runner.xcodeproj/project.pbxproj"] = "{"
      }, in: .zulip)
    #expect(
      macos.contains { $0.contains("the project cannot be read") } && !macos.contains("fault"), "\(macos)")
    for line in [
      #"resValue("string", "nc_push_server_url", project.property("proxy") as String)"#,
      #"resValue("string", "project_id", System.getenv("PROJECT"))"#,
      #"resValue("string", "project_id", "$project")"#,
      #"resValue("string", name, "text")"#,
    ] {
      let found = try bad({ $0[build].replace("minSdk = 28", with: line) }, in: .talkForAndroid)
      #expect(found.count == 1 && found[0].hasPrefix("skipped"), "\(line): \(found)")
    }
    for line in ["main.res.srcDirs(brandFolder)", #"getByName("main") { res.srcDir("src/none/res") }"#] {
      let found = try bad(
        { $0[build].replace("minSdk = 28", with: "}\n sourceSets {\n \(line)\n") }, in: .talkForAndroid)
      #expect(found.count == 1 && found[0].hasPrefix("skipped"), "\(line): \(found)")
    }
  }

  @Test func `A folder of resources that the build adds counts, and a file that it applies`() throws {
    var app = App.talkForAndroid
    app["app/build.gradle.kts"].replace(
      "minSdk = 28", with: "}\n sourceSets {\n getByName(\"main\") { res.srcDirs(\"src/brand/res\") }\n")
    app["app/src/brand/res/values/brand.xml"] =
      "<resources><string name=\"nc_push_server_url\">https://old.example.org</string></resources>"
    #expect(try app.check(.example()).faults.map(\.file) == ["app/src/brand/res/values/brand.xml"])
    for line in [#"apply(from = "brand.gradle")"#, "apply from: \"$rootDir/app/brand.gradle\""] {
      var app = App.talkForAndroid
      app["app/build.gradle.kts"] += "\n\(line)\n"
      #expect(try app.check(.example()).skipped.count == 1)
      app["app/brand.gradle"] =
        "android { defaultConfig { resValue 'string', 'nc_push_server_url', 'https://a.example' } }"
      #expect(try app.check(.example()).faults.map(\.file) == ["app/brand.gradle"])
    }
  }

  @Test func `The version catalog says which plugin reads google-services.json`() throws {
    var app = App.filesForAndroid
    app["app/build.gradle.kts"] =
      "plugins {\n  alias(libs.plugins.googleServices)\n}\n" + app["app/build.gradle.kts"]
    #expect(try app.check(.example()).bad == [])
    app["gradle/libs.versions.toml"] = """
      [plugins]
      # google = { id = "com.google.gms.google-services" }
      googleServices = { id = "com.google.gms.google-services", version = "4.4.0" }
      """
    #expect(try app.check(.example()).faults.map(\.file) == ["app/src/gplay/google-services.json"])
  }

  @Test func `What is wrong with a google-services.json that the build reads is one fault`() throws {
    let file = "app/src/gplay/google-services.json"
    var app = App.filesForAndroid
    app["app/build.gradle.kts"] =
      "plugins { id(\"com.google.gms.google-services\") }\n" + app["app/build.gradle.kts"]
    // As it stands in the vendor's source; and after its package name has been changed, or more.
    func check(
      _ package: String, number: String = "", project: String = "", app id: String = "", key: String = ""
    ) throws
      -> AppCheck.Report
    {
      app[file] = """
        {
          "project_info": {
            "project_number": "\(number)",
            "project_id": "\(project)"
          },
          "client": [{
            "client_info": {
              "mobilesdk_app_id": "\(id)",
              "android_client_info": {"package_name": "\(package)"}
            },
            "api_key": [{"current_key": "\(key)"}]
          }]
        }
        """
      return try app.check(.example())
    }
    let (number, project) = ("123456789012", "example-chat")
    let (id, key) = ("1:123456789012:android:0123456789abcdef", "AIzaSyExampleExampleExampleExampleExamp")
    let foreign = try check("com.nextcloud.client")
    #expect(foreign.faults.map(\.found) == ["org.example.files: an app that it does not know"])
    let empty = try check("org.example.files")
    #expect(empty.bad == ["fault google-services.json \(file):3: it is empty"])
    #expect(empty.faults.first?.places.map(\.line) == [3, 4, 8, 11])
    let partly = try check("org.example.files", number: number, project: project, app: id)
    #expect(partly.bad == ["fault google-services.json \(file):11: it is empty"])
    let good = try check("org.example.files", number: number, project: project, app: id, key: key)
    #expect(good.bad == [])
    let wrong = try check("org.example.files", number: number, project: "other", app: id, key: key)
    #expect(wrong.bad == ["fault Firebase project \(file):4: other"])
  }

  @Test func `A variant of two dimensions has one flavour of each`() throws {
    func check(_ flavor: String?) throws -> AppCheck.Report {
      try withTemporaryFolder { folder in
        var app = App.talkForAndroid
        app["app/build.gradle.kts"].replace(
          "minSdk = 28",
          with: """
            }
            flavorDimensions += listOf("default", "brand")
            productFlavors {
              create("one") { dimension = "brand" }
              create("two") {
                dimension = "brand"
                applicationIdSuffix = ".two"
              }
            """)
        app["app/src/two/res/values/a.xml"] =
          "<resources><string name=\"project_id\">two</string></resources>"
        try app.write(to: folder)
        return try AppCheck(service: .example()).report(on: .init(path: folder.path, flavor: flavor))
      }
    }
    #expect(try check(nil).flavor == "gplayOne")
    #expect(try check(nil).bad == [])
    for name in ["two", "gplayTwo"] {
      let report = try check(name)
      #expect(report.flavor == "gplayTwo")
      #expect(report.faults.map(\.file) == ["app/src/two/res/values/a.xml"])
      #expect(report.findings.contains { $0.value == "org.example.talk.two" })
    }
    #expect(throws: Fault.self) { try check("twoGplay") }
  }

  /// Talk with the distributor that is embedded in it has push without a Firebase project of its own.
  @Test func `Firebase's values count only where the flavour has its messaging`() throws {
    func check(_ app: App, _ flavor: String) throws -> [String] {
      try withTemporaryFolder { folder in
        var app = app
        app["app/src/main/res/values/setup.xml"].replace("example-chat", with: "nextcloud-a7dea")
        try app.write(to: folder)
        return try AppCheck(service: .example()).report(on: .init(path: folder.path, flavor: flavor)).bad
      }
    }
    #expect(try check(.talkForAndroid, "generic") == [])
    #expect(try check(.talkForAndroid, "gplay").count == 1)
    #expect(try check(.filesForAndroid, "generic").map { $0.prefix(26) } == ["fault push in this build a"])
  }

  @Test func `A brand may rename the packages of its code`() throws {
    for example in [App.talkForAndroid, .filesForAndroid] {
      var app = App()
      for (name, data) in example.files {
        app.files[
          name.replacing("com/nextcloud/talk", with: "com/gcc").replacing("com/owncloud", with: "com/gcc")] =
          data
      }
      #expect(try app.check(.example()).bad == [])
    }
  }

  /// What one edit has made wrong is one fault, with all its places.
  @Test(arguments: [
    (App.zulip, "lib/firebase_options.dart", "'123456789012'", "'835904834568'"),
    (.zulip, "lib/firebase_options.dart", "'123456789012'", "'12345678901x'"),
    (.zulip, "lib/firebase_options.dart", "AIzaSyExample", "BIzaSyExample"),
    (.zulip, "ios/Runner.xcodeproj/project.pbxproj", "org.example.chat", "org.zulip.Zulip"),
    (.zulip, "ios/Runner.xcodeproj/project.pbxproj", "= org.example.chat;", "= org.example.chta;"),
    (.zulip, "ios/Flutter/Zulip.xcconfig", "group.org.example.chat", "group.com.zulip.app"),
    (
      .talkForIOS, "NextcloudTalk/Settings/NCAppBranding.m", "group.org.example.talk",
      "group.com.nextcloud.Talk"
    ),
    (.talkForIOS, "NextcloudTalk/Settings/NCAppBranding.m", "group.org.example.talk", "org.example.talk"),
    (
      .talkForIOS, "NextcloudTalk/NextcloudTalk.entitlements", "group.org.example.apps",
      "group.com.nextcloud.apps"
    ),
    (
      .talkForIOS, "NextcloudTalk.xcodeproj/project.pbxproj", "NextcloudTalk.entitlements", "Own.entitlements"
    ),
    (.talkForIOS, "NextcloudTalk.xcodeproj/project.pbxproj", "TEAM567890", "NKUJUXUJ3B"),
    (.talkForAndroid, "app/src/main/res/values/setup.xml", ">123456789012<", ">829118773643<"),
    (.talkForAndroid, "app/src/main/res/values/setup.xml", ">123456789012<", "><"),
  ]) func `One cause is one fault`(app: App, file: String, old: String, new: String) throws {
    var app = app
    #expect(app[file].contains(old))
    app[file].replace(old, with: new)
    let report = try app.check(.example())
    #expect(report.faults.count == 1, "\(report.bad)")
    #expect(report.skipped == [])
  }

  @Test func `A version of Zulip's app without encryption needs no extension`() throws {
    var app = App.zulip
    app["lib/model/push_device.dart"] = "class PushDeviceManager {}\n"
    app["ios/Runner.xcodeproj/project.pbxproj"] = App.xcodeProject(
      [
        .init(
          name: "Runner", kind: "application", id: "org.example.chat",
          entitlements: "Runner/Runner.entitlements",
          settings: ["INFOPLIST_FILE = Runner/Info.plist"])
      ], base: "Release.xcconfig")
    let report = try app.check(.example())
    #expect(report.faults == [])
    #expect(report.skipped.map(\.check) == ["bouncer key"])
  }

  /// A cut is in the middle of a line of values or of what is around them: twenty in each file.
  @Test(arguments: examples) func `A file that is cut off is never passed`(example: (name: String, app: App))
    throws
  {
    // What nothing reads: a class without the line that counts, and a file that this build does not have.
    for (name, data) in example.app.files.sorted(by: { $0.key < $1.key })
    where !data.isEmpty && !name.contains("/qa/") && !name.hasSuffix("google-services.json")
      && !name.contains("/services/")
    {
      for part in 0..<20 {
        var app = example.app
        app.files[name] = data.prefix(data.count * part / 20)
        let report = try? app.check(.example())
        #expect(
          report.map { !$0.isGood || !$0.skipped.isEmpty } ?? true,
          "\(name), cut at \(data.count * part / 20)")
      }
    }
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
