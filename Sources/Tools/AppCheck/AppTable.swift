internal import Foundation
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

struct Row: Sendable {
  enum Place: Sendable {
    /// A constant of this name, in a file of this name wherever it lies.
    case constant(Name, in: Name)
    /// A member of a constant `FirebaseOptions(...)` of `lib/firebase_options.dart`.
    case option(Name, of: Name)
    /// A text of the code that begins so.
    case text(Name)
    /// A text among Android's resources, of a source as of a package.
    case resource(Name)
    /// A text of the compiled code, by the form that this aspect has.
    case code

    var resource: Name? { if case .resource(let name) = self { name } else { nil } }
    var isCode: Bool { if case .code = self { true } else { false } }
  }

  let aspect: Aspect
  let platform: NextcloudApp.Platform?
  let source: Place
  /// nil if a package does not have it.
  let package: Place?
  /// Whether something is wrong where no file has it.
  let isNeeded: Bool
  let must: @Sendable (Expectation) -> String
  /// What happens where it is not there, where it is the vendor's, and where it is any other.
  let effects: (missing: String, vendors: String, other: String)
  /// Judges a value that is neither empty nor the vendor's.
  let judge: @Sendable (String, Expectation) -> Judgement

  init(
    _ aspect: Aspect, _ platform: NextcloudApp.Platform?, _ source: Place, _ package: Place?,
    isNeeded: Bool = true, must: @escaping @Sendable (Expectation) -> String,
    effects: (missing: String, vendors: String, other: String),
    judge: @escaping @Sendable (String, Expectation) -> Judgement
  ) {
    (self.aspect, self.platform, self.source) = (aspect, platform, source)
    self.package = source.resource == nil ? package : source
    (self.isNeeded, self.must, self.effects, self.judge) = (isNeeded, must, effects, judge)
  }
}

enum Judgement: Sendable {
  case good(String? = nil)
  /// With what is to be said beside the row's own, or in its place.
  case fault(String? = nil, must: String? = nil, effect: String? = nil)
  case warning(String? = nil, must: String? = nil, effect: String? = nil)
  case skipped(String)
}

// MARK: The tables

extension AppTable {
  private static let (device, store) = ("lib/model/push_device.dart" as Name, "lib/model/store.dart" as Name)

  static let zulip = AppTable(
    product: .zulip, build: "android/app/", isForIOS: true,
    rows: [
      .bouncerKey(.constant("bouncerPublicKey", in: device)),
      .firebaseProject(.option("projectId", of: "kFirebaseOptionsAndroid")),
      .firebaseNumber(.option("messagingSenderId", of: "kFirebaseOptionsAndroid")),
      .firebaseApp(.option("appId", of: "kFirebaseOptionsAndroid")),
      .firebaseKey(.option("apiKey", of: "kFirebaseOptionsAndroid")), .firebaseForIOS("projectId"),
      .firebaseForIOS("messagingSenderId"), .firebaseForIOS("appId"),
      .firebaseForIOS("apiKey"), .group(.constant("iosAppGroupIdentifier", in: store)),
    ])

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

// MARK: The rows

extension Row {
  private static let mismatch =
    "Google refuses this service's pushes to the app (SENDER_ID_MISMATCH): nothing arrives on Android"
  private static let noToken =
    "the Firebase library does not start, and no token is made: nothing arrives on Android"

  static func bouncerKey(_ source: Place) -> Row {
    func sealed(to key: String) -> String {
      "the app seals its registrations to \(key), so this bouncer refuses them, and the phone gets no notification"
    }
    return Row(
      .bouncerKey, nil, source, .code, must: \.key,
      effects: (sealed(to: "no key"), sealed(to: "Zulip's own bouncer"), sealed(to: "another key"))
    ) { key, expected in
      switch expected.service.keys.first(where: { $0.text == key })?.isActive {
      case true?: .good("an active key of this bouncer")
      case false?:
        .warning(
          effect:
            "this key is retired: pushes arrive until push-bouncer keys remove ends it, and then no registration opens"
        )
      case nil: .fault()
      }
    }
  }

  static func proxy(_ source: Place, _ platform: NextcloudApp.Platform) -> Row {
    Row(
      .proxy, platform, source, .code, must: \.proxy,
      effects: (
        "the app registers nowhere: nothing arrives",
        "the phone registers at Nextcloud's proxy, which cannot push to an app of yours: nothing arrives",
        "the phone registers at another service: nothing arrives from this one"
      )
    ) { address, expected in
      if address.hasSuffix("/") {
        return .fault(
          effect:
            "the phone's server calls an address with two slashes, and never removes a device that has gone")
      }
      guard let own = expected.service.address else {
        return .skipped("it cannot be compared, as http.public_url is not set")
      }
      return Vendor.plain(own) == Vendor.plain(address) ? .good() : .fault()
    }
  }

  static func userAgent(_ source: Place, _ platform: NextcloudApp.Platform, in package: Place? = .code) -> Row
  {
    let unknown = "the proxy refuses the registration of an app that it does not know"
    return Row(
      .userAgent, platform, source, package,
      must: { _ in "an entry in nextcloud.apps_file whose user_agent matches it" },
      effects: (unknown, unknown, unknown)
    ) { text, expected in expected.judge(userAgent: text) }
  }

  static func firebaseProject(_ source: Place) -> Row {
    Row(.firebaseProject, .android, source, .code, must: \.project, effects: (noToken, mismatch, mismatch)) {
      project, expected in
      if expected.service.projects.contains(project) { return .good("a project of Keys/fcm") }
      guard expected.service.projects.isEmpty else { return .fault() }
      return .warning(
        must: "a project whose service account is in Keys/fcm, where there is none",
        effect: "nothing is sent to Android by way of Google")
    }
  }

  static func firebaseNumber(_ source: Place) -> Row {
    Row(
      .firebaseNumber, .android, source, nil, must: { "the number of \($0.ownProject), digits alone" },
      effects: (noToken, mismatch, noToken)
    ) { number, _ in number.utf8.allSatisfy(\.isDigit) ? .good() : .fault() }
  }

  static func firebaseApp(_ source: Place) -> Row {
    Row(
      .firebaseApp, .android, source, .code,
      must: { "1:NUMBER:android:..., mobilesdk_app_id in the google-services.json of \($0.ownProject)" },
      effects: (
        noToken, "Firebase knows no such app in your project, and makes no token: nothing arrives on Android",
        noToken
      )
    ) { id, expected in
      guard let app = FirebaseApp(id), app.platform == "android" else {
        return .fault(FirebaseApp(id)?.platform == "ios" ? "an app for iOS" : nil)
      }
      let numbers = expected.numbers
      guard let number = numbers.first, !numbers.contains(app.number) else { return .good() }
      return .fault(
        must: "an app of the project \(number), which the app names beside it",
        effect: "Firebase makes no token for an app of another project: nothing arrives on Android")
    }
  }

  static func firebaseKey(_ source: Place) -> Row {
    Row(
      .firebaseKey, .android, source, .code,
      must: { "an API key of \($0.ownProject), current_key in its google-services.json" },
      effects: (
        noToken, "Google gives no token to an app of yours for the vendor's key: nothing arrives on Android",
        "Firebase refuses a key of any other form than AIza and 35 more: no token is made, and nothing arrives on Android"
      )
    ) { key, _ in FirebaseApp.isKey(key) ? .good() : .fault() }
  }

  static func firebaseForIOS(_ member: Name) -> Row {
    let stops = "the Firebase library stops the app at its start"
    return Row(
      .firebaseForIOS, .ios, .option(member, of: "kFirebaseOptionsIos"), member == "appId" ? .code : nil,
      must: { "a value of the GoogleService-Info.plist of \($0.ownProject)" }, effects: (stops, "", stops)
    ) { text, expected in
      switch member {
      case "appId":
        guard let app = FirebaseApp(text), app.platform == "ios" else {
          return .fault(must: "1:NUMBER:ios:..., of the GoogleService-Info.plist of \(expected.ownProject)")
        }
        return .good()
      case "apiKey": return FirebaseApp.isKey(text) ? .good() : .fault()
      case "messagingSenderId": return text.utf8.allSatisfy(\.isDigit) ? .good() : .fault()
      default: return .good()
      }
    }
  }

  static func bundleIDInCode(_ source: Place) -> Row {
    let effect = "the app looks for its keys and calls under another name than its own"
    return Row(.bundleIDInCode, .ios, source, nil, must: \.bundle, effects: (effect, effect, effect)) {
      id, expected in
      let bundles = [expected.measure, expected.appBundle?.text].compactMap(\.self)
      return bundles.isEmpty || bundles.contains(id) ? .good() : .fault()
    }
  }

  /// What is wrong with a group is seen beside the entitlements.
  static func group(_ source: Place, isNeeded: Bool = true) -> Row {
    Row(
      .group, .ios, source, .code, isNeeded: isNeeded, must: { _ in "a group of your own team, group.NAME" },
      effects: ("", "", "")
    ) { _, _ in .good() }
  }
}

/// `1:NUMBER:android:HASH`, as Firebase names an app.
struct FirebaseApp {
  let number: String
  let platform: String
  let hash: String

  init?(_ text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 4, parts[0] == "1", !parts[1].isEmpty, parts[1].utf8.allSatisfy(\.isDigit),
      parts[3].utf8.count >= 8, parts[3].utf8.allSatisfy({ $0.isHexDigit })
    else { return nil }
    (number, platform, hash) = (parts[1], parts[2], parts[3])
  }

  /// What stands at the number's place, in whatever form.
  static func number(of text: String) -> String? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    return parts.count == 4 ? String(parts[1]) : nil
  }

  /// The form that the Firebase library demands of an API key when it asks for a token.
  static func isKey(_ text: String) -> Bool {
    let bytes = text.utf8
    return bytes.count == 39 && bytes.first == "A"
      && bytes.allSatisfy { $0 < 0x80 && ($0.isWord || $0 == "-") }
  }
}

/// Values of the vendors' own apps: where one of them is still there, the app is not rebuilt.
enum Vendor {
  static let bouncerKey = "mm4F/3WLqECY637NulC5j/ZeHkmpwmtlfIxwt8MfREM="
  static let proxy = "https://push-notifications.nextcloud.com"
  static let projects: Set = ["zulip-android", "nextcloud-a7dea"]
  private static let numbers: Set = ["835904834568", "829118773643"]
  /// What Firebase has named their apps, at the end of an app id.
  private static let firebaseApps: Set = [
    "6ae61ae43a7c3410", "9cad34899ca57ba6", "54b65087c544d819", "512449826e931d0e",
  ]
  /// How their keys for Google's interfaces begin. These are public: they are in each copy of the apps.
  private static let apiKeys = ["AIzaSyC6kw5sqCYjxQl2", "AIzaSyAWIyOcLafaFp8P"]
  private static let teams: Set = ["66KHCWMEYB", "NKUJUXUJ3B"]
  static let groups: Set = [
    "group.com.zulip.app", "group.com.nextcloud.Talk", "group.com.nextcloud.apps",
    "group.it.twsweb.Crypto-Cloud",
  ]
  /// Names that stand in settings alone; those of Files for Android are packages of its code as well.
  static let bundles = [
    "org.zulip.Zulip", "com.zulipmobile", "com.nextcloud.talk2", "com.nextcloud.Talk", "it.twsweb.Nextcloud",
  ]
  private static let names = bundles + ["com.nextcloud.client", "com.nextcloud.android"]

  /// The vendor's name that a bundle id or package name is, or begins with.
  static func name(of id: String) -> String? { names.first { id == $0 || id.hasPrefix("\($0).") } }

  static func owns(_ aspect: Aspect, _ text: String) -> Bool {
    switch aspect {
    case .bouncerKey: text == bouncerKey
    case .proxy: plain(text) == proxy || plain(text).hasPrefix("\(proxy)/")
    case .firebaseProject: projects.contains(text)
    case .firebaseNumber: numbers.contains(text)
    case .firebaseApp:
      FirebaseApp(text).map { numbers.contains($0.number) || firebaseApps.contains($0.hash) } ?? false
    case .firebaseKey: apiKeys.contains(where: text.hasPrefix)
    case .firebaseForIOS:
      [.firebaseProject, .firebaseNumber, .firebaseApp, .firebaseKey].contains { owns($0, text) }
    case .applicationID, .bundleID, .bundleIDInCode: name(of: text) != nil
    case .team: teams.contains(text)
    case .group, .entitledGroup: groups.contains(text)
    default: false
    }
  }

  /// Whether an app id is the vendor's not by its number alone.
  static func isApp(_ id: String) -> Bool { firebaseApps.contains { id.hasSuffix(":\($0)") } }

  /// An address as servers compare it: scheme and host in small letters, without the port that https has anyway.
  static func plain(_ address: String) -> String {
    guard let scheme = address.range(of: "://") else { return address }
    let rest = address[scheme.upperBound...]
    let end = rest.utf8.firstIndex(of: "/") ?? rest.endIndex
    var host = String(address[..<end]).lowercased()
    for (scheme, port) in [("https:", ":443"), ("http:", ":80")]
    where host.hasPrefix(scheme) && host.hasSuffix(port) { host.removeLast(port.utf8.count) }
    return host + rest[end...]
  }
}
