import Platform
import Providers

/// A kind of value that an app has: what it must be beside a service, and what happens on a phone otherwise.
struct Aspect: Sendable, Hashable {
  /// As the operator reads it.
  let name: String
  var must: @Sendable (Expectation) -> String = { _ in "" }
  /// What happens where it is wrong; and, if that is something else, where it is not there, and where it is the vendor's.
  var effect = ""
  var missing: String?
  var vendors: String?
  /// Judges a value that is neither empty nor the vendor's.
  var judge: @Sendable (Value, Expectation) -> Judgement = { _, _ in .good }

  static func == (left: Aspect, right: Aspect) -> Bool { left.name == right.name }
  func hash(into hasher: inout Hasher) { hasher.combine(name) }

  /// Whether it is a value of a Firebase project, on whichever platform.
  var isFirebase: Bool { name.hasPrefix("Firebase") }

  /// What is looked for in every app, beside its table's rows.
  static let general = [
    applicationID, googleServices, messaging, certificate, team, entitledGroup, environment, leftover,
  ]
}

struct Judgement: Sendable {
  let standing: Finding.Standing
  let remark: String?
  /// In the place of the aspect's own.
  let must: String?
  let effect: String?

  init(_ standing: Finding.Standing, _ remark: String? = nil, must: String? = nil, effect: String? = nil) {
    (self.standing, self.remark, self.must, self.effect) = (standing, remark, must, effect)
  }

  static let (good, fault) = (Judgement(.good), Judgement(.fault))
}

// MARK: The aspects

extension Aspect {
  /// The key that the app seals its registrations to, in base64.
  static let bouncerKey = {
    func sealed(to key: String) -> String {
      "the app seals its registrations to \(key), so this bouncer refuses them, and the phone gets no notification"
    }
    return Aspect(
      name: "bouncer key", must: \.key, effect: sealed(to: "another key"), missing: sealed(to: "no key"),
      vendors: sealed(to: "Zulip's own bouncer")
    ) { key, expected in
      switch expected.service.keys.first(where: { $0.text == key.text })?.isActive {
      case true?: .init(.good, "an active key of this bouncer")
      case false?:
        .init(
          .warning,
          effect:
            "this key is retired: pushes arrive until push-bouncer keys remove ends it, and then no registration opens"
        )
      case nil: .fault
      }
    }
  }()

  static let proxy = Aspect(
    name: "push proxy", must: \.proxy,
    effect: "the phone registers at another service: nothing arrives from this one",
    missing: "the app registers nowhere: nothing arrives",
    vendors:
      "the phone registers at Nextcloud's proxy, which cannot push to an app of yours: nothing arrives"
  ) { address, expected in
    if address.text.hasSuffix("/") {
      return .init(
        .fault,
        effect:
          "the phone's server calls an address with two slashes, and never removes a device that has gone")
    }
    guard let own = expected.service.address else {
      return .init(.skipped, "it cannot be compared, as http.public_url is not set")
    }
    return Vendor.plain(own) == Vendor.plain(address.text) ? .good : .fault
  }

  static let userAgent = Aspect(
    name: "User-Agent", must: { _ in "an entry in nextcloud.apps_file whose user_agent matches it" },
    effect: "the proxy refuses the registration of an app that it does not know"
  ) { agent, expected in expected.judge(userAgent: agent.text) }

  /// A name of the original app that does not decide about notifications.
  static let leftover = Aspect(name: "left over", must: { _ in "your own name" }) { name, _ in
    // An authority or an account type.
    let isForAndroid = ["org.nextcloud", "com.nextcloud.android.", "com.nextcloud.talk2"].contains(
      where: name.text.hasPrefix)
    return .init(
      .warning,
      effect: isForAndroid || name.text == "nextcloud"
        ? "pushes arrive, but beside the vendor's app Android does not install this one, or lets it make no account"
        : "pushes arrive all the same, but the app still names the vendor's")
  }

  /// A file that could not be read, or not to its end.
  static let file = Aspect(name: "file")

  // MARK: Android

  private static let mismatch =
    "Google refuses this service's pushes to the app (SENDER_ID_MISMATCH): nothing arrives on Android"
  private static let noToken =
    "the Firebase library does not start, and no token is made: nothing arrives on Android"

  static let firebaseProject = Aspect(
    name: "Firebase project", must: \.project, effect: mismatch, missing: noToken
  ) { project, expected in
    if expected.service.projects.contains(project.text) { return .init(.good, "a project of Keys/fcm") }
    guard expected.service.projects.isEmpty else { return .fault }
    return .init(
      .warning,
      must: "a project whose service account is in Keys/fcm, where there is none",
      effect: "nothing is sent to Android by way of Google")
  }

  /// `messagingSenderId` or `gcm_defaultSenderId`.
  static let firebaseNumber = Aspect(
    name: "Firebase number", must: { "the number of \($0.ownProject), digits alone" }, effect: noToken,
    vendors: mismatch
  ) { number, _ in FirebaseApp.isNumber(number.text) ? .good : .fault }

  /// `1:<number>:android:...` or `1:<number>:ios:...`
  static let firebaseApp = Aspect(
    name: "Firebase app",
    must: { "1:NUMBER:android:..., mobilesdk_app_id in the google-services.json of \($0.ownProject)" },
    effect: noToken,
    vendors: "Firebase knows no such app in your project, and makes no token: nothing arrives on Android"
  ) { id, expected in
    guard let app = FirebaseApp(id.text), app.platform == "android" else {
      return .init(.fault, FirebaseApp(id.text)?.platform == "ios" ? "an app for iOS" : nil)
    }
    let numbers = expected.numbers
    guard let number = numbers.first, !numbers.contains(app.number) else { return .good }
    return .init(
      .fault,
      must: "an app of the project \(number), which the app names beside it",
      effect: "Firebase makes no token for an app of another project: nothing arrives on Android")
  }

  /// `apiKey` or `google_api_key`.
  static let firebaseKey = Aspect(
    name: "Firebase API key",
    must: { "an API key of \($0.ownProject), current_key in its google-services.json" },
    effect:
      "Firebase refuses a key of any other form than AIza and 35 more: no token is made, and nothing arrives on Android",
    missing: noToken,
    vendors: "Google gives no token to an app of yours for the vendor's key: nothing arrives on Android"
  ) { key, _ in FirebaseApp.isKey(key.text) ? .good : .fault }

  /// The file that Firebase offers for an app, where a build reads it: of one that is not filled in, its empty values; of
  /// one of another app, this app's id.
  static let googleServices = Aspect(
    name: "google-services.json",
    must: {
      "the google-services.json of the Firebase project in which \($0.app[.applicationID].first?.text ?? "the app") "
        + "is registered"
    }, effect: "the build stops, or the Firebase library does not start: nothing arrives on Android"
  ) { _, _ in .init(.fault, "an app that it does not know") }

  static let applicationID = Aspect(
    name: "applicationId", must: { "a package name of your own, registered in \($0.ownProject)" },
    missing: noToken,
    vendors:
      "the app cannot be published or installed beside the vendor's, and Firebase knows no such app in your project"
  )

  /// The SHA-256 of the certificate that a package is signed with.
  static let certificate = Aspect(
    name: "signing certificate", must: { _ in "a signature: apksigner sign, or jarsigner for a bundle" },
    missing: "Android installs no package without one"
  ) { certificate, expected in
    if certificate.member == "debug" {
      return .init(
        .warning,
        "a debug certificate", must: "your own release certificate",
        effect:
          "pushes arrive, but no store takes the app, and the next machine's build does not install over it"
      )
    }
    let name = expected.app[.applicationID].first?.text ?? "the package name"
    return .init(
      .good,
      "SHA-256, to be registered with \(name) for Android's developer verification; where Google Play signs, with the "
        + "certificate of the Play Console")
  }

  /// Whether a flavour has push at all: a value is what was found in a manifest, or missed there.
  static let messaging = Aspect(
    name: "push in this build", must: { _ in "a flavour with push: --flavor gplay" },
    effect: "the app has no push: nothing arrives"
  ) { name, _ in
    name.member == SourceReader.messaging.text
      ? .init(
        .fault,
        "no manifest of this flavour has it for \(SourceReader.messaging.text)",
        must: "the service in an AndroidManifest.xml that is built, with this class and that action",
        effect: "nothing takes what Google delivers: no notification is shown")
      : .init(.fault, "neither Firebase's messaging nor UnifiedPush")
  }

  // MARK: iOS

  static let bundleID = Aspect(name: "bundle id")

  /// The bundle id as it stands in the code once more.
  static let bundleIDInCode = Aspect(
    name: "bundle id in the code", must: \.bundle,
    effect: "the app looks for its keys and calls under another name than its own"
  ) { id, expected in
    let bundles = [expected.measure, expected.appBundle?.text].compactMap(\.self)
    return bundles.isEmpty || bundles.contains(id.text) ? .good : .fault
  }

  static let team = Aspect(
    name: "team",
    must: { expected in
      expected.any(
        expected.serving.map { "\($0.team), the team of the key in Keys/apns" }, or: "your own team")
    },
    effect:
      "Apple refuses this service's key for an app of another team (InvalidProviderToken): nothing arrives on iOS",
    vendors: "the app cannot be signed"
  ) { team, expected in
    let serving = expected.serving
    return serving.isEmpty || serving.contains { $0.team == team.text } ? .good : .fault
  }

  /// The app groups that the code opens.
  static let group: Aspect = .init(
    name: "app group", must: { $0.groups(of: .entitledGroup, but: .group) },
    effect:
      "app and extension have no folder in common: the app stops at its start, or a notification shows no text"
  ) { group, expected in expected.judge(group: group) }

  /// The app groups that the entitlements allow.
  static let entitledGroup: Aspect = .init(
    name: "app group in the entitlements", must: { $0.groups(of: .group, but: .entitledGroup) },
    effect: "Xcode cannot sign the app with it"
  ) { group, _ in Expectation.isOwn(group) ? .good : .fault }

  static let environment = Aspect(
    name: "aps-environment",
    must: {
      $0.isPackage
        ? "a provisioning profile for an app with push notifications"
        : "aps-environment with development or production"
    }, effect: "Apple gives the app no token: nothing arrives on iOS"
  ) { value, expected in
    let environments: [String: APNsCredential.Environment] = [
      "production": .production, "development": .sandbox,
    ]
    guard let needed = environments[value.text] else { return .fault }
    let known = Set(expected.serving.map(\.environment))
    if known.isEmpty || known.contains(needed) { return .good }
    if needed == .sandbox, !expected.isPackage {
      return .init(
        .good,
        "an export for the App Store or TestFlight turns it into production, as the key in Keys/apns has it; an app "
          + "run from Xcode needs \"environment\": \"sandbox\" there")
    }
    return .init(
      .fault,
      must: "a key in Keys/apns with \"environment\": \"\(needed.rawValue)\", or another signing",
      effect: "Apple knows the phone's token in the other environment only (BadDeviceToken): nothing arrives")
  }

  static let backgroundModes = Aspect(name: "background modes")
  static let notificationService = Aspect(name: "notification extension")

  /// What the app starts the Firebase library with, though its pushes go by APNs.
  static let firebaseForIOS = Aspect(
    name: "Firebase for iOS", must: { "a value of the GoogleService-Info.plist of \($0.ownProject)" },
    effect: "the Firebase library stops the app at its start",
    vendors: "the app starts the vendor's Firebase project; its pushes come by APNs all the same"
  ) { value, expected in
    switch value.member?.split(separator: ".").last {
    case "messagingSenderId": FirebaseApp.isNumber(value.text) ? .good : .fault
    case "apiKey": FirebaseApp.isKey(value.text) ? .good : .fault
    case "projectId": .good
    default:
      FirebaseApp(value.text)?.platform == "ios"
        ? .good
        : .init(.fault, must: "1:NUMBER:ios:..., of the GoogleService-Info.plist of \(expected.ownProject)")
    }
  }
}
