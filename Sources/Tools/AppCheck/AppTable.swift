internal import NextcloudProxy

/// What an app must have for its notifications: one row for each value, which says where the value stands in a source and
/// in a package, what it must be, and what happens on a phone otherwise. (`Documentation/Apps.md`)
struct AppTable: Sendable {
  enum Product: String, Sendable {
    case zulip = "Zulip"
    case talk = "Nextcloud Talk"
    case files = "Nextcloud Files"
  }

  let product: Product
  /// The folder of Android's build file; nil for an app that is for iOS alone.
  var build: Name?
  /// Whether everything for iOS is looked at: bundle ids, team, entitlements, extensions.
  var isForIOS = false
  let rows: [Row]
}

/// A kind of value, as the operator reads it.
enum Aspect: String, Sendable {
  /// The key that the app seals its registrations to, in base64.
  case bouncerKey = "bouncer key"
  case proxy = "push proxy"
  case userAgent = "User-Agent"
  case firebaseProject = "Firebase project"
  /// `messagingSenderId` or `gcm_defaultSenderId`.
  case firebaseNumber = "Firebase number"
  /// `1:<number>:android:...` or `1:<number>:ios:...`
  case firebaseApp = "Firebase app"
  /// `apiKey` or `google_api_key`.
  case firebaseKey = "Firebase API key"
  /// What the app for iOS starts the Firebase library with, though its pushes go by APNs.
  case firebaseForIOS = "Firebase for iOS"
  /// The file that Firebase offers for an app, where a build reads it.
  case googleServices = "google-services.json"
  case applicationID = "applicationId"
  /// The SHA-256 of the certificate that a package for Android is signed with.
  case certificate = "signing certificate"
  /// Whether the flavour of an app for Android has push at all.
  case messaging = "push in this build"
  case bundleID = "bundle id"
  /// The bundle id as it stands in the code once more.
  case bundleIDInCode = "bundle id in the code"
  case team = "team"
  /// The app groups that the code opens.
  case group = "app group"
  /// The app groups that the entitlements allow.
  case entitledGroup = "app group in the entitlements"
  case environment = "aps-environment"
  case backgroundModes = "background modes"
  case notificationService = "notification extension"
  /// A name of the original app that does not decide about notifications.
  case leftover = "left over"
  /// A file that could not be read, or not to its end.
  case file = "file"

  /// Whether it is a value of a Firebase project, on whichever platform.
  var isFirebase: Bool { rawValue.hasPrefix("Firebase") }
}

// MARK: The tables

extension AppTable {
  private static let (device, store) = ("lib/model/push_device.dart" as Name, "lib/model/store.dart" as Name)
  private static let options: Name = "lib/firebase_options.dart"

  static let zulip = AppTable(
    product: .zulip, build: "android/app/", isForIOS: true,
    rows: [
      .bouncerKey(.constant("bouncerPublicKey", in: device)),
      .firebaseProject(.constant("kFirebaseOptionsAndroid.projectId", in: options)),
      .firebaseNumber(.constant("kFirebaseOptionsAndroid.messagingSenderId", in: options)),
      .firebaseApp(.constant("kFirebaseOptionsAndroid.appId", in: options)),
      .firebaseKey(.constant("kFirebaseOptionsAndroid.apiKey", in: options)),
      .group(.constant("iosAppGroupIdentifier", in: store)),
    ]
      + ["projectId", "messagingSenderId", "appId", "apiKey"].map {
        .firebaseForIOS(.constant("kFirebaseOptionsIos." + $0, in: options))
      })

  private static let branding: Name = "NextcloudTalk/Settings/NCAppBranding.m"

  static let talkForIOS = AppTable(
    product: .talk, isForIOS: true,
    rows: [
      .proxy(.constant("pushNotificationServer", in: branding), .ios),
      .bundleIDInCode(.constant("bundleIdentifier", in: branding)),
      .group(.constant("groupIdentifier", in: branding)),
      .group(.constant("appsGroupIdentifier", in: branding), isNeeded: false),
      .userAgent(.text("Mozilla/5.0 (iOS)"), .ios),
    ])

  private static let brand: Name = "Brand/NCBrand.swift"

  static let filesForIOS = AppTable(
    product: .files, isForIOS: true,
    rows: [
      .proxy(.constant("pushNotificationServerProxy", in: brand), .ios),
      // The brand is put behind it when the app runs, so that a package does not have the whole.
      .userAgent(.text("Mozilla/5.0"), .ios, in: nil), .group(.constant("capabilitiesGroup", in: brand)),
      .group(.constant("capabilitiesGroupApps", in: brand), isNeeded: false),
    ])

  private static let firebase: [Row] = [
    .firebaseProject(.resource("project_id")), .firebaseNumber(.resource("gcm_defaultSenderId")),
    .firebaseApp(.resource("google_app_id")), .firebaseKey(.resource("google_api_key")),
  ]

  static let talkForAndroid = AppTable(
    product: .talk, build: "app/",
    rows: [
      .proxy(.resource("nc_push_server_url"), .android), .userAgent(.text("Mozilla/5.0 (Android)"), .android),
    ] + firebase)

  static let filesForAndroid = AppTable(
    product: .files, build: "app/",
    rows: [
      .proxy(.resource("push_server_url"), .android), .userAgent(.resource("nextcloud_user_agent"), .android),
    ] + firebase)
}
