import AppCheck
import Foundation
import Sealing

extension App {
  static func entitlements(_ groups: String...) -> String {
    """
    <?xml version="1.0" encoding="UTF-8"?>
    <plist version="1.0">
    <dict>
      <key>aps-environment</key>
      <string>development</string>
      <key>com.apple.security.application-groups</key>
      <array>
    \(groups.map { "    <string>\($0)</string>" }.joined(separator: "\n"))
      </array>
    </dict>
    </plist>
    """
  }

  /// A target of an Xcode project.
  struct Target {
    let name: String
    /// The end of its product type: `application`, `app-extension`, `bundle.unit-test`.
    var kind = "app-extension"
    let id: String
    /// The path of its entitlements file.
    var entitlements: String?
    /// Further settings, as they stand in the file.
    var settings: [String] = []
  }

  /// `project.pbxproj` as Xcode writes it: targets, each with a list of configurations.
  ///
  /// - Parameter base: the name of a file `*.xcconfig` that all configurations begin with.
  static func xcodeProject(_ targets: [Target], team: String? = nil, base: String? = nil) -> String {
    var objects: [String] = []
    func configurations(_ owner: String, _ settings: [String]) -> String {
      for name in ["Debug", "Release"] {
        objects.append(
          """
          \t\t\(owner)\(name) /* \(name) */ = {
          \t\t\tisa = XCBuildConfiguration;
          \(base.map { "\t\t\tbaseConfigurationReference = \($0) /* \($0) */;\n" } ?? "")\t\t\tbuildSettings = {
          \(settings.map { "\t\t\t\t\($0);" }.joined(separator: "\n"))
          \t\t\t};
          \t\t\tname = \(name);
          \t\t};
          """)
      }
      return """
        \t\t\(owner)List /* Build configuration list */ = {
        \t\t\tisa = XCConfigurationList;
        \t\t\tbuildConfigurations = (
        \t\t\t\t\(owner)Debug /* Debug */,
        \t\t\t\t\(owner)Release /* Release */,
        \t\t\t);
        \t\t};
        """
    }
    for (number, target) in targets.enumerated() {
      objects.append(
        """
        \t\tT\(number) /* \(target.name) */ = {
        \t\t\tisa = PBXNativeTarget;
        \t\t\tbuildConfigurationList = T\(number)List /* Build configuration list */;
        \t\t\tname = "\(target.name)";
        \t\t\tproductType = "com.apple.product-type.\(target.kind)";
        \t\t};
        """)
      let settings =
        (target.entitlements.map { ["CODE_SIGN_ENTITLEMENTS = \($0)"] } ?? [])
        + ["PRODUCT_BUNDLE_IDENTIFIER = \(target.id)", "PRODUCT_NAME = \"$(TARGET_NAME)\""]
        + (team.map { ["DEVELOPMENT_TEAM = \($0)"] } ?? []) + target.settings
      objects.append(configurations("T\(number)", settings))
    }
    objects.append(configurations("Project", ["SDKROOT = iphoneos"]))
    if let base {
      objects.append("\t\t\(base) = {isa = PBXFileReference; path = \(base); sourceTree = \"<group>\"; };")
    }
    return """
      // !$*UTF8*$!
      {
      \tarchiveVersion = 1;
      \tobjects = {
      \(objects.joined(separator: "\n"))
      \t\tProject /* Project object */ = {
      \t\t\tisa = PBXProject;
      \t\t\tbuildConfigurationList = ProjectList /* Build configuration list */;
      \t\t\ttargets = (
      \(targets.indices.map { "\t\t\t\tT\($0)," }.joined(separator: "\n"))
      \t\t\t);
      \t\t};
      \t};
      \trootObject = Project /* Project object */;
      }
      """
  }

  /// zulip-flutter, rebuilt for the example service.
  static let zulip = App([
    "lib/model/push_device.dart": """
    class PushDeviceManager {
      // static final bouncerPublicKey = base64Decode('an older one');
      static final bouncerPublicKey = base64Decode('\(AppCheck.Service.active.publicKeyBase64)');
    }
    """,
    "lib/firebase_options.dart": """
    class _Options {
      static const projectNumber = '123456789012';
      static const projectId = 'example-chat';
    }

    const kFirebaseOptionsAndroid = FirebaseOptions(
      // projectId: 'not this one',
      appId: '1:${_Options.projectNumber}:android:0123456789abcdef',
      messagingSenderId: _Options.projectNumber,
      projectId: _Options.projectId,
      apiKey: 'key',
    );

    const kFirebaseOptionsIos = FirebaseOptions(
      appId: '1:${_Options.projectNumber}:ios:0123456789abcdef',
      messagingSenderId: _Options.projectNumber,
      projectId: _Options.projectId,
    );
    """,
    "lib/model/store.dart": "const iosAppGroupIdentifier = 'group.org.example.chat';\n",
    "android/app/build.gradle": "android {\n  defaultConfig {\n    applicationId = \"org.example.chat\"\n",
    "ios/Flutter/Zulip.xcconfig": """
    DEVELOPMENT_TEAM = TEAM567890
    ZULIP_APP_GROUP_IDENTIFIER = group.org.example.chat // as in store.dart
    """,
    "ios/Runner.xcodeproj/project.pbxproj": xcodeProject(
      [
        .init(
          name: "Runner", kind: "application", id: "org.example.chat",
          entitlements: "Runner/Runner.entitlements"),
        .init(
          name: "NotificationService", id: "org.example.chat.NotificationService",
          entitlements: "NotificationService/NotificationService.entitlements"),
        .init(name: "RunnerUITests", kind: "bundle.ui-testing", id: "org.example.chat.RunnerUITests"),
      ], base: "Zulip.xcconfig"),
    "ios/Runner/Runner.entitlements": entitlements("$(ZULIP_APP_GROUP_IDENTIFIER)"),
    "ios/NotificationService/NotificationService.entitlements": entitlements("$(ZULIP_APP_GROUP_IDENTIFIER)"),
    "ios/Runner/Info.plist": "<string>$(PRODUCT_BUNDLE_IDENTIFIER)</string>",
  ])

  static let talkForIOS = App([
    "NextcloudTalk/Settings/NCAppBranding.m": """
    NSString * const talkAppName = @"Example Talk";
    NSString * const bundleIdentifier = @"org.example.talk";
    NSString * const groupIdentifier = @"group.org.example.talk";
    NSString * const appsGroupIdentifier = @"group.org.example.apps";
    NSString * const pushNotificationServer = @"https://push.example.org";
    """,
    "NextcloudTalk/Network/Client.swift": #"let agent = "Mozilla/5.0 (iOS) Nextcloud-Talk v\(version)""#,
    "NextcloudTalk.xcodeproj/project.pbxproj": xcodeProject(
      [
        .init(
          name: "NextcloudTalk", kind: "application", id: "org.example.talk",
          entitlements: "NextcloudTalk/NextcloudTalk.entitlements"),
        .init(
          name: "ShareExtension", id: "org.example.talk.ShareExtension",
          entitlements: "ShareExtension/ShareExtension.entitlements"),
        .init(
          name: "NextcloudTalkTests", kind: "bundle.unit-test", id: "com.nextcloud.Talk.NextcloudTalkTests"),
      ], team: "TEAM567890"),
    "NextcloudTalk/NextcloudTalk.entitlements": entitlements(
      "group.org.example.talk", "group.org.example.apps"),
    "ShareExtension/ShareExtension.entitlements": entitlements(
      "group.org.example.talk", "group.org.example.apps"),
  ])

  static let filesForIOS = App([
    "Brand/NCBrand.swift": #"""
    let userAgent: String = {
      // Original Nextcloud useragent "Mozilla/5.0 (iOS) Nextcloud-iOS/\(appVersion)"
      return "Mozilla/5.0 (iOS) Example-Files/\(appVersion)"
    }()
      @objc public var pushNotificationServerProxy: String = "https://push.example.org"
      @objc public var capabilitiesGroups: String = "group.org.example.files"
      @objc public var capabilitiesGroupApps: String = "group.org.example.apps"
    """#,
    "Nextcloud.xcodeproj/project.pbxproj": xcodeProject(
      [
        .init(
          name: "files", kind: "application", id: "\"org.example.$(PRODUCT_NAME:rfc1034identifier)\"",
          entitlements: "Brand/iOSClient.entitlements"),
        .init(
          name: "Share", id: "\"org.example.files.$(TARGET_NAME)\"", entitlements: "Brand/Share.entitlements"),
      ], team: "TEAM567890"),
    "Brand/Share.entitlements": entitlements("group.org.example.files", "group.org.example.apps"),
    "Brand/iOSClient.entitlements": entitlements("group.org.example.files", "group.org.example.apps"),
  ])

  static let talkForAndroid = App([
    "app/build.gradle.kts": "defaultConfig {\n  applicationId = \"org.example.talk\"\n",
    "app/src/main/java/com/nextcloud/talk/api/Agent.java": #"""
    String AGENT = "Mozilla/5.0 (Android) Nextcloud-Talk v";
    """#,
    "app/src/main/res/values/setup.xml": """
    <resources>
      <!-- <string name="nc_push_server_url">https://old.example.org</string> -->
      <string name="nc_push_server_url" translatable="false">https://push.example.org</string>
      <string name="gcm_defaultSenderId" translatable="false">123456789012</string>
      <string name="google_app_id" translatable="false">1:123456789012:android:0123456789abcdef</string>
      <string name="project_id" translatable="false">example-chat</string>
    </resources>
    """,
  ])

  static let filesForAndroid = App([
    "app/build.gradle": "defaultConfig {\n  applicationId \"org.example.files\"\n",
    "app/src/main/java/com/owncloud/android/MainApp.java": "",
    "app/src/main/res/values/setup.xml": """
    <string name="push_server_url" translatable="false"></string>
    <string name="nextcloud_user_agent">Mozilla/5.0 (Android) Nextcloud-android/%1$s</string>
    """,
    "app/src/gplay/res/values/setup.xml": """
    <string name="push_server_url" translatable="false">https://push.example.org</string>
    <string name="gcm_defaultSenderId" translatable="false">123456789012</string>
    <string name="google_app_id" translatable="false">1:123456789012:android:0123456789abcdef</string>
    <string name="project_id" translatable="false">example-chat</string>
    """,
  ])
}
