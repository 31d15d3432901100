import Foundation
import Platform
import Providers
import Sealing
import TestSupport
import Testing

@testable import AppCheck
@testable import Operator

/// Mistakes that somebody makes who rebuilds an app, one at a time in an app that fits; and edits that change nothing.
@Suite struct AppMistakesTests {
  /// A change to one file, and the finding that has to come of it.
  struct Mistake: CustomTestStringConvertible, Sendable {
    fileprivate(set) var app = App()
    fileprivate(set) var file = ""
    let old: String
    let new: String
    /// Empty: the app is the same after the change.
    let check: String
    /// What the line of the finding contains; nil: the new text. Empty: the finding has no line.
    var line: String?
    /// The file of the finding, if it is another one.
    var place: String?
    var standing = Finding.Standing.fault
    /// Parts of what must be there, and of what happens otherwise.
    var must = ""
    var effect = ""

    var testDescription: String { "\(file): \(old) -> \(new)" }

    init(
      _ old: String, _ new: String, _ check: String = "", line: String? = nil, in place: String? = nil,
      _ standing: Finding.Standing = .fault, must: String = "", effect: String = ""
    ) {
      (self.old, self.new, self.check) = (old, new, check)
      (self.line, self.place, self.standing, self.must, self.effect) = (line, place, standing, must, effect)
    }

    var changed: App {
      var changed = app
      changed[file] = old.isEmpty ? new : app[file].replacing(old, with: new)
      return changed
    }
  }

  /// The changes to one file.
  private static func changes(_ app: App, _ file: String, _ changes: Mistake...) -> [Mistake] {
    changes.map { change in
      var change = change
      (change.app, change.file) = (app, file)
      return change
    }
  }

  private static let active = AppCheck.Service.active.publicKeyBase64
  private static let vendorsKey = "mm4F/3WLqECY637NulC5j/ZeHkmpwmtlfIxwt8MfREM="
  private static let vendorsProxy = "https://push-notifications.nextcloud.com"
  private static let (device, firebase) = ("lib/model/push_device.dart", "lib/firebase_options.dart")
  private static let (store, xcconfig) = ("lib/model/store.dart", "ios/Flutter/Zulip.xcconfig")
  private static let (gradle, zulipProject) = (
    "android/app/build.gradle", "ios/Runner.xcodeproj/project.pbxproj"
  )
  private static let runner = "ios/Runner/Runner.entitlements"
  private static let service = "ios/NotificationService/NotificationService.entitlements"
  private static let zulipInfo = "ios/Runner/Info.plist"
  private static let keyExpression = "base64Decode('\(active)')"
  private static let groups = """
      <key>com.apple.security.application-groups</key>
      <array>
        <string>$(ZULIP_APP_GROUP_IDENTIFIER)</string>
      </array>

    """
  private static let environment = "  <key>aps-environment</key>\n  <string>development</string>\n"
  private static let pushable = "project example-chat"

  static let zulip: [Mistake] = [
    changes(
      .zulip, device,
      .init(active, vendorsKey, "bouncer key", must: active, effect: "Zulip's own bouncer"),
      .init(active, BouncerKeyPair().publicKeyBase64, "bouncer key", must: active, effect: "another key"),
      .init(
        active, AppCheck.Service.retired.publicKeyBase64, "bouncer key", .warning, must: active,
        effect: "this key is retired"),
      .init(active, "", "bouncer key", line: "base64Decode('')"),
      .init(
        "'\(active)'", "'mm4F/3WLqECY637NulC5j/'\n 'ZeHkmpwmtlfIxwt8MfREM='", "bouncer key", line: "mm4F"),
      .init(keyExpression, "base64Decode(const String.fromEnvironment('KEY'))", "bouncer key", .skipped),
      .init(keyExpression, "kDebugMode ? base64Decode('\(active)') : other", "bouncer key", .skipped),
      .init("bouncerPublicKey", "someKey", "bouncer key", line: "", in: "", .skipped)),
    changes(
      .zulip, firebase,
      .init(
        "'example-chat'", "'zulip-android'", "Firebase project", must: "example-chat",
        effect: "SENDER_ID_MISMATCH"),
      .init(
        "'example-chat'", "'other-chat'", "Firebase project", must: "example-chat",
        effect: "SENDER_ID_MISMATCH"),
      .init("'example-chat'", "''", "Firebase project", line: "projectId = ''", must: "example-chat"),
      .init(
        "'example-chat'", "String.fromEnvironment('P')", "Firebase project", line: "projectId: _", .skipped),
      .init(
        "'123456789012'", "'835904834568'", "Firebase number", must: pushable, effect: "SENDER_ID_MISMATCH"),
      .init("'123456789012'", "'12345 6789012'", "Firebase number", must: "digits alone"),
      .init(
        "messagingSenderId: _Options.projectNumber", "messagingSenderId: '835904834568'", "Firebase number",
        must: pushable),
      .init(
        "'1:${_Options.projectNumber}:android", "'1:999:android", "Firebase app", must: "123456789012",
        effect: "another project"),
      .init(
        "'1:${_Options.projectNumber}:android", "'1:835904834568:android", "Firebase app", must: pushable),
      .init(
        "'1:${_Options.projectNumber}:android:0123456789abcdef'", "'...'", "Firebase app",
        must: "1:NUMBER:android"),
      .init(":android:0123456789abcdef", ":ios:fedcba9876543210", "Firebase app", must: "1:NUMBER:android"),
      .init(
        "0123456789abcdef", "6ae61ae43a7c3410", "Firebase app", must: "1:NUMBER:android",
        effect: "no such app"),
      .init(
        "'AIzaSyExampleExampleExampleExampleExamp'", "'AIzaSyC6kw5sqCYjxQl2Lbd_of-the-vendor-1'",
        "Firebase API key", must: pushable),
      .init(
        "'AIzaSyExampleExampleExampleExampleExamp'", "''", "Firebase API key", line: "firebaseApiKey = ''",
        must: pushable),
      .init(
        ":ios:fedcba9876543210", ":android:0123456789abcdee", "Firebase for iOS", must: "1:NUMBER:ios",
        effect: "stops the app"),
      .init(
        "'1:${_Options.projectNumber}:ios", "'1:835904834568:ios", "Firebase for iOS", .warning,
        must: pushable),
      .init("fedcba9876543210", "9cad34899ca57ba6", "Firebase for iOS", .warning, must: pushable)),
    changes(
      .zulip, gradle,
      .init(
        "org.example.chat", "com.zulipmobile", "applicationId", must: pushable, effect: "beside the vendor's"),
      .init("org.example.chat", "com.zulipmobile.own", "applicationId"),
      .init("org.example.chat", "", "applicationId", line: "applicationId", must: pushable),
      .init("\"org.example.chat\"", "project.property('id')", "applicationId", .skipped),
      .init(
        "\"org.example.chat\"", "isOwn ? \"org.example.chat\" : \"com.zulipmobile\"", "applicationId",
        .skipped)),
    changes(
      .zulip, zulipProject,
      .init(
        "org.example.chat", "org.zulip.Zulip", "bundle id", must: "org.example.chat",
        effect: "only the vendor can sign"),
      .init("= org.example.chat;", "= org.zulip.Zulip;", "bundle id", must: "org.example.chat"),
      .init(
        "org.example.chat.NotificationService", "org.zulip.Zulip.NotificationService", "bundle id",
        must: "org.example.chat.NotificationService"),
      .init(
        "= org.example.chat;", "= org.example.other;", "bundle id", must: "org.example.chat",
        effect: "no key for the topic org.example.other"),
      .init(
        "org.example.chat.Not", "org.elsewhere.chat.Not", "bundle id", must: "org.example.chat.NAME",
        effect: "foreign name"),
      .init("= org.example.chat;", "= \"$(OWN_ID)\";", "bundle id", .skipped),
      .init(
        "F1,", "", "notification extension", line: "org.example.chat.NotificationService", must: "among",
        effect: "no text"),
      .init(
        "dstSubfolderSpec = 13", "dstSubfolderSpec = 10", "notification extension",
        line: "org.example.chat.NotificationService")),
    changes(
      .zulip, "ios/NotificationService/Info.plist",
      .init(
        "com.apple.usernotifications.service", "com.apple.share-services", "notification extension",
        must: "com.apple.usernotifications.service")),
    changes(
      .zulip, zulipInfo,
      .init("$(PRODUCT_BUNDLE_IDENTIFIER)", "org.zulip.Zulip", "bundle id", must: "org.example.chat"),
      .init(
        "<string>$(PRODUCT_BUNDLE_IDENTIFIER)</string>\n</dict>", "<string>org.zulip.Zulip</string>\n</dict>",
        "left over", line: "org.zulip.Zulip", .warning),
      .init(
        "<string>remote-notification</string>", "", "background modes", line: "<array>", .warning,
        must: "remote-notification")),
    changes(
      .zulip, xcconfig,
      .init("TEAM567890", "66KHCWMEYB", "team", must: "TEAM567890", effect: "cannot be signed"),
      .init("TEAM567890", "NKUJUXUJ3B", "team", must: "TEAM567890"),
      .init("TEAM567890", "OTHER67890", "team", must: "TEAM567890", effect: "InvalidProviderToken"),
      .init("TEAM567890", "$(MY_TEAM)", "team", .skipped)),
    changes(
      .zulip, store,
      .init(
        "group.org.example.chat", "group.com.zulip.app", "app group", must: "group.org.example.chat",
        effect: "stops at its start"),
      .init(
        "group.org.example.chat", "group.org.example.other", "app group", must: "group.org.example.chat",
        effect: "stops at its start"),
      .init("group.org.example.chat", "org.example.chat", "app group", must: "begins with group."),
      .init("'group.org.example.chat'", "groupOf(flavor)", "app group", .skipped)),
    changes(
      .zulip, xcconfig,
      .init(
        "group.org.example.chat", "group.com.zulip.app", "app group in the entitlements",
        must: "group.org.example.chat", effect: "cannot sign"),
      .init(
        "group.org.example.chat", "org.example.chat", "app group in the entitlements",
        must: "group.org.example.chat"),
      .init(
        "ZULIP_APP_GROUP_IDENTIFIER =", "OWN_GROUP =", "app group in the entitlements", line: "$(ZULIP",
        in: runner, .skipped)),
    changes(
      .zulip, runner,
      .init(environment, "", "aps-environment", line: "", must: "development", effect: "no token"),
      .init("development", "prod", "aps-environment", must: "development or production"),
      .init("development", "", "aps-environment", line: "<string></string>", must: "development or"),
      .init("development", "$(APS)", "aps-environment", .skipped)),
    changes(
      .zulip, "ios/Flutter/Release.xcconfig",
      .init("#include \"Zulip.xcconfig\"", "", "team", line: "", in: zulipProject, .skipped)),
    changes(
      .zulip, runner,
      .init(
        groups, "", "app group in the entitlements", line: "", must: "group.org.example.chat",
        effect: "stops at its start")),
    changes(
      .zulip, service,
      .init(
        groups, "", "app group in the entitlements", line: "", must: "group.org.example.chat",
        effect: "without text"),
      .init(
        "$(ZULIP_APP_GROUP_IDENTIFIER)", "group.org.example.mine", "app group in the entitlements",
        must: "group.org.example.chat", effect: "without text"),
      .init("</dict>\n</plist>", "", "app group in the entitlements", line: "", .skipped)),
    changes(
      .zulip, zulipProject,
      .init(
        "CODE_SIGN_ENTITLEMENTS = NotificationService/NotificationService.entitlements;", "",
        "app group in the entitlements", line: "org.example.chat.NotificationService",
        must: "CODE_SIGN_ENTITLEMENTS", effect: "without text"),
      .init(
        "NotificationService/NotificationService.entitlements", "Service/Other.entitlements",
        "app group in the entitlements", effect: "without its app group")),
  ].flatMap(\.self)

  private static let branding = "NextcloudTalk/Settings/NCAppBranding.m"
  private static let talkProject = "NextcloudTalk.xcodeproj/project.pbxproj"
  private static let talkApp = "NextcloudTalk/NextcloudTalk.entitlements"
  private static let talkExtensions = [
    "ShareExtension", "NotificationServiceExtension", "BroadcastUploadExtension", "TalkIntents",
  ]
  private static let talkGroup = "group.org.example.talk"
  private static let allowed = "app group in the entitlements"
  private static let ownProxy = "@\"https://push.example.org\""

  static let talkForIOS: [Mistake] =
    [
      changes(
        .talkForIOS, branding,
        .init(
          "https://push.example.org", vendorsProxy, "push proxy", must: "https://push.example.org",
          effect: "Nextcloud's proxy"),
        .init("https://push.example.org", vendorsProxy + "/", "push proxy", must: "https://push.example.org"),
        .init(
          "https://push.example.org", vendorsProxy.uppercased().replacing("HTTPS", with: "https"),
          "push proxy"),
        .init("push.example.org", "push.example.org/", "push proxy", effect: "two slashes"),
        .init(
          "push.example.org", "push.example.com", "push proxy", must: "https://push.example.org",
          effect: "another service"),
        .init("push.example.org", "push.example.org:8443", "push proxy", effect: "another service"),
        .init("https:", "http:", "push proxy", effect: "another service"),
        .init(
          "https://push.example.org", "", "push proxy", line: "pushNotificationServer",
          effect: "registers nowhere"),
        .init(ownProxy, "PUSH_SERVER", "push proxy", .skipped),
        .init(ownProxy, "isTest ? @\"https://a.org\" : @\"https://b.org\"", "push proxy", .skipped),
        .init(ownProxy, "PUSH;\n#define PUSH @\"\(vendorsProxy)\"", "push proxy", line: "#define"),
        .init(
          ownProxy, "\n#if DEBUG\n\(ownProxy)\n#else\n@\"\(vendorsProxy)\"\n#endif\n", "push proxy",
          line: vendorsProxy),
        .init(
          "@\"org.example.talk\"", "@\"com.nextcloud.Talk\"", "bundle id in the code",
          must: "org.example.talk", effect: "another name"),
        .init(
          "@\"org.example.talk\"", "@\"org.example.Talk\"", "bundle id in the code", must: "org.example.talk",
          effect: "another name"),
        .init(talkGroup, "group.com.nextcloud.Talk", "app group", must: talkGroup, effect: "no text"),
        .init(talkGroup, "org.example.talk.group", "app group", must: "begins with group."),
        .init(talkGroup, "group.org.example.chat", "app group", must: talkGroup),
        .init(
          "group.org.example.apps", "group.com.nextcloud.apps", "app group", must: "group.org.example.apps"),
        .init("group.org.example.apps", "group.org.example.all", "app group", must: "group.org.example.apps")),
      changes(
        .talkForIOS, talkApp,
        .init(talkGroup, "group.com.nextcloud.Talk", allowed, must: talkGroup, effect: "cannot sign"),
        .init("group.org.example.apps", "group.com.nextcloud.apps", allowed, must: "group.org.example.apps"),
        .init(
          "    <string>\(talkGroup)</string>\n", "", allowed, line: "group.org.example.apps", must: talkGroup),
        .init(environment, "", "aps-environment", line: "", effect: "nothing arrives on iOS")),
      changes(
        .talkForIOS, "NextcloudTalk/Info.plist",
        .init(
          "    <string>voip</string>", "", "background modes", line: "<array>", must: "voip",
          effect: "no call rings"),
        .init("$(PRODUCT_BUNDLE_IDENTIFIER)", "com.nextcloud.Talk", "bundle id", must: "org.example.talk")),
      changes(
        .talkForIOS, talkProject,
        .init("NextcloudTalk/Info.plist", "Talk/Info.plist", "background modes", .skipped),
        .init("= org.example.talk", "= com.nextcloud.Talk", "bundle id", must: "org.example.talk"),
        .init("= org.example.talk;", "= com.nextcloud.Talk;", "bundle id", must: "org.example.talk"),
        .init("TEAM567890", "NKUJUXUJ3B", "team", must: "TEAM567890", effect: "cannot be signed"),
        .init("TEAM567890", "OTHER67890", "team", must: "TEAM567890"),
        .init(
          "DEVELOPMENT_TEAM = TEAM567890",
          "CODE_SIGN_IDENTITY = \"iPhone Distribution: Nextcloud GmbH (NKUJUXUJ3B)\"", "team",
          must: "TEAM567890"),
        .init("isa = PBXProject", "isa = ", "bundle id", line: "", .skipped)),
      changes(
        .talkForIOS, "NextcloudTalk/Settings/NCAppBrandingExtensions.swift",
        .init(
          "Nextcloud-Talk", "Nextcloud-iOS", "User-Agent", must: "org.example.talk",
          effect: "sends to the topic it.twsweb.Nextcloud"),
        .init("Nextcloud-Talk", "Own", "User-Agent", effect: "does not know"),
        .init("Mozilla/5.0 (iOS)", "Own", "User-Agent", line: "", in: "", .skipped)),
    ].flatMap(\.self)
    + talkExtensions.flatMap { name -> [Mistake] in
      let file = "\(name)/\(name).entitlements"
      return [
        changes(
          .talkForIOS, file,
          .init(talkGroup, "group.com.nextcloud.Talk", allowed, must: talkGroup, effect: "cannot sign"),
          .init(talkGroup, "org.example.talk.group", allowed, must: talkGroup),
          .init("    <string>\(talkGroup)</string>\n", "", allowed, line: "", must: talkGroup)),
        changes(
          .talkForIOS, talkProject,
          .init(
            "org.example.talk.\(name)", "com.nextcloud.Talk.\(name)", "bundle id",
            must: "org.example.talk.\(name)"),
          .init(file, "\(name)/gone.entitlements", allowed),
          .init(
            "CODE_SIGN_ENTITLEMENTS = \(file);", "", allowed, line: "org.example.talk.\(name)",
            must: "CODE_SIGN_ENTITLEMENTS")),
      ].flatMap(\.self)
    }

  private static let (ncbrand, filesProject) = ("Brand/NCBrand.swift", "Nextcloud.xcodeproj/project.pbxproj")
  private static let filesGroup = "group.org.example.files"

  static let filesForIOS: [Mistake] = [
    changes(
      .filesForIOS, ncbrand,
      .init("https://push.example.org", vendorsProxy, "push proxy", must: "https://push.example.org"),
      .init("push.example.org", "push.example.org/", "push proxy", effect: "two slashes"),
      .init("https://push.example.org", "", "push proxy", line: "Proxy", effect: "registers nowhere"),
      .init("\"https://push.example.org\"", "Settings.proxy", "push proxy", .skipped),
      .init("= \"https://push.example.org\"", "= isBeta ? \"a\" : \"b\"", "push proxy", .skipped),
      .init(filesGroup, "group.it.twsweb.Crypto-Cloud", "app group", must: filesGroup),
      .init(filesGroup, "group.org.example.other", "app group", must: filesGroup),
      .init(
        "group.org.example.apps", "group.com.nextcloud.apps", "app group", must: "group.org.example.apps"),
      .init(
        "return \"Mozilla/5.0 (iOS) Example-Files", "return \"Mozilla/5.0 (iOS) Own-Files", "User-Agent",
        effect: "does not know"),
      .init(
        "return \"Mozilla/5.0 (iOS) Example-Files", "return \"Mozilla/5.0 (iOS) Nextcloud-iOS", "User-Agent",
        must: "org.example.files", effect: "it.twsweb.Nextcloud")),
    changes(
      .filesForIOS, "Brand/iOSClient.entitlements",
      .init(filesGroup, "group.it.twsweb.Crypto-Cloud", allowed, must: filesGroup)),
    changes(
      .filesForIOS, "Brand/Share.entitlements",
      .init(filesGroup, "group.it.twsweb.Crypto-Cloud", allowed, must: filesGroup)),
    changes(
      .filesForIOS, "Brand/File_Provider_Extension.plist",
      .init(filesGroup, "group.it.twsweb.Crypto-Cloud", "app group", must: filesGroup),
      .init(filesGroup, "group.org.example.other", "app group", must: filesGroup)),
    changes(
      .filesForIOS, "Brand/iOSClient.entitlements", .init(environment, "", "aps-environment", line: "")),
    changes(
      .filesForIOS, filesProject,
      .init("org.example.$(PRODUCT_NAME", "it.twsweb.Nextcloud.$(PRODUCT_NAME", "bundle id"),
      .init(
        "org.example.files.$(TARGET_NAME)", "it.twsweb.Nextcloud.$(TARGET_NAME)", "bundle id",
        must: "org.example.files.Share"),
      .init(
        "org.example.$(PRODUCT_NAME", "org.example.own-$(PRODUCT_NAME", "bundle id", must: "org.example.files"
      ),
      .init("TEAM567890", "NKUJUXUJ3B", "team", must: "TEAM567890")),
  ].flatMap(\.self)

  /// Files for iOS as it is since 2025: the vendor's proxy is filled in where a brand has none.
  private static let newerFiles = {
    var app = App.filesForIOS
    app[ncbrand] = #"""
      let userAgent: String = {
        let suffixBrand = NCBrandOptions.shared.brandUserAgent.isEmpty ? "" : "-\(NCBrandOptions.shared.brandUserAgent)"
        return "Mozilla/5.0 (iOS) Nextcloud-iOS/\(appVersion)\(suffixBrand)"
      }()

      final class NCBrandOptions: @unchecked Sendable {
        static let shared = NCBrandOptions()

        var brand: String = "Example"
        var brandUserAgent: String = "Example-Files"
        var pushNotificationServerProxy: String = "https://push.example.org"
        var capabilitiesGroup: String = "group.org.example.files"
        var capabilitiesGroupApps: String = "group.org.example.apps"
        var folder: String = (Locale.preferredLanguages.first?.prefix(2) ?? "en") == "de" ? "Kamera" : "Camera"

        init() {
          if let managed = UserDefaults.standard.dictionary(forKey: "managed"), use_AppConfig {
            if let str = managed["brand"] as? String {
              brand = str
            }
          }

          if pushNotificationServerProxy.isEmpty,
              brand == "Nextcloud" {
              pushNotificationServerProxy = "https://push-notifications.nextcloud.com"
              // DEBUG SERVER PUSH
              // pushNotificationServerProxy = "https://c0004.customerpush.nextcloud.com"
          }
        }
      }
      """#
    return app
  }()

  private static let newer: [Mistake] = [
    changes(
      newerFiles, ncbrand,
      .init(
        "pushNotificationServerProxy.isEmpty,\n        brand == \"Nextcloud\"",
        "pushNotificationServerProxy.isEmpty || brand == \"Example\"", "push proxy",
        line: "= \"\(vendorsProxy)\""),
      .init("String = \"https://push.example.org\"", "String { Bundle.main.proxy }", "push proxy", .skipped),
      .init("\"https://push.example.org\"", "\"\"", "push proxy", effect: "registers nowhere"),
      .init(
        """
        "Example"
          var brandUserAgent: String = "Example-Files"
          var pushNotificationServerProxy: String = "https://push.example.org"
        """,
        "\"Nextcloud\"\n  var brandUserAgent: String = \"Example-Files\"\n  var pushNotificationServerProxy: String = \"\"",
        "push proxy", line: vendorsProxy, effect: "Nextcloud's proxy"),
      .init(
        "\"https://push.example.org\"", "\"\(vendorsProxy)\"", "push proxy",
        line: "String = \"\(vendorsProxy)"),
      .init(
        "\"Example-Files\"", "\"\"", "User-Agent", line: "return \"Mozilla", must: "org.example.files",
        effect: "it.twsweb.Nextcloud")),
    changes(
      .filesForIOS, filesProject,
      .init(
        "DEVELOPMENT_TEAM = TEAM567890",
        "DEVELOPMENT_TEAM = TEAM567890; \"DEVELOPMENT_TEAM[sdk=iphoneos*]\" = NKUJUXUJ3B", "team")),
  ].flatMap(\.self)

  private static let setup = "app/src/main/res/values/setup.xml"
  private static let gplay = "app/src/gplay/res/values/setup.xml"
  private static let build = "app/build.gradle.kts"

  /// What stands in both apps for Android.
  private static func android(_ app: App, _ setup: String, hash: String) -> [Mistake] {
    func string(_ name: String, _ text: String) -> String {
      "<string name=\"\(name)\" translatable=\"false\">\(text)</string>"
    }
    return [
      changes(
        app, setup,
        .init(
          ">https://push.example.org<", ">\(vendorsProxy)<", "push proxy", must: "https://push.example.org"),
        .init(
          ">https://push.example.org<", ">https://push.example.org/<", "push proxy", effect: "two slashes"),
        .init(
          ">https://push.example.org<", ">https://push.example.com<", "push proxy", effect: "another service"),
        .init(">https://push.example.org<", ">@string/own<", "push proxy", effect: "another service"),
        .init(
          "example-chat", "nextcloud-a7dea", "Firebase project", must: "example-chat",
          effect: "SENDER_ID_MISMATCH"),
        .init(
          "example-chat", "other", "Firebase project", must: "example-chat", effect: "SENDER_ID_MISMATCH"),
        .init(string("project_id", "example-chat"), "", "Firebase project", line: "", must: "example-chat"),
        .init(">123456789012<", ">829118773643<", "Firebase number", must: pushable),
        .init(">123456789012<", "><", "Firebase number", line: "gcm_defaultSenderId", must: pushable),
        .init(
          string("gcm_defaultSenderId", "123456789012"), "", "Firebase number", line: "", effect: "no token"),
        .init(">123456789012<", ">999<", "Firebase app", line: "google_app_id", effect: "another project"),
        .init("1:123456789012:", "1:829118773643:", "Firebase app", must: pushable),
        .init(":0123456789abcdef", ":\(hash)", "Firebase app", must: pushable, effect: "no such app"),
        .init(":android:0123456789abcdef", ":ios:0123456789abcdef", "Firebase app", must: "1:NUMBER:android"),
        .init(
          "1:123456789012:android:0123456789abcdef", "", "Firebase app", line: "google_app_id",
          effect: "does not start"),
        .init(
          string("google_app_id", "1:123456789012:android:0123456789abcdef"), "", "Firebase app", line: "",
          effect: "does not start"),
        .init(
          "AIzaSyExampleExampleExampleExampleExamp", "AIzaSyAWIyOcLafaFp8PFL61h64cy-of-vendor",
          "Firebase API key", must: pushable),
        .init(
          "AIzaSyExampleExampleExampleExampleExamp", "", "Firebase API key", line: "google_api_key",
          must: pushable),
        .init(
          string("google_api_key", "AIzaSyExampleExampleExampleExampleExamp"), "", "Firebase API key",
          line: "", must: pushable))
    ].flatMap(\.self)
  }

  /// Talk has UnifiedPush as well, Files has no other push.
  private static func messaging(_ app: App, _ service: String) -> [Mistake] {
    let manifest = "app/src/gplay/AndroidManifest.xml"
    let (action, name) = ("com.google.firebase.MESSAGING_EVENT", "NCFirebaseMessagingService")
    return [
      changes(
        app, manifest,
        .init(
          action, "org.example.EVENT", "push in this build", line: "class \(name)", in: service,
          must: "with this class", effect: "no notification is shown"),
        .init(name, "OwnService", "push in this build", line: "class \(name)", in: service),
        .init(
          "android:name=\".services", "name=\".services", "push in this build", line: "class \(name)",
          in: service)),
      changes(app, service, .init(name, "OwnService", "push in this build", line: "class OwnService")),
    ].flatMap(\.self)
  }

  static let talkForAndroid: [Mistake] =
    android(.talkForAndroid, setup, hash: "54b65087c544d819")
    + messaging(
      .talkForAndroid, "app/src/gplay/java/com/nextcloud/talk/services/firebase/NCFirebaseMessagingService.kt"
    )
    + [
      changes(
        .talkForAndroid, setup,
        .init(
          ">https://push.example.org<", "><", "push proxy", line: "nc_push_server_url",
          effect: "registers nowhere"),
        .init(
          "nc_push_server_url\" ", "nc_push_server\" ", "push proxy", line: "", effect: "registers nowhere")),
      changes(
        .talkForAndroid, "app/src/main/res/values/strings.xml",
        .init(
          "<resources>", "<resources>\n<string name=\"nc_push_server_url\">\(vendorsProxy)</string>",
          "push proxy", line: vendorsProxy)),
      changes(
        .talkForAndroid, "app/src/main/res/values-de/strings.xml",
        .init(
          "", "<resources><string name=\"nc_push_server_url\">\(vendorsProxy)</string></resources>",
          "push proxy")),
      changes(
        .talkForAndroid, "app/src/gplay/res/values/own.xml",
        .init(
          "", "<resources><string name=\"nc_push_server_url\">https://old.example.org</string></resources>",
          "push proxy")),
      changes(
        .talkForAndroid, "app/src/release/res/values/own.xml",
        .init("", "<resources><string name=\"project_id\">old-chat</string></resources>", "Firebase project")),
      changes(
        .talkForAndroid, build,
        .init(
          "create(\"gplay\") {\n                applicationId = \"org.example.talk\"",
          "create(\"gplay\") {\n                applicationId = \"com.nextcloud.talk2\"", "applicationId",
          line: "talk2\"", must: pushable),
        .init(
          "release {", "release {\n resValue(\"string\", \"nc_push_server_url\", \"\(vendorsProxy)\")",
          "push proxy", line: "resValue")),
      changes(
        .talkForAndroid, "app/src/main/java/com/nextcloud/talk/utils/ApiUtils.kt",
        .init("Nextcloud-Talk", "Own", "User-Agent", effect: "does not know")),
    ].flatMap(\.self)

  static let filesForAndroid: [Mistake] =
    android(.filesForAndroid, gplay, hash: "512449826e931d0e")
    + messaging(
      .filesForAndroid,
      "app/src/gplay/java/com/owncloud/android/services/firebase/NCFirebaseMessagingService.java")
    + [
      changes(
        .filesForAndroid, gplay,
        .init(
          "push_server_url", "push_server", "push proxy", line: "push_server_url", in: setup,
          effect: "registers nowhere")),
      changes(
        .filesForAndroid, setup,
        .init("Nextcloud-android", "Own", "User-Agent", effect: "does not know"),
        .init(">org.example.files<", ">org.nextcloud<", "left over", .warning)),
      changes(
        .filesForAndroid, build,
        .init(
          "register(\"gplay\") {\n                applicationId = \"org.example.files\"",
          "register(\"gplay\") {\n                applicationId = \"com.nextcloud.client\"", "applicationId",
          line: "com.nextcloud.client", must: pushable),
        .init(
          "android {", "plugins { id(\"com.google.gms.google-services\") }\nandroid {",
          "google-services.json", line: "", in: "app/src/gplay/google-services.json",
          must: "org.example.files is registered")),
    ].flatMap(\.self)

  static let mistakes = zulip + talkForIOS + filesForIOS + newer + talkForAndroid + filesForAndroid

  @Test(arguments: mistakes) func `A mistake is found in its file and line`(mistake: Mistake) throws {
    #expect(mistake.old.isEmpty || mistake.app[mistake.file].contains(mistake.old))
    let app = mistake.changed
    let report = try app.check(.example())
    let place = mistake.place ?? mistake.file
    let lines = app[place].split(separator: "\n", omittingEmptySubsequences: false)
    let marker = mistake.line ?? mistake.new.split(separator: "\n").first.map(String.init) ?? ""
    let found = report.findings.first { finding in
      guard finding.check == mistake.check, finding.standing == mistake.standing else { return false }
      return (finding.places.isEmpty ? [AppCheck.Place()] : finding.places).contains { found in
        guard (found.file ?? "") == place else { return false }
        return found.line.map { lines.indices.contains($0 - 1) && lines[$0 - 1].contains(marker) }
          ?? marker.isEmpty
      }
    }
    let finding = try #require(found, "\(report.findings.map { "\($0)" }.joined(separator: "\n"))")
    #expect(mistake.must.isEmpty || finding.expected?.contains(mistake.must) == true, "\(finding)")
    #expect(mistake.effect.isEmpty || finding.effect?.contains(mistake.effect) == true, "\(finding)")
    #expect(report.isGood == !report.findings.contains { $0.standing == .fault })
    // Nothing of the vendor's is what anything must be.
    for expected in report.findings.compactMap(\.expected) {
      #expect(
        !expected.contains("nextcloud.com") && !expected.contains("com.zulip")
          && !expected.contains("twsweb"), "\(expected)")
      #expect(!expected.contains("org.zulip") && !expected.contains("com.nextcloud"), "\(expected)")
    }
    if mistake.standing == .skipped { #expect(report.faults == [], "\(report.bad)") }
  }

  @Test func `There are more than a hundred of them`() {
    #expect(Self.mistakes.count > 100)
    #expect(Self.edits.count >= 30)
  }

  private static let proxyLine =
    "<string name=\"push_server_url\" translatable=\"false\">https://push.example.org</string>"

  /// Edits after which an app is the same.
  static let edits: [Mistake] = [
    changes(
      newerFiles, ncbrand,
      .init("// DEBUG SERVER", "// debug server"),
      .init("final class", "let pattern = #\"a \" { b\"#\nfinal class"),
      .init("pushNotificationServerProxy.isEmpty,", "pushNotificationServerProxy == \"\" &&"),
      .init("String = \"https://push.example.org\"", "String { \"https://push.example.org\" }"),
      .init("var brand: String = \"Example\"", "var brand: String = \"Nextcloud\"")),
    changes(
      .zulip, device,
      .init("class Push", "// bouncerPublicKey = base64Decode('\(vendorsKey)');\nclass Push"),
      .init(
        "class Push",
        "/* was:\nstatic final bouncerPublicKey = base64Decode('\(vendorsKey)');\n*/\nclass Push"),
      .init(keyExpression, "base64Decode(\n    // the key of our bouncer\n    \"\(active)\",\n  )"),
      .init(keyExpression, "base64Decode('\(active.prefix(20))'\n  '\(active.dropFirst(20))')"),
      .init("bouncerPublicKey = base64", "Uint8List bouncerPublicKey\n    = convert.base64"),
      .init(keyExpression, "base64Decode(_key);\n  static const _key = '\(active)'"),
      .init(keyExpression, "base64.decode('\(active)')")),
    changes(
      .zulip, firebase,
      .init(
        "  projectId: _Options.projectId,",
        "  // was zulip-android);\n  projectId: _Options.projectId, // FirebaseOptions(projectId: 'zulip-android');"
      ),
      .init("= FirebaseOptions(", "= const FirebaseOptions("),
      .init(
        "static const projectId = 'example-chat'", "static const String projectId =\n      'example-chat'"),
      .init("'1:${_Options.projectNumber}:android:", "'1:' '123456789012' ':android:"),
      .init("'1:${_Options.projectNumber}:android:", "'1:123456789012:android:")),
    changes(
      .zulip, store,
      .init(
        "const iosAppGroupIdentifier = 'group.org.example.chat';",
        "const String iosAppGroupIdentifier = \"group.org.example.chat\"; // was 'group.com.zulip.app'")),
    changes(
      .zulip, gradle,
      .init(
        "applicationId \"org.example.chat\"",
        "// applicationId \"com.zulipmobile\"\n        applicationId = 'org.example.chat'"),
      .init("\"org.example.chat\"", "(\"org.example.chat\")")),
    changes(
      .zulip, xcconfig,
      .init(
        "DEVELOPMENT_TEAM=TEAM567890",
        "// DEVELOPMENT_TEAM = 66KHCWMEYB\nDEVELOPMENT_TEAM   =   TEAM567890  // ours")),
    changes(.zulip, service, .init("<array>", "<!-- <string>group.com.zulip.app</string> -->\n<array>")),
    changes(
      .zulip, runner,
      .init(
        "<string>$(ZULIP_APP_GROUP_IDENTIFIER)</string>",
        "<string>\n      ${ZULIP_APP_GROUP_IDENTIFIER}\n    </string>")),
    changes(
      .zulip, zulipProject,
      .init("= org.example.chat;", "= \"org.example.chat\";"),
      .init("RunnerUITests;", "RunnerUITests.other;")),
    changes(
      .zulip, zulipInfo,
      .init("<key>UIBackgroundModes</key>", "<!-- org.zulip.Zulip -->\n<key>UIBackgroundModes</key>")),
    changes(
      .talkForIOS, branding,
      .init("@\"https://push.example.org\"", "@\"https://PUSH.Example.org:443\""),
      .init(
        "@\"https://push.example.org\"",
        "\n#if DEBUG\n@\"\(vendorsProxy)\"\n#else\n@\"https://push.example.org\"\n#endif\n"),
      .init(
        "@\"https://push.example.org\"", "PUSH_SERVER;\n#define PUSH_SERVER @\"https://push.example.org\"\n"),
      .init(
        "NSString * const pushNot",
        "//NSString * const pushNotificationServer = @\"\(vendorsProxy)\";\nNSString *const pushNot"),
      .init("useAppsGroup = YES", "useAppsGroup=NO; NSString * const other = @\"group.com.nextcloud.apps\""),
      .init("@\"org.example.talk\";", "@\"org.example\"\n  @\".talk\" ;")),
    changes(
      .talkForIOS, talkProject,
      .init(
        "DEVELOPMENT_TEAM = TEAM567890",
        "/* DEVELOPMENT_TEAM = NKUJUXUJ3B; */ DEVELOPMENT_TEAM = \"TEAM567890\""),
      .init(
        "DEVELOPMENT_TEAM = TEAM567890",
        "DEVELOPMENT_TEAM = TEAM567890; CODE_SIGN_IDENTITY = \"iPhone Distribution: Nextcloud GmbH (NKUJUXUJ3B)\"; \"CODE_SIGN_IDENTITY[sdk=iphoneos*]\" = \"iPhone Developer\""
      )),
    changes(
      .talkForIOS, branding,
      .init(
        "@\"https://push.example.org\";",
        """
        PUSH_SERVER;
        #if __has_include("NCAppBrandingLocal.h")
        #import "NCAppBrandingLocal.h"
        #else
        #define PUSH_SERVER @"https://push.example.org"
        #endif
        #if !defined(PUSH_SERVER)
        #define PUSH_SERVER @"https://other.example.org"
        #endif
        """)),
    changes(
      .filesForIOS, filesProject,
      .init("\"$(SRCROOT)/Brand/iOSClient.plist\"", "\"$(SRCROOT)/Brand/../Brand//./iOSClient.plist\""),
      .init("= Brand/Share.entitlements", "= \"$(SRCROOT)/Brand//Share.entitlements\"")),
    changes(
      .filesForIOS, ncbrand,
      .init("pushNotificationServerProxy: String = ", "pushNotificationServerProxy = "),
      .init(
        "  @objc public var push",
        "  // @objc public var pushNotificationServerProxy: String = \"\(vendorsProxy)\"\n  @objc public var push"
      ),
      .init(
        "  @objc public var push",
        "  /* /* nested */ pushNotificationServerProxy: String = \"\(vendorsProxy)\" */\n  @objc public var push"
      )),
    changes(
      .filesForIOS, "Brand/NCBrand-Own.swift",
      .init(
        "",
        "class NCBrandOptionsOwn: NCBrandOptions {\n  override init() {\n    super.init()\n    capabilitiesGroups = \"group.org.example.files\"\n  }\n}"
      )),
    changes(
      .filesForIOS, filesProject,
      .init("org.example.$(PRODUCT_NAME:rfc1034identifier)", "org.example.${PRODUCT_NAME:rfc1034identifier}")),
    changes(
      .talkForAndroid, setup,
      .init(">https://push.example.org<", ">\n      https://push.example.org\n    <"),
      .init(">https://push.example.org<", "><![CDATA[https://push.example.org]]><"),
      .init(">https://push.example.org<", ">\"https://push.example.org\"<"),
      .init(
        "<string name=\"project_id\" translatable=\"false\">",
        "<string translatable='false'\n   name='project_id'>")),
    changes(
      .talkForAndroid, "app/src/qa/res/values/setup.xml",
      .init("<resources>", "<resources><string name=\"nc_push_server_url\">\(vendorsProxy)</string>")),
    changes(
      .talkForAndroid, build,
      .init(
        "create(\"generic\") {\n                applicationId = \"org.example.talk\"",
        "create(\"generic\") {\n                applicationId = \"com.nextcloud.talk2\"")),
    changes(
      .talkForAndroid, "app/google-services.json",
      .init("", #"{"project_info": {"project_number": "829118773643", "project_id": "nextcloud-a7dea"}}"#)),
    changes(
      .filesForAndroid, gplay,
      .init(proxyLine, "<!-- <string name=\"push_server_url\">\(vendorsProxy)</string> -->\n\(proxyLine)")),
    changes(
      .filesForAndroid, "app/src/huawei/res/values/setup.xml",
      .init(
        "",
        "<resources><string name=\"push_server_url\">\(vendorsProxy)</string><string name=\"project_id\">other</string></resources>"
      )),
    changes(
      .talkForAndroid,
      "app/src/gplay/java/com/nextcloud/talk/services/firebase/NCFirebaseMessagingService.kt",
      .init("class NC", "abstract class Base : FirebaseMessagingService()\nclass NC")),
    changes(
      .talkForAndroid, "app/src/generic/java/Own.kt", .init("", "class Own : FirebaseMessagingService() {}")),
    changes(
      .filesForAndroid, setup,
      .init(
        "<string name=\"name_for_branded_user_agent\"></string>",
        "<string name=\"name_for_branded_user_agent\"/>")),
    changes(
      .filesForAndroid, build,
      .init("register(\"gplay\")", "// applicationId = \"com.nextcloud.client\"\n            create('gplay')")
    ),
  ].flatMap(\.self)

  @Test(arguments: edits) func `An edit that changes nothing is silent`(edit: Mistake) throws {
    #expect(edit.old.isEmpty || edit.app[edit.file].contains(edit.old))
    let report = try edit.changed.check(.example())
    #expect(report.bad == [])
    #expect(report.skipped == [])
  }
}
