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
        \t\t\tbuildPhases = (\(target.kind == "application" ? "Embed" : ""));
        \t\t\tproductReference = P\(number);
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
    let extensions = targets.indices.filter { targets[$0].kind.contains("extension") }
    for number in extensions {
      objects.append(
        "\t\tF\(number) /* \(targets[number].name).appex */ = {isa = PBXBuildFile; fileRef = P\(number); };")
    }
    objects.append(
      """
      \t\tEmbed /* Embed Foundation Extensions */ = {
      \t\t\tisa = PBXCopyFilesBuildPhase;
      \t\t\tdstSubfolderSpec = 13;
      \t\t\tfiles = (
      \(extensions.map { "\t\t\t\tF\($0)," }.joined(separator: "\n"))
      \t\t\t);
      \t\t};
      """)
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

  private static func info(
    _ id: String = "$(PRODUCT_BUNDLE_IDENTIFIER)", modes: [String] = [], point: String? = nil
  ) -> String {
    """
    <?xml version="1.0" encoding="UTF-8"?>
    <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
    <plist version="1.0">
    <dict>
      <key>CFBundleIdentifier</key>
      <string>\(id)</string>
      <key>UIBackgroundModes</key>
      <array>
    \(modes.map { "    <string>\($0)</string>" }.joined(separator: "\n"))
      </array>
      <key>NSExtension</key>
      <dict>
        <key>NSExtensionPointIdentifier</key>
        <string>\(point ?? "com.apple.none")</string>
      </dict>
      <key>CFBundleURLName</key>
      <string>\(id)</string>
    </dict>
    </plist>
    """
  }

  /// zulip-flutter, rebuilt for the example service.
  static let zulip = App([
    "lib/model/push_device.dart": """
    class PushDeviceManager {
      // static final bouncerPublicKey = base64Decode('an older one');
      static final bouncerPublicKey = base64Decode('\(AppCheck.Service.active.publicKeyBase64)'); // generated 2026-02-24
      final other = send(bouncerPublicKey: base64Encode(bouncerPublicKey));
    }
    """,
    "lib/firebase_options.dart": """
    /// It isn't a secret.
    const kFirebaseOptionsAndroid = FirebaseOptions(
      // projectId: 'not this one',
      appId: '1:${_Options.projectNumber}:android:0123456789abcdef',
      messagingSenderId: _Options.projectNumber,
      projectId: _Options.projectId,
      apiKey: _Options.firebaseApiKey,
    );

    const kFirebaseOptionsIos = FirebaseOptions(
      appId: '1:${_Options.projectNumber}:ios:fedcba9876543210',
      messagingSenderId: _Options.projectNumber,
      projectId: _Options.projectId,
      apiKey: _Options.firebaseApiKey,
    );

    abstract class _Options {
      static const projectNumber = '123456789012';
      static const projectId = 'example-chat';
      static const firebaseApiKey = 'AIzaSyExampleExampleExampleExampleExamp';
    }
    """,
    "lib/model/store.dart": """
    Future<void> open() async {
      // This should match ZULIP_APP_GROUP_IDENTIFIER.
      const iosAppGroupIdentifier = 'group.org.example.chat';
      return container(appGroupIdentifier: iosAppGroupIdentifier);
    }
    """,
    "android/app/build.gradle": """
    android {
        namespace "com.zulip.flutter"
        defaultConfig {
            applicationId "org.example.chat"
            minSdkVersion 26
        }
    }
    """,
    "ios/Flutter/Release.xcconfig": "#include \"Generated.xcconfig\"\n#include \"Zulip.xcconfig\"\n",
    "ios/Flutter/Zulip.xcconfig": """
    DEVELOPMENT_TEAM=TEAM567890

    // This should match store.dart.
    ZULIP_APP_GROUP_IDENTIFIER = group.org.example.chat
    """,
    "ios/Runner.xcodeproj/project.pbxproj": xcodeProject(
      [
        .init(
          name: "Runner", kind: "application", id: "org.example.chat",
          entitlements: "Runner/Runner.entitlements",
          settings: ["INFOPLIST_FILE = Runner/Info.plist"]),
        .init(
          name: "NotificationService", id: "org.example.chat.NotificationService",
          entitlements: "NotificationService/NotificationService.entitlements",
          settings: ["INFOPLIST_FILE = NotificationService/Info.plist"]),
        .init(name: "RunnerUITests", kind: "bundle.ui-testing", id: "org.example.chat.RunnerUITests"),
      ], base: "Release.xcconfig"),
    "ios/Runner/Runner.entitlements": entitlements("$(ZULIP_APP_GROUP_IDENTIFIER)"),
    "ios/NotificationService/NotificationService.entitlements": entitlements("$(ZULIP_APP_GROUP_IDENTIFIER)"),
    "ios/Runner/Info.plist": info(modes: ["fetch", "remote-notification"]),
    "ios/NotificationService/Info.plist": info(point: "com.apple.usernotifications.service"),
  ])

  static let talkForIOS = App([
    "NextcloudTalk/Settings/NCAppBranding.m": """
    #import "NCAppBranding.h"

    #pragma mark - App configuration

    NSString * const talkAppName = @"Example Talk";
    NSString * const bundleIdentifier = @"org.example.talk";
    NSString * const groupIdentifier = @"group.org.example.talk";
    NSString * const appsGroupIdentifier = @"group.org.example.apps";
    NSString * const pushNotificationServer = @"https://push.example.org";
    BOOL const isBrandedApp = YES;
    BOOL const useAppsGroup = YES;
    """,
    "NextcloudTalk/Settings/NCAppBrandingExtensions.swift": #"""
    static func userAgent() -> String {
      return "Mozilla/5.0 (iOS) Nextcloud-Talk v\(Bundle.main.infoDictionary?["Version"] ?? "Unknown")"
    }
    """#,
    "NextcloudTalk.xcodeproj/project.pbxproj": xcodeProject(
      [
        .init(
          name: "NextcloudTalk", kind: "application", id: "org.example.talk",
          entitlements: "NextcloudTalk/NextcloudTalk.entitlements",
          settings: ["INFOPLIST_FILE = NextcloudTalk/Info.plist"]),
        .init(
          name: "ShareExtension", id: "org.example.talk.ShareExtension",
          entitlements: "ShareExtension/ShareExtension.entitlements"),
        .init(
          name: "NotificationServiceExtension", id: "org.example.talk.NotificationServiceExtension",
          entitlements: "NotificationServiceExtension/NotificationServiceExtension.entitlements",
          settings: ["INFOPLIST_FILE = NotificationServiceExtension/Info.plist"]),
        .init(
          name: "BroadcastUploadExtension", id: "org.example.talk.BroadcastUploadExtension",
          entitlements: "BroadcastUploadExtension/BroadcastUploadExtension.entitlements"),
        .init(
          name: "TalkIntents", kind: "extensionkit-extension", id: "org.example.talk.TalkIntents",
          entitlements: "TalkIntents/TalkIntents.entitlements"),
        .init(
          name: "NextcloudTalkTests", kind: "bundle.unit-test", id: "com.nextcloud.Talk.NextcloudTalkTests"),
      ], team: "TEAM567890"),
    "NotificationServiceExtension/Info.plist": info(point: "com.apple.usernotifications.service"),
    "NextcloudTalk/Info.plist": info(modes: ["audio", "fetch", "remote-notification", "voip"]),
    "NextcloudTalk/NextcloudTalk.entitlements": entitlements(
      "group.org.example.talk", "group.org.example.apps"),
    "ShareExtension/ShareExtension.entitlements": entitlements("group.org.example.talk"),
    "NotificationServiceExtension/NotificationServiceExtension.entitlements": entitlements(
      "group.org.example.talk"),
    "BroadcastUploadExtension/BroadcastUploadExtension.entitlements": entitlements("group.org.example.talk"),
    "TalkIntents/TalkIntents.entitlements": entitlements("group.org.example.talk"),
  ])

  static let filesForIOS = App([
    "Brand/NCBrand.swift": #"""
    let userAgent: String = {
      // Original Nextcloud useragent "Mozilla/5.0 (iOS) Nextcloud-iOS/\(appVersion)"
      return "Mozilla/5.0 (iOS) Example-Files/\(appVersion)"
    }()

    @objc class NCBrandOptions: NSObject {
      @objc public var brand: String = "Example"
      @objc public var pushNotificationServerProxy: String = "https://push.example.org"
      @objc public var webLoginAutenticationProtocol: String = "nc://"     // example "abc://"

      @objc public var capabilitiesGroups: String = "group.org.example.files"
      @objc public var capabilitiesGroupApps: String = "group.org.example.apps"
    }
    """#,
    "Nextcloud.xcodeproj/project.pbxproj": xcodeProject(
      [
        .init(
          name: "files", kind: "application", id: "\"org.example.$(PRODUCT_NAME:rfc1034identifier)\"",
          entitlements: "Brand/iOSClient.entitlements",
          settings: ["INFOPLIST_FILE = \"$(SRCROOT)/Brand/iOSClient.plist\""]),
        .init(
          name: "Share", id: "\"org.example.files.$(TARGET_NAME)\"", entitlements: "Brand/Share.entitlements"),
        .init(
          name: "File Provider Extension", id: "\"org.example.files.File-Provider-Extension\"",
          entitlements: "Brand/File_Provider_Extension.entitlements",
          settings: ["INFOPLIST_FILE = Brand/File_Provider_Extension.plist"]),
        .init(
          name: "Notification Service Extension", id: "org.example.files.Notification",
          entitlements: "Brand/Notification_Service_Extension.entitlements",
          settings: ["INFOPLIST_FILE = Brand/Notification_Service_Extension.plist"]),
        .init(name: "NextcloudTests", kind: "bundle.unit-test", id: "it.twsweb.NextcloudTests"),
      ], team: "TEAM567890"),
    "Brand/Notification_Service_Extension.plist": info(point: "com.apple.usernotifications.service"),
    "Brand/Notification_Service_Extension.entitlements": entitlements("group.org.example.files"),
    "Brand/iOSClient.plist": info(modes: ["fetch", "remote-notification"]),
    "Brand/File_Provider_Extension.plist": """
    <plist version="1.0"><dict>
      <key>NSExtension</key>
      <dict>
        <key>NSExtensionFileProviderDocumentGroup</key>
        <string>group.org.example.files</string>
      </dict>
    </dict></plist>
    """,
    "Brand/iOSClient.entitlements": entitlements("group.org.example.files", "group.org.example.apps"),
    "Brand/Share.entitlements": entitlements("group.org.example.files", "group.org.example.apps"),
    "Brand/File_Provider_Extension.entitlements": entitlements("group.org.example.files"),
  ])

  private static func flavors(_ create: String, _ flavors: [(name: String, id: String)]) -> String {
    """
    android {
        defaultConfig {
            minSdk = 28
            \(create == "register" ? "applicationId = \"org.example.files\"" : "// none here")
            productFlavors {
    \(flavors.map {
      """
                  \(create)("\($0.name)") {
                      applicationId = "\($0.id)"
                      dimension = "default"
                  }
      """
    }.joined(separator: "\n"))
            }
        }
        buildTypes {
            release {
                isMinifyEnabled = false
            }
            debug {
                applicationIdSuffix = ".debug"
            }
        }
    }
    """
  }

  private static func manifest(_ services: (name: String, action: String)...) -> String {
    """
    <?xml version="1.0" encoding="utf-8"?>
    <manifest xmlns:android="http://schemas.android.com/apk/res/android">
      <application>
    \(services.map {
        """
            <service android:name="\($0.name)" android:exported="false">
              <intent-filter><action android:name="\($0.action)"/></intent-filter>
            </service>
        """
      }.joined(separator: "\n"))
      </application>
    </manifest>
    """
  }

  private static let messaging = manifest(
    (".services.firebase.NCFirebaseMessagingService", "com.google.firebase.MESSAGING_EVENT"))

  private static let firebase = """
      <string name="gcm_defaultSenderId" translatable="false">123456789012</string>
      <string name="google_api_key" translatable="false">AIzaSyExampleExampleExampleExampleExamp</string>
      <string name="google_app_id" translatable="false">1:123456789012:android:0123456789abcdef</string>
      <string name="project_id" translatable="false">example-chat</string>
    """

  static let talkForAndroid = App([
    "app/build.gradle.kts": flavors(
      "create",
      [("generic", "org.example.talk"), ("gplay", "org.example.talk"), ("qa", "com.nextcloud.talk2.qa")]),
    "app/src/main/java/com/nextcloud/talk/utils/ApiUtils.kt": #"""
    object ApiUtils {
        @JvmStatic
        val userAgent = "Mozilla/5.0 (Android) Nextcloud-Talk v"
            get() = field + BuildConfig.VERSION_NAME
    }
    """#,
    "app/src/main/res/values/setup.xml": """
    <?xml version="1.0" encoding="utf-8"?>
    <resources>
      <!-- <string name="nc_push_server_url">https://old.example.org</string> -->
      <string name="nc_push_server_url" translatable="false">https://push.example.org</string>
    \(firebase)
    </resources>
    """,
    "app/src/main/AndroidManifest.xml": manifest(
      (".services.UnifiedPushService", "org.unifiedpush.android.connector.PUSH_EVENT")),
    "app/src/gplay/AndroidManifest.xml": messaging,
    "app/src/gplay/java/com/nextcloud/talk/services/firebase/NCFirebaseMessagingService.kt": """
    @AutoInjector(NextcloudTalkApplication::class)
    class NCFirebaseMessagingService : FirebaseMessagingService() {
    }
    """,
    "app/src/main/res/values/strings.xml":
      "<resources><string name=\"app\">It's <b>one</b> &amp; \\\"two\\\"</string></resources>",
    "app/src/qa/res/values/setup.xml": "<resources><string name=\"nc_app_name\">QA</string></resources>",
  ])

  static let filesForAndroid = App([
    "app/build.gradle.kts": flavors(
      "register",
      [
        ("generic", "org.example.files"), ("gplay", "org.example.files"),
        ("huawei", "org.example.files.huawei"),
        ("qa", "com.nextcloud.android.qa"),
      ]),
    "app/src/main/java/com/owncloud/android/MainApp.java": "",
    "app/src/main/AndroidManifest.xml": manifest(),
    "app/src/gplay/AndroidManifest.xml": messaging,
    "app/src/gplay/java/com/owncloud/android/services/firebase/NCFirebaseMessagingService.java": """
    public class NCFirebaseMessagingService extends FirebaseMessagingService {
    }
    """,
    "app/src/main/res/values/setup.xml": """
    <resources>
      <string name="authority">org.example.files</string>
      <string name="push_server_url" translatable="false"></string>
      <string name="nextcloud_user_agent">Mozilla/5.0 (Android) Nextcloud-android/%1$s%2$s</string>
      <string name="name_for_branded_user_agent"></string>
    </resources>
    """,
    "app/src/gplay/res/values/setup.xml": """
    <resources>
      <!-- Push server url -->
      <string name="push_server_url" translatable="false">https://push.example.org</string>
    \(firebase)
    </resources>
    """,
    "app/src/gplay/google-services.json":
      #"{"project_info": {"project_number": "", "project_id": ""}, "client": []}"#,
  ])
}
