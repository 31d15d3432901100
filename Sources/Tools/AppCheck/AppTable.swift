/// What an app must have for its notifications: a row for each value, which says where it stands. (`Documentation/Apps.md`)
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

  private static let (device, store) = ("lib/model/push_device.dart" as Name, "lib/model/store.dart" as Name)
  private static let options: Name = "lib/firebase_options.dart"

  private static let zulipKey = [Row(.bouncerKey, .constant("bouncerPublicKey", in: device))]
  static let zulipForAndroid = AppTable(
    product: .zulip, build: "android/app/",
    rows: zulipKey + [
      Row(.firebaseProject, .constant("kFirebaseOptionsAndroid.projectId", in: options)),
      Row(
        .firebaseNumber, .constant("kFirebaseOptionsAndroid.messagingSenderId", in: options), isInCode: false),
      Row(.firebaseApp, .constant("kFirebaseOptionsAndroid.appId", in: options)),
      Row(.firebaseKey, .constant("kFirebaseOptionsAndroid.apiKey", in: options)),
    ])
  static let zulipForIOS = AppTable(
    product: .zulip, isForIOS: true,
    rows: zulipKey + [Row(.group, .constant("iosAppGroupIdentifier", in: store))]
      + ["projectId", "messagingSenderId", "appId", "apiKey"].map {
        Row(.firebaseForIOS, .constant("kFirebaseOptionsIos." + $0, in: options))
      })
  /// Its source, which is one for both.
  static let zulip = AppTable(
    product: .zulip, build: zulipForAndroid.build, isForIOS: true,
    rows: zulipForAndroid.rows + zulipForIOS.rows.dropFirst())

  private static let branding: Name = "NextcloudTalk/Settings/NCAppBranding.m"

  static let talkForIOS = AppTable(
    product: .talk, isForIOS: true,
    rows: [
      Row(.proxy, .constant("pushNotificationServer", in: branding)),
      Row(.bundleIDInCode, .constant("bundleIdentifier", in: branding), isInCode: false),
      Row(.group, .constant("groupIdentifier", in: branding)),
      Row(.group, .constant("appsGroupIdentifier", in: branding), unless: ("useAppsGroup", "NO")),
      Row(.userAgent, .text("Mozilla/5.0 (iOS)")),
    ])

  private static let brand: Name = "Brand/NCBrand.swift"

  static let filesForIOS = AppTable(
    product: .files, isForIOS: true,
    rows: [
      Row(.proxy, .constant("pushNotificationServerProxy", in: brand)),
      // The brand is put behind it when the app runs, so that a package does not have the whole.
      Row(.userAgent, .text("Mozilla/5.0"), isInCode: false),
      Row(.group, .constant("capabilitiesGroup", in: brand)),
      Row(.group, .constant("capabilitiesGroupApps", in: brand), unless: ("use_GroupApps", "false")),
    ])

  private static let firebase = [
    Row(.firebaseProject, .resource("project_id")), Row(.firebaseNumber, .resource("gcm_defaultSenderId")),
    Row(.firebaseApp, .resource("google_app_id")), Row(.firebaseKey, .resource("google_api_key")),
  ]

  static let talkForAndroid = AppTable(
    product: .talk, build: "app/",
    rows: [
      Row(.proxy, .resource("nc_push_server_url")), Row(.userAgent, .text("Mozilla/5.0 (Android)")),
    ] + firebase)

  static let filesForAndroid = AppTable(
    product: .files, build: "app/",
    rows: [
      Row(.proxy, .resource("push_server_url")), Row(.userAgent, .resource("nextcloud_user_agent")),
    ] + firebase)
}

/// A value that an app must have, and where it stands.
struct Row: Sendable {
  enum Source: Sendable {
    /// A constant of this name, or a member of what a constant is made of (`options.appId`), in a file of this name
    /// wherever it lies.
    case constant(Name, in: Name)
    /// A text of the code that begins so.
    case text(Name)
    /// A text among Android's resources, of a source as of a package.
    case resource(Name)
  }

  let aspect: Aspect
  let source: Source
  /// What is set where the app does without it; nil if it has to be there.
  let unless: (name: Name, word: Name)?
  /// Whether it can be told among the texts of compiled code, by the form that its aspect has.
  let isInCode: Bool
  /// Its name, if it is a text among Android's resources.
  let resource: Name?

  init(_ aspect: Aspect, _ source: Source, unless: (Name, Name)? = nil, isInCode: Bool = true) {
    (self.aspect, self.source, self.unless) = (aspect, source, unless)
    resource = if case .resource(let name) = source { name } else { nil }
    self.isInCode = isInCode && resource == nil
  }
}
