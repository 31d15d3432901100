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
    let app: App
    let file: String
    let old: String
    let new: String
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
      _ app: App, _ file: String, _ old: String, _ new: String, _ check: String, line: String? = nil,
      in place: String? = nil, _ standing: Finding.Standing = .fault, must: String = "", effect: String = ""
    ) {
      (self.app, self.file, self.old, self.new, self.check) = (app, file, old, new, check)
      (self.line, self.place, self.standing, self.must, self.effect) = (line, place, standing, must, effect)
    }

    var changed: App {
      var changed = app
      changed[file] = app[file].replacing(old, with: new)
      return changed
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
    .init(.zulip, device, active, vendorsKey, "bouncer key", must: active, effect: "Zulip's own bouncer"),
    .init(
      .zulip, device, active, BouncerKeyPair().publicKeyBase64, "bouncer key", must: active,
      effect: "another key"),
    .init(
      .zulip, device, active, AppCheck.Service.retired.publicKeyBase64, "bouncer key", .warning, must: active,
      effect: "this key is retired"),
    .init(.zulip, device, active, "", "bouncer key", line: "base64Decode('')"),
    .init(
      .zulip, device, "'\(active)'", "'mm4F/3WLqECY637NulC5j/'\n 'ZeHkmpwmtlfIxwt8MfREM='", "bouncer key",
      line: "mm4F"),
    .init(
      .zulip, device, keyExpression, "base64Decode(const String.fromEnvironment('KEY'))", "bouncer key",
      .skipped),
    .init(
      .zulip, device, keyExpression, "kDebugMode ? base64Decode('\(active)') : other", "bouncer key", .skipped
    ),
    .init(.zulip, device, "bouncerPublicKey", "someKey", "bouncer key", line: "", in: "", .skipped),

    .init(
      .zulip, firebase, "'example-chat'", "'zulip-android'", "Firebase project", must: "example-chat",
      effect: "SENDER_ID_MISMATCH"),
    .init(
      .zulip, firebase, "'example-chat'", "'other-chat'", "Firebase project", must: "example-chat",
      effect: "SENDER_ID_MISMATCH"),
    .init(
      .zulip, firebase, "'example-chat'", "''", "Firebase project", line: "projectId = ''",
      must: "example-chat"),
    .init(
      .zulip, firebase, "'example-chat'", "String.fromEnvironment('P')", "Firebase project",
      line: "projectId: _", .skipped),
    .init(
      .zulip, firebase, "'123456789012'", "'835904834568'", "Firebase number", must: pushable,
      effect: "SENDER_ID_MISMATCH"),
    .init(.zulip, firebase, "'123456789012'", "'12345 6789012'", "Firebase number", must: "digits alone"),
    .init(
      .zulip, firebase, "messagingSenderId: _Options.projectNumber", "messagingSenderId: '835904834568'",
      "Firebase number", must: pushable),
    .init(
      .zulip, firebase, "'1:${_Options.projectNumber}:android", "'1:999:android", "Firebase app",
      must: "123456789012", effect: "another project"),
    .init(
      .zulip, firebase, "'1:${_Options.projectNumber}:android", "'1:835904834568:android", "Firebase app",
      must: pushable),
    .init(
      .zulip, firebase, "'1:${_Options.projectNumber}:android:0123456789abcdef'", "'...'", "Firebase app",
      must: "1:NUMBER:android"),
    .init(
      .zulip, firebase, ":android:0123456789abcdef", ":ios:fedcba9876543210", "Firebase app",
      must: "1:NUMBER:android"),
    .init(
      .zulip, firebase, "0123456789abcdef", "6ae61ae43a7c3410", "Firebase app", must: "1:NUMBER:android",
      effect: "no such app"),
    .init(
      .zulip, firebase, "'AIzaSyExampleExampleExampleExampleExamp'",
      "'AIzaSyC6kw5sqCYjxQl2Lbd_of-the-vendor-1'", "Firebase API key",
      must: pushable),
    .init(
      .zulip, firebase, "'AIzaSyExampleExampleExampleExampleExamp'", "''", "Firebase API key",
      line: "firebaseApiKey = ''", must: pushable
    ),
    .init(
      .zulip, firebase, ":ios:fedcba9876543210", ":android:0123456789abcdee", "Firebase for iOS",
      must: "1:NUMBER:ios", effect: "stops the app"),
    .init(
      .zulip, firebase, "'1:${_Options.projectNumber}:ios", "'1:835904834568:ios", "Firebase for iOS",
      .warning, must: pushable),
    .init(
      .zulip, firebase, "fedcba9876543210", "9cad34899ca57ba6", "Firebase for iOS", .warning, must: pushable),

    .init(
      .zulip, gradle, "org.example.chat", "com.zulipmobile", "applicationId", must: pushable,
      effect: "beside the vendor's"),
    .init(.zulip, gradle, "org.example.chat", "com.zulipmobile.own", "applicationId"),
    .init(.zulip, gradle, "org.example.chat", "", "applicationId", line: "applicationId", must: pushable),
    .init(.zulip, gradle, "\"org.example.chat\"", "project.property('id')", "applicationId", .skipped),
    .init(
      .zulip, gradle, "\"org.example.chat\"", "isOwn ? \"org.example.chat\" : \"com.zulipmobile\"",
      "applicationId", .skipped),

    .init(
      .zulip, zulipProject, "org.example.chat", "org.zulip.Zulip", "bundle id", must: "org.example.chat",
      effect: "only the vendor can sign"),
    .init(
      .zulip, zulipProject, "= org.example.chat;", "= org.zulip.Zulip;", "bundle id", must: "org.example.chat"
    ),
    .init(
      .zulip, zulipProject, "org.example.chat.NotificationService", "org.zulip.Zulip.NotificationService",
      "bundle id",
      must: "org.example.chat.NotificationService"),
    .init(
      .zulip, zulipProject, "= org.example.chat;", "= org.example.other;", "bundle id",
      must: "org.example.chat", effect: "no key for the topic org.example.other"),
    .init(
      .zulip, zulipProject, "org.example.chat.Not", "org.elsewhere.chat.Not", "bundle id",
      must: "org.example.chat.NAME", effect: "foreign name"),
    .init(.zulip, zulipProject, "= org.example.chat;", "= \"$(OWN_ID)\";", "bundle id", .skipped),
    .init(
      .zulip, zulipProject, "F1,", "", "notification extension", line: "org.example.chat.NotificationService",
      must: "among", effect: "no text"),
    .init(
      .zulip, zulipProject, "dstSubfolderSpec = 13", "dstSubfolderSpec = 10", "notification extension",
      line: "org.example.chat.NotificationService"),
    .init(
      .zulip, "ios/NotificationService/Info.plist", "com.apple.usernotifications.service",
      "com.apple.share-services", "notification extension", must: "com.apple.usernotifications.service"),
    .init(
      .zulip, zulipInfo, "$(PRODUCT_BUNDLE_IDENTIFIER)", "org.zulip.Zulip", "bundle id",
      must: "org.example.chat"),
    .init(
      .zulip, zulipInfo, "<string>$(PRODUCT_BUNDLE_IDENTIFIER)</string>\n</dict>",
      "<string>org.zulip.Zulip</string>\n</dict>", "left over", line: "org.zulip.Zulip", .warning),
    .init(
      .zulip, zulipInfo, "<string>remote-notification</string>", "", "background modes", line: "<array>",
      .warning, must: "remote-notification"),

    .init(
      .zulip, xcconfig, "TEAM567890", "66KHCWMEYB", "team", must: "TEAM567890", effect: "cannot be signed"),
    .init(.zulip, xcconfig, "TEAM567890", "NKUJUXUJ3B", "team", must: "TEAM567890"),
    .init(
      .zulip, xcconfig, "TEAM567890", "OTHER67890", "team", must: "TEAM567890", effect: "InvalidProviderToken"
    ),
    .init(.zulip, xcconfig, "TEAM567890", "$(MY_TEAM)", "team", .skipped),

    .init(
      .zulip, store, "group.org.example.chat", "group.com.zulip.app", "app group",
      must: "group.org.example.chat", effect: "stops at its start"),
    .init(
      .zulip, store, "group.org.example.chat", "group.org.example.other", "app group",
      must: "group.org.example.chat", effect: "stops at its start"),
    .init(
      .zulip, store, "group.org.example.chat", "org.example.chat", "app group", must: "begins with group."),
    .init(.zulip, store, "'group.org.example.chat'", "groupOf(flavor)", "app group", .skipped),
    .init(
      .zulip, xcconfig, "group.org.example.chat", "group.com.zulip.app", "app group in the entitlements",
      must: "group.org.example.chat", effect: "cannot sign"),
    .init(
      .zulip, xcconfig, "group.org.example.chat", "org.example.chat", "app group in the entitlements",
      must: "group.org.example.chat"),
    .init(
      .zulip, xcconfig, "ZULIP_APP_GROUP_IDENTIFIER =", "OWN_GROUP =", "app group in the entitlements",
      line: "$(ZULIP", in: runner, .skipped),
    .init(
      .zulip, runner, environment, "", "aps-environment", line: "", must: "development", effect: "no token"),
    .init(.zulip, runner, "development", "prod", "aps-environment", must: "development or production"),
    .init(
      .zulip, runner, "development", "", "aps-environment", line: "<string></string>", must: "development or"),
    .init(.zulip, runner, "development", "$(APS)", "aps-environment", .skipped),
    .init(
      .zulip, "ios/Flutter/Release.xcconfig", "#include \"Zulip.xcconfig\"", "", "team", line: "",
      in: zulipProject,
      .skipped),
    .init(
      .zulip, runner, groups, "", "app group in the entitlements", line: "", must: "group.org.example.chat",
      effect: "stops at its start"),
    .init(
      .zulip, service, groups, "", "app group in the entitlements", line: "", must: "group.org.example.chat",
      effect: "without text"),
    .init(
      .zulip, service, "$(ZULIP_APP_GROUP_IDENTIFIER)", "group.org.example.mine",
      "app group in the entitlements", must: "group.org.example.chat", effect: "without text"),
    .init(.zulip, service, "</dict>\n</plist>", "", "app group in the entitlements", line: "", .skipped),
    .init(
      .zulip, zulipProject, "CODE_SIGN_ENTITLEMENTS = NotificationService/NotificationService.entitlements;",
      "",
      "app group in the entitlements", line: "org.example.chat.NotificationService",
      must: "CODE_SIGN_ENTITLEMENTS", effect: "without text"),
    .init(
      .zulip, zulipProject, "NotificationService/NotificationService.entitlements",
      "Service/Other.entitlements",
      "app group in the entitlements", effect: "without its app group"),
  ]

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
      .init(
        .talkForIOS, branding, "https://push.example.org", vendorsProxy, "push proxy",
        must: "https://push.example.org", effect: "Nextcloud's proxy"),
      .init(
        .talkForIOS, branding, "https://push.example.org", vendorsProxy + "/", "push proxy",
        must: "https://push.example.org"),
      .init(
        .talkForIOS, branding, "https://push.example.org",
        vendorsProxy.uppercased().replacing("HTTPS", with: "https"), "push proxy"),
      .init(
        .talkForIOS, branding, "push.example.org", "push.example.org/", "push proxy", effect: "two slashes"),
      .init(
        .talkForIOS, branding, "push.example.org", "push.example.com", "push proxy",
        must: "https://push.example.org", effect: "another service"),
      .init(
        .talkForIOS, branding, "push.example.org", "push.example.org:8443", "push proxy",
        effect: "another service"),
      .init(.talkForIOS, branding, "https:", "http:", "push proxy", effect: "another service"),
      .init(
        .talkForIOS, branding, "https://push.example.org", "", "push proxy", line: "pushNotificationServer",
        effect: "registers nowhere"),
      .init(.talkForIOS, branding, ownProxy, "PUSH_SERVER", "push proxy", .skipped),
      .init(
        .talkForIOS, branding, ownProxy, "isTest ? @\"https://a.org\" : @\"https://b.org\"", "push proxy",
        .skipped),
      .init(
        .talkForIOS, branding, ownProxy, "PUSH;\n#define PUSH @\"\(vendorsProxy)\"", "push proxy",
        line: "#define"),
      .init(
        .talkForIOS, branding, ownProxy, "\n#if DEBUG\n\(ownProxy)\n#else\n@\"\(vendorsProxy)\"\n#endif\n",
        "push proxy",
        line: vendorsProxy),
      .init(
        .talkForIOS, branding, "@\"org.example.talk\"", "@\"com.nextcloud.Talk\"", "bundle id in the code",
        must: "org.example.talk", effect: "another name"),
      .init(
        .talkForIOS, branding, "@\"org.example.talk\"", "@\"org.example.Talk\"", "bundle id in the code",
        must: "org.example.talk", effect: "another name"),
      .init(
        .talkForIOS, branding, talkGroup, "group.com.nextcloud.Talk", "app group", must: talkGroup,
        effect: "no text"),
      .init(
        .talkForIOS, branding, talkGroup, "org.example.talk.group", "app group", must: "begins with group."),
      .init(.talkForIOS, branding, talkGroup, "group.org.example.chat", "app group", must: talkGroup),
      .init(
        .talkForIOS, branding, "group.org.example.apps", "group.com.nextcloud.apps", "app group",
        must: "group.org.example.apps"),
      .init(
        .talkForIOS, branding, "group.org.example.apps", "group.org.example.all", "app group",
        must: "group.org.example.apps"),
      .init(
        .talkForIOS, talkApp, talkGroup, "group.com.nextcloud.Talk", allowed, must: talkGroup,
        effect: "cannot sign"),
      .init(
        .talkForIOS, talkApp, "group.org.example.apps", "group.com.nextcloud.apps", allowed,
        must: "group.org.example.apps"),
      .init(
        .talkForIOS, talkApp, "    <string>\(talkGroup)</string>\n", "", allowed,
        line: "group.org.example.apps", must: talkGroup),
      .init(
        .talkForIOS, talkApp, environment, "", "aps-environment", line: "", effect: "nothing arrives on iOS"),
      .init(
        .talkForIOS, "NextcloudTalk/Info.plist", "    <string>voip</string>", "", "background modes",
        line: "<array>", must: "voip", effect: "no call rings"),
      .init(
        .talkForIOS, "NextcloudTalk/Info.plist", "$(PRODUCT_BUNDLE_IDENTIFIER)", "com.nextcloud.Talk",
        "bundle id", must: "org.example.talk"),
      .init(
        .talkForIOS, talkProject, "NextcloudTalk/Info.plist", "Talk/Info.plist", "background modes", .skipped),
      .init(
        .talkForIOS, talkProject, "= org.example.talk", "= com.nextcloud.Talk", "bundle id",
        must: "org.example.talk"),
      .init(
        .talkForIOS, talkProject, "= org.example.talk;", "= com.nextcloud.Talk;", "bundle id",
        must: "org.example.talk"),
      .init(
        .talkForIOS, talkProject, "TEAM567890", "NKUJUXUJ3B", "team", must: "TEAM567890",
        effect: "cannot be signed"),
      .init(.talkForIOS, talkProject, "TEAM567890", "OTHER67890", "team", must: "TEAM567890"),
      .init(
        .talkForIOS, talkProject, "DEVELOPMENT_TEAM = TEAM567890",
        "CODE_SIGN_IDENTITY = \"iPhone Distribution: Nextcloud GmbH (NKUJUXUJ3B)\"",
        "team", must: "TEAM567890"),
      .init(.talkForIOS, talkProject, "isa = PBXProject", "isa = ", "bundle id", line: "", .skipped),
      .init(
        .talkForIOS, "NextcloudTalk/Settings/NCAppBrandingExtensions.swift", "Nextcloud-Talk",
        "Nextcloud-iOS", "User-Agent",
        must: "org.example.talk", effect: "sends to the topic it.twsweb.Nextcloud"),
      .init(
        .talkForIOS, "NextcloudTalk/Settings/NCAppBrandingExtensions.swift", "Nextcloud-Talk", "Own",
        "User-Agent",
        effect: "does not know"),
      .init(
        .talkForIOS, "NextcloudTalk/Settings/NCAppBrandingExtensions.swift", "Mozilla/5.0 (iOS)", "Own",
        "User-Agent", line: "",
        in: "", .skipped),
    ]
    + talkExtensions.flatMap { name -> [Mistake] in
      let file = "\(name)/\(name).entitlements"
      return [
        .init(
          .talkForIOS, file, talkGroup, "group.com.nextcloud.Talk", allowed, must: talkGroup,
          effect: "cannot sign"),
        .init(.talkForIOS, file, talkGroup, "org.example.talk.group", allowed, must: talkGroup),
        .init(
          .talkForIOS, file, "    <string>\(talkGroup)</string>\n", "", allowed, line: "", must: talkGroup),
        .init(
          .talkForIOS, talkProject, "org.example.talk.\(name)", "com.nextcloud.Talk.\(name)", "bundle id",
          must: "org.example.talk.\(name)"),
        .init(.talkForIOS, talkProject, file, "\(name)/gone.entitlements", allowed),
        .init(
          .talkForIOS, talkProject, "CODE_SIGN_ENTITLEMENTS = \(file);", "", allowed,
          line: "org.example.talk.\(name)", must: "CODE_SIGN_ENTITLEMENTS"),
      ]
    }

  private static let (ncbrand, filesProject) = ("Brand/NCBrand.swift", "Nextcloud.xcodeproj/project.pbxproj")
  private static let filesGroup = "group.org.example.files"

  static let filesForIOS: [Mistake] = [
    .init(
      .filesForIOS, ncbrand, "https://push.example.org", vendorsProxy, "push proxy",
      must: "https://push.example.org"),
    .init(
      .filesForIOS, ncbrand, "push.example.org", "push.example.org/", "push proxy", effect: "two slashes"),
    .init(
      .filesForIOS, ncbrand, "https://push.example.org", "", "push proxy", line: "Proxy",
      effect: "registers nowhere"),
    .init(.filesForIOS, ncbrand, "\"https://push.example.org\"", "Settings.proxy", "push proxy", .skipped),
    .init(
      .filesForIOS, ncbrand, "= \"https://push.example.org\"", "= isBeta ? \"a\" : \"b\"", "push proxy",
      .skipped),
    .init(.filesForIOS, ncbrand, filesGroup, "group.it.twsweb.Crypto-Cloud", "app group", must: filesGroup),
    .init(.filesForIOS, ncbrand, filesGroup, "group.org.example.other", "app group", must: filesGroup),
    .init(
      .filesForIOS, ncbrand, "group.org.example.apps", "group.com.nextcloud.apps", "app group",
      must: "group.org.example.apps"),
    .init(
      .filesForIOS, ncbrand, "return \"Mozilla/5.0 (iOS) Example-Files",
      "return \"Mozilla/5.0 (iOS) Own-Files", "User-Agent", effect: "does not know"),
    .init(
      .filesForIOS, ncbrand, "return \"Mozilla/5.0 (iOS) Example-Files",
      "return \"Mozilla/5.0 (iOS) Nextcloud-iOS", "User-Agent", must: "org.example.files",
      effect: "it.twsweb.Nextcloud"),
    .init(
      .filesForIOS, "Brand/iOSClient.entitlements", filesGroup, "group.it.twsweb.Crypto-Cloud", allowed,
      must: filesGroup),
    .init(
      .filesForIOS, "Brand/Share.entitlements", filesGroup, "group.it.twsweb.Crypto-Cloud", allowed,
      must: filesGroup),
    .init(
      .filesForIOS, "Brand/File_Provider_Extension.plist", filesGroup, "group.it.twsweb.Crypto-Cloud",
      "app group", must: filesGroup),
    .init(
      .filesForIOS, "Brand/File_Provider_Extension.plist", filesGroup, "group.org.example.other", "app group",
      must: filesGroup),
    .init(.filesForIOS, "Brand/iOSClient.entitlements", environment, "", "aps-environment", line: ""),
    .init(
      .filesForIOS, filesProject, "org.example.$(PRODUCT_NAME", "it.twsweb.Nextcloud.$(PRODUCT_NAME",
      "bundle id"),
    .init(
      .filesForIOS, filesProject, "org.example.files.$(TARGET_NAME)", "it.twsweb.Nextcloud.$(TARGET_NAME)",
      "bundle id", must: "org.example.files.Share"),
    .init(
      .filesForIOS, filesProject, "org.example.$(PRODUCT_NAME", "org.example.own-$(PRODUCT_NAME", "bundle id",
      must: "org.example.files"),
    .init(.filesForIOS, filesProject, "TEAM567890", "NKUJUXUJ3B", "team", must: "TEAM567890"),
  ]

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
    .init(
      newerFiles, ncbrand, "pushNotificationServerProxy.isEmpty,\n        brand == \"Nextcloud\"",
      "pushNotificationServerProxy.isEmpty || brand == \"Example\"", "push proxy",
      line: "= \"\(vendorsProxy)\""),
    .init(
      newerFiles, ncbrand, "String = \"https://push.example.org\"", "String { Bundle.main.proxy }",
      "push proxy", .skipped),
    .init(
      newerFiles, ncbrand, "\"https://push.example.org\"", "\"\"", "push proxy", effect: "registers nowhere"),
    .init(
      newerFiles, ncbrand,
      """
      "Example"
        var brandUserAgent: String = "Example-Files"
        var pushNotificationServerProxy: String = "https://push.example.org"
      """,
      "\"Nextcloud\"\n  var brandUserAgent: String = \"Example-Files\"\n  var pushNotificationServerProxy: String = \"\"",
      "push proxy", line: vendorsProxy, effect: "Nextcloud's proxy"),
    .init(
      newerFiles, ncbrand, "\"https://push.example.org\"", "\"\(vendorsProxy)\"", "push proxy",
      line: "String = \"\(vendorsProxy)"),
    .init(
      newerFiles, ncbrand, "\"Example-Files\"", "\"\"", "User-Agent", line: "return \"Mozilla",
      must: "org.example.files", effect: "it.twsweb.Nextcloud"),
    .init(
      .filesForIOS, filesProject, "DEVELOPMENT_TEAM = TEAM567890",
      "DEVELOPMENT_TEAM = TEAM567890; \"DEVELOPMENT_TEAM[sdk=iphoneos*]\" = NKUJUXUJ3B", "team"),
  ]

  private static let setup = "app/src/main/res/values/setup.xml"
  private static let gplay = "app/src/gplay/res/values/setup.xml"
  private static let build = "app/build.gradle.kts"

  /// What stands in both apps for Android.
  private static func android(_ app: App, _ setup: String, hash: String) -> [Mistake] {
    func string(_ name: String, _ text: String) -> String {
      "<string name=\"\(name)\" translatable=\"false\">\(text)</string>"
    }
    return [
      .init(
        app, setup, ">https://push.example.org<", ">\(vendorsProxy)<", "push proxy",
        must: "https://push.example.org"),
      .init(
        app, setup, ">https://push.example.org<", ">https://push.example.org/<", "push proxy",
        effect: "two slashes"),
      .init(
        app, setup, ">https://push.example.org<", ">https://push.example.com<", "push proxy",
        effect: "another service"),
      .init(
        app, setup, ">https://push.example.org<", ">@string/own<", "push proxy", effect: "another service"),
      .init(
        app, setup, "example-chat", "nextcloud-a7dea", "Firebase project", must: "example-chat",
        effect: "SENDER_ID_MISMATCH"),
      .init(
        app, setup, "example-chat", "other", "Firebase project", must: "example-chat",
        effect: "SENDER_ID_MISMATCH"),
      .init(
        app, setup, string("project_id", "example-chat"), "", "Firebase project", line: "",
        must: "example-chat"),
      .init(app, setup, ">123456789012<", ">829118773643<", "Firebase number", must: pushable),
      .init(
        app, setup, ">123456789012<", "><", "Firebase number", line: "gcm_defaultSenderId", must: pushable),
      .init(
        app, setup, string("gcm_defaultSenderId", "123456789012"), "", "Firebase number", line: "",
        effect: "no token"),
      .init(
        app, setup, ">123456789012<", ">999<", "Firebase app", line: "google_app_id",
        effect: "another project"),
      .init(app, setup, "1:123456789012:", "1:829118773643:", "Firebase app", must: pushable),
      .init(
        app, setup, ":0123456789abcdef", ":\(hash)", "Firebase app", must: pushable, effect: "no such app"),
      .init(
        app, setup, ":android:0123456789abcdef", ":ios:0123456789abcdef", "Firebase app",
        must: "1:NUMBER:android"),
      .init(
        app, setup, "1:123456789012:android:0123456789abcdef", "", "Firebase app", line: "google_app_id",
        effect: "does not start"),
      .init(
        app, setup, string("google_app_id", "1:123456789012:android:0123456789abcdef"), "", "Firebase app",
        line: "", effect: "does not start"),
      .init(
        app, setup, "AIzaSyExampleExampleExampleExampleExamp", "AIzaSyAWIyOcLafaFp8PFL61h64cy-of-vendor",
        "Firebase API key",
        must: pushable),
      .init(
        app, setup, "AIzaSyExampleExampleExampleExampleExamp", "", "Firebase API key", line: "google_api_key",
        must: pushable),
      .init(
        app, setup, string("google_api_key", "AIzaSyExampleExampleExampleExampleExamp"), "",
        "Firebase API key", line: "", must: pushable),
    ]
  }

  /// Talk has UnifiedPush as well, Files has no other push.
  private static func messaging(_ app: App, _ service: String) -> [Mistake] {
    let manifest = "app/src/gplay/AndroidManifest.xml"
    let (action, name) = ("com.google.firebase.MESSAGING_EVENT", "NCFirebaseMessagingService")
    return [
      .init(
        app, manifest, action, "org.example.EVENT", "push in this build", line: "class \(name)", in: service,
        must: "with this class", effect: "no notification is shown"),
      .init(app, manifest, name, "OwnService", "push in this build", line: "class \(name)", in: service),
      .init(
        app, manifest, "android:name=\".services", "name=\".services", "push in this build",
        line: "class \(name)", in: service),
      .init(app, service, name, "OwnService", "push in this build", line: "class OwnService"),
    ]
  }

  static let talkForAndroid: [Mistake] =
    android(.talkForAndroid, setup, hash: "54b65087c544d819")
    + messaging(
      .talkForAndroid, "app/src/gplay/java/com/nextcloud/talk/services/firebase/NCFirebaseMessagingService.kt"
    )
    + [
      .init(
        .talkForAndroid, setup, ">https://push.example.org<", "><", "push proxy", line: "nc_push_server_url",
        effect: "registers nowhere"),
      .init(
        .talkForAndroid, setup, "nc_push_server_url\" ", "nc_push_server\" ", "push proxy", line: "",
        effect: "registers nowhere"),
      .init(
        .talkForAndroid, "app/src/main/res/values/strings.xml", "<resources>",
        "<resources>\n<string name=\"nc_push_server_url\">\(vendorsProxy)</string>", "push proxy",
        line: vendorsProxy),
      .init(
        .talkForAndroid, "app/src/main/res/values-de/strings.xml", "",
        "<resources><string name=\"nc_push_server_url\">\(vendorsProxy)</string></resources>", "push proxy"),
      .init(
        .talkForAndroid, "app/src/gplay/res/values/own.xml", "",
        "<resources><string name=\"nc_push_server_url\">https://old.example.org</string></resources>",
        "push proxy"),
      .init(
        .talkForAndroid, "app/src/release/res/values/own.xml", "",
        "<resources><string name=\"project_id\">old-chat</string></resources>", "Firebase project"),
      .init(
        .talkForAndroid, build, "create(\"gplay\") {\n                applicationId = \"org.example.talk\"",
        "create(\"gplay\") {\n                applicationId = \"com.nextcloud.talk2\"", "applicationId",
        line: "talk2\"", must: pushable),
      .init(
        .talkForAndroid, build, "release {",
        "release {\n resValue(\"string\", \"nc_push_server_url\", \"\(vendorsProxy)\")", "push proxy",
        line: "resValue"),
      .init(
        .talkForAndroid, "app/src/main/java/com/nextcloud/talk/utils/ApiUtils.kt", "Nextcloud-Talk", "Own",
        "User-Agent", effect: "does not know"),
    ]

  static let filesForAndroid: [Mistake] =
    android(.filesForAndroid, gplay, hash: "512449826e931d0e")
    + messaging(
      .filesForAndroid,
      "app/src/gplay/java/com/owncloud/android/services/firebase/NCFirebaseMessagingService.java")
    + [
      .init(
        .filesForAndroid, gplay, "push_server_url", "push_server", "push proxy", line: "push_server_url",
        in: setup, effect: "registers nowhere"),
      .init(.filesForAndroid, setup, "Nextcloud-android", "Own", "User-Agent", effect: "does not know"),
      .init(.filesForAndroid, setup, ">org.example.files<", ">org.nextcloud<", "left over", .warning),
      .init(
        .filesForAndroid, build,
        "register(\"gplay\") {\n                applicationId = \"org.example.files\"",
        "register(\"gplay\") {\n                applicationId = \"com.nextcloud.client\"", "applicationId",
        line: "com.nextcloud.client", must: pushable),
      .init(
        .filesForAndroid, build, "android {", "plugins { id(\"com.google.gms.google-services\") }\nandroid {",
        "google-services.json", line: "", in: "app/src/gplay/google-services.json",
        must: "org.example.files is registered"),
    ]

  static let mistakes = zulip + talkForIOS + filesForIOS + newer + talkForAndroid + filesForAndroid

  @Test(arguments: mistakes) func `A mistake is found in its file and line`(mistake: Mistake) throws {
    #expect(mistake.old.isEmpty || mistake.app[mistake.file].contains(mistake.old))
    var app = mistake.changed
    if mistake.old.isEmpty { app[mistake.file] = mistake.new }
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

  /// An edit after which an app is the same.
  struct Edit: CustomTestStringConvertible, Sendable {
    let app: App
    let file: String
    let old: String
    let new: String
    var testDescription: String { "\(file): \(old) -> \(new)" }

    init(_ app: App, _ file: String, _ old: String, _ new: String) {
      (self.app, self.file, self.old, self.new) = (app, file, old, new)
    }
  }

  private static let proxyLine =
    "<string name=\"push_server_url\" translatable=\"false\">https://push.example.org</string>"

  static let edits: [Edit] = [
    .init(newerFiles, ncbrand, "// DEBUG SERVER", "// debug server"),
    .init(newerFiles, ncbrand, "final class", "let pattern = #\"a \" { b\"#\nfinal class"),
    .init(
      newerFiles, ncbrand, "pushNotificationServerProxy.isEmpty,", "pushNotificationServerProxy == \"\" &&"),
    .init(
      newerFiles, ncbrand, "String = \"https://push.example.org\"", "String { \"https://push.example.org\" }"),
    .init(newerFiles, ncbrand, "var brand: String = \"Example\"", "var brand: String = \"Nextcloud\""),
    .init(.zulip, device, "class Push", "// bouncerPublicKey = base64Decode('\(vendorsKey)');\nclass Push"),
    .init(
      .zulip, device, "class Push",
      "/* was:\nstatic final bouncerPublicKey = base64Decode('\(vendorsKey)');\n*/\nclass Push"),
    .init(
      .zulip, device, keyExpression, "base64Decode(\n    // the key of our bouncer\n    \"\(active)\",\n  )"),
    .init(.zulip, device, keyExpression, "base64Decode('\(active.prefix(20))'\n  '\(active.dropFirst(20))')"),
    .init(.zulip, device, "bouncerPublicKey = base64", "Uint8List bouncerPublicKey\n    = convert.base64"),
    .init(.zulip, device, keyExpression, "base64Decode(_key);\n  static const _key = '\(active)'"),
    .init(.zulip, device, keyExpression, "base64.decode('\(active)')"),
    .init(
      .zulip, firebase, "  projectId: _Options.projectId,",
      "  // was zulip-android);\n  projectId: _Options.projectId, // FirebaseOptions(projectId: 'zulip-android');"
    ),
    .init(.zulip, firebase, "= FirebaseOptions(", "= const FirebaseOptions("),
    .init(
      .zulip, firebase, "static const projectId = 'example-chat'",
      "static const String projectId =\n      'example-chat'"),
    .init(.zulip, firebase, "'1:${_Options.projectNumber}:android:", "'1:' '123456789012' ':android:"),
    .init(.zulip, firebase, "'1:${_Options.projectNumber}:android:", "'1:123456789012:android:"),
    .init(
      .zulip, store, "const iosAppGroupIdentifier = 'group.org.example.chat';",
      "const String iosAppGroupIdentifier = \"group.org.example.chat\"; // was 'group.com.zulip.app'"),
    .init(
      .zulip, gradle, "applicationId \"org.example.chat\"",
      "// applicationId \"com.zulipmobile\"\n        applicationId = 'org.example.chat'"),
    .init(.zulip, gradle, "\"org.example.chat\"", "(\"org.example.chat\")"),
    .init(
      .zulip, xcconfig, "DEVELOPMENT_TEAM=TEAM567890",
      "// DEVELOPMENT_TEAM = 66KHCWMEYB\nDEVELOPMENT_TEAM   =   TEAM567890  // ours"),
    .init(.zulip, service, "<array>", "<!-- <string>group.com.zulip.app</string> -->\n<array>"),
    .init(
      .zulip, runner, "<string>$(ZULIP_APP_GROUP_IDENTIFIER)</string>",
      "<string>\n      ${ZULIP_APP_GROUP_IDENTIFIER}\n    </string>"),
    .init(.zulip, zulipProject, "= org.example.chat;", "= \"org.example.chat\";"),
    .init(.zulip, zulipProject, "RunnerUITests;", "RunnerUITests.other;"),
    .init(
      .zulip, zulipInfo, "<key>UIBackgroundModes</key>",
      "<!-- org.zulip.Zulip -->\n<key>UIBackgroundModes</key>"),
    .init(.talkForIOS, branding, "@\"https://push.example.org\"", "@\"https://PUSH.Example.org:443\""),
    .init(
      .talkForIOS, branding, "@\"https://push.example.org\"",
      "\n#if DEBUG\n@\"\(vendorsProxy)\"\n#else\n@\"https://push.example.org\"\n#endif\n"),
    .init(
      .talkForIOS, branding, "@\"https://push.example.org\"",
      "PUSH_SERVER;\n#define PUSH_SERVER @\"https://push.example.org\"\n"),
    .init(
      .talkForIOS, branding, "NSString * const pushNot",
      "//NSString * const pushNotificationServer = @\"\(vendorsProxy)\";\nNSString *const pushNot"),
    .init(
      .talkForIOS, branding, "useAppsGroup = YES",
      "useAppsGroup=NO; NSString * const other = @\"group.com.nextcloud.apps\""),
    .init(.talkForIOS, branding, "@\"org.example.talk\";", "@\"org.example\"\n  @\".talk\" ;"),
    .init(
      .talkForIOS, talkProject, "DEVELOPMENT_TEAM = TEAM567890",
      "/* DEVELOPMENT_TEAM = NKUJUXUJ3B; */ DEVELOPMENT_TEAM = \"TEAM567890\""),
    .init(
      .talkForIOS, talkProject, "DEVELOPMENT_TEAM = TEAM567890",
      "DEVELOPMENT_TEAM = TEAM567890; CODE_SIGN_IDENTITY = \"iPhone Distribution: Nextcloud GmbH (NKUJUXUJ3B)\"; \"CODE_SIGN_IDENTITY[sdk=iphoneos*]\" = \"iPhone Developer\""
    ),
    .init(
      .talkForIOS, branding, "@\"https://push.example.org\";",
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
      """),
    .init(
      .filesForIOS, filesProject, "\"$(SRCROOT)/Brand/iOSClient.plist\"",
      "\"$(SRCROOT)/Brand/../Brand//./iOSClient.plist\""),
    .init(
      .filesForIOS, filesProject, "= Brand/Share.entitlements", "= \"$(SRCROOT)/Brand//Share.entitlements\""),
    .init(.filesForIOS, ncbrand, "pushNotificationServerProxy: String = ", "pushNotificationServerProxy = "),
    .init(
      .filesForIOS, ncbrand, "  @objc public var push",
      "  // @objc public var pushNotificationServerProxy: String = \"\(vendorsProxy)\"\n  @objc public var push"
    ),
    .init(
      .filesForIOS, ncbrand, "  @objc public var push",
      "  /* /* nested */ pushNotificationServerProxy: String = \"\(vendorsProxy)\" */\n  @objc public var push"
    ),
    .init(
      .filesForIOS, "Brand/NCBrand-Own.swift", "",
      "class NCBrandOptionsOwn: NCBrandOptions {\n  override init() {\n    super.init()\n    capabilitiesGroups = \"group.org.example.files\"\n  }\n}"
    ),
    .init(
      .filesForIOS, filesProject, "org.example.$(PRODUCT_NAME:rfc1034identifier)",
      "org.example.${PRODUCT_NAME:rfc1034identifier}"),
    .init(.talkForAndroid, setup, ">https://push.example.org<", ">\n      https://push.example.org\n    <"),
    .init(.talkForAndroid, setup, ">https://push.example.org<", "><![CDATA[https://push.example.org]]><"),
    .init(.talkForAndroid, setup, ">https://push.example.org<", ">\"https://push.example.org\"<"),
    .init(
      .talkForAndroid, setup, "<string name=\"project_id\" translatable=\"false\">",
      "<string translatable='false'\n   name='project_id'>"),
    .init(
      .talkForAndroid, "app/src/qa/res/values/setup.xml", "<resources>",
      "<resources><string name=\"nc_push_server_url\">\(vendorsProxy)</string>"),
    .init(
      .talkForAndroid, build, "create(\"generic\") {\n                applicationId = \"org.example.talk\"",
      "create(\"generic\") {\n                applicationId = \"com.nextcloud.talk2\""),
    .init(
      .talkForAndroid, "app/google-services.json", "",
      #"{"project_info": {"project_number": "829118773643", "project_id": "nextcloud-a7dea"}}"#),
    .init(
      .filesForAndroid, gplay, proxyLine,
      "<!-- <string name=\"push_server_url\">\(vendorsProxy)</string> -->\n\(proxyLine)"),
    .init(
      .filesForAndroid, "app/src/huawei/res/values/setup.xml", "",
      "<resources><string name=\"push_server_url\">\(vendorsProxy)</string><string name=\"project_id\">other</string></resources>"
    ),
    .init(
      .talkForAndroid,
      "app/src/gplay/java/com/nextcloud/talk/services/firebase/NCFirebaseMessagingService.kt",
      "class NC", "abstract class Base : FirebaseMessagingService()\nclass NC"),
    .init(
      .talkForAndroid, "app/src/generic/java/Own.kt", "", "class Own : FirebaseMessagingService() {}"),
    .init(
      .filesForAndroid, setup, "<string name=\"name_for_branded_user_agent\"></string>",
      "<string name=\"name_for_branded_user_agent\"/>"),
    .init(
      .filesForAndroid, build, "register(\"gplay\")",
      "// applicationId = \"com.nextcloud.client\"\n            create('gplay')"),
  ]

  @Test(arguments: edits) func `An edit that changes nothing is silent`(edit: Edit) throws {
    #expect(edit.old.isEmpty || edit.app[edit.file].contains(edit.old))
    var app = edit.app
    app[edit.file] = edit.old.isEmpty ? edit.new : app[edit.file].replacing(edit.old, with: edit.new)
    let report = try app.check(.example())
    #expect(report.bad == [])
    #expect(report.skipped == [])
  }
}
