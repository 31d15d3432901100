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

  private static func xcodeProject(_ id: String, extension name: String) -> String {
    """
    /* Debug */
    		PRODUCT_BUNDLE_IDENTIFIER = \(id);
    		PRODUCT_BUNDLE_IDENTIFIER = "\(id).\(name)";
    /* Release */
    		PRODUCT_BUNDLE_IDENTIFIER = \(id);
    		PRODUCT_BUNDLE_IDENTIFIER = "\(id).\(name)";
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
      "org.example.chat", extension: "NotificationService"),
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
    "NextcloudTalk.xcodeproj/project.pbxproj": xcodeProject("org.example.talk", extension: "ShareExtension"),
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
    "Nextcloud.xcodeproj/project.pbxproj": xcodeProject("org.example.files", extension: "Share"),
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
    </resources>
    """,
    "app/src/gplay/google-services.json": """
    {"project_info": {"project_number": "123456789012", "project_id": "example-chat"},
     "client": [{"client_info": {"mobilesdk_app_id": "1:123456789012:android:0123456789abcdef"}}]}
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
