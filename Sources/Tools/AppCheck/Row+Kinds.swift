internal import NextcloudProxy
internal import Platform
internal import Providers

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
  }

  static func userAgent(_ source: Place, _ platform: NextcloudApp.Platform, in package: Place? = .code) -> Row
  {
    let unknown = "the proxy refuses the registration of an app that it does not know"
    return Row(
      .userAgent, platform, source, package,
      must: { _ in "an entry in nextcloud.apps_file whose user_agent matches it" },
      effects: (unknown, unknown, unknown)
    ) { agent, expected in expected.judge(userAgent: agent.text) }
  }

  static func firebaseProject(_ source: Place) -> Row {
    Row(.firebaseProject, .android, source, .code, must: \.project, effects: (noToken, mismatch, mismatch)) {
      project, expected in
      if expected.service.projects.contains(project.text) { return .init(.good, "a project of Keys/fcm") }
      guard expected.service.projects.isEmpty else { return .fault }
      return .init(
        .warning,
        must: "a project whose service account is in Keys/fcm, where there is none",
        effect: "nothing is sent to Android by way of Google")
    }
  }

  static func firebaseNumber(_ source: Place) -> Row {
    Row(
      .firebaseNumber, .android, source, nil, must: { "the number of \($0.ownProject), digits alone" },
      effects: (noToken, mismatch, noToken)
    ) { number, _ in FirebaseApp.isNumber(number.text) ? .good : .fault }
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
  }

  static func firebaseKey(_ source: Place) -> Row {
    Row(
      .firebaseKey, .android, source, .code,
      must: { "an API key of \($0.ownProject), current_key in its google-services.json" },
      effects: (
        noToken, "Google gives no token to an app of yours for the vendor's key: nothing arrives on Android",
        "Firebase refuses a key of any other form than AIza and 35 more: no token is made, and nothing arrives on Android"
      )
    ) { key, _ in FirebaseApp.isKey(key.text) ? .good : .fault }
  }

  static func firebaseForIOS(_ source: Place) -> Row {
    let stops = "the Firebase library stops the app at its start"
    return Row(
      .firebaseForIOS, .ios, source, .code,
      must: { "a value of the GoogleService-Info.plist of \($0.ownProject)" },
      effects: (
        stops, "the app starts the vendor's Firebase project; its pushes come by APNs all the same", stops
      )
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

  static func bundleIDInCode(_ source: Place) -> Row {
    let effect = "the app looks for its keys and calls under another name than its own"
    return Row(.bundleIDInCode, .ios, source, nil, must: \.bundle, effects: (effect, effect, effect)) {
      id, expected in
      let bundles = [expected.measure, expected.appBundle?.text].compactMap(\.self)
      return bundles.isEmpty || bundles.contains(id.text) ? .good : .fault
    }
  }

  static func group(_ source: Place, isNeeded: Bool = true) -> Row {
    let effect =
      "app and extension have no folder in common: the app stops at its start, or a notification shows no text"
    return Row(
      .group, .ios, source, .code, isNeeded: isNeeded,
      must: { $0.groups(of: .entitledGroup, but: .group) }, effects: (effect, effect, effect)
    ) { group, expected in expected.judge(group: group) }
  }
}

// MARK: What each app has

extension Row {
  /// The rows of every app: what is looked for beside its table's own.
  static let general = [
    applicationID, googleServices, messaging, certificate, team, entitledGroup, environment, leftover,
  ]

  private static let applicationID = Row(
    .applicationID, .android, .build, must: { "a package name of your own, registered in \($0.ownProject)" },
    effects: (
      noToken,
      "the app cannot be published or installed beside the vendor's, and Firebase knows no such app in your project",
      ""
    )
  ) { _, _ in .good }

  /// Of a file that is not filled in, its empty values; of one of another app, this app's id.
  private static let googleServices = {
    let effect = "the build stops, or the Firebase library does not start: nothing arrives on Android"
    return Row(
      .googleServices, .android, .build,
      must: {
        "the google-services.json of the Firebase project in which \($0.app[.applicationID].first?.text ?? "the app") "
          + "is registered"
      }, effects: (effect, "", effect)
    ) { _, _ in .init(.fault, "an app that it does not know") }
  }()

  /// What a value is that was found in a manifest, or missed there.
  private static let messaging = Row(
    .messaging, .android, .build, must: { _ in "a flavour with push: --flavor gplay" },
    effects: ("", "", "the app has no push: nothing arrives")
  ) { name, _ in
    name.member == SourceReader.messaging.text
      ? .init(
        .fault,
        "no manifest of this flavour has it for \(SourceReader.messaging.text)",
        must: "the service in an AndroidManifest.xml that is built, with this class and that action",
        effect: "nothing takes what Google delivers: no notification is shown")
      : .init(.fault, "neither Firebase's messaging nor UnifiedPush")
  }

  static let certificate = Row(
    .certificate, .android, .build, must: { _ in "a signature: apksigner sign, or jarsigner for a bundle" },
    effects: ("Android installs no package without one", "", "")
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

  private static let team = Row(
    .team, .ios, .build,
    must: { expected in
      expected.any(
        expected.serving.map { "\($0.team), the team of the key in Keys/apns" }, or: "your own team")
    },
    effects: (
      "", "the app cannot be signed",
      "Apple refuses this service's key for an app of another team (InvalidProviderToken): nothing arrives on iOS"
    )
  ) { team, expected in
    let serving = expected.serving
    return serving.isEmpty || serving.contains { $0.team == team.text } ? .good : .fault
  }

  private static let entitledGroup = {
    let effect = "Xcode cannot sign the app with it"
    return Row(
      .entitledGroup, .ios, .build, must: { $0.groups(of: .group, but: .entitledGroup) },
      effects: (effect, effect, effect)
    ) { group, _ in Expectation.isOwn(group) ? .good : .fault }
  }()

  static let environment = {
    let noToken = "Apple gives the app no token: nothing arrives on iOS"
    return Row(
      .environment, .ios, .build,
      must: {
        $0.isPackage
          ? "a provisioning profile for an app with push notifications"
          : "aps-environment with development or production"
      }, effects: (noToken, "", noToken)
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
        effect:
          "Apple knows the phone's token in the other environment only (BadDeviceToken): nothing arrives")
    }
  }()

  private static let leftover = Row(
    .leftover, nil, .build, must: { _ in "your own name" }, effects: ("", "", "")
  ) { name, _ in
    // An authority or an account type.
    let isForAndroid = ["org.nextcloud", "com.nextcloud.android.", "com.nextcloud.talk2"].contains(
      where: name.text.hasPrefix)
    return .init(
      .warning,
      effect: isForAndroid || name.text == "nextcloud"
        ? "pushes arrive, but beside the vendor's app Android does not install this one, or lets it make no account"
        : "pushes arrive all the same, but the app still names the vendor's")
  }
}
