internal import Foundation
internal import NextcloudProxy
internal import Operator
internal import Platform
internal import Providers

/// One app beside one service.
///
/// What is the vendor's is never what something else must be; what the service has is named rather than "your own".
struct Comparison {
  let app: AppFacts
  let service: AppCheck.Service
  let isPackage: Bool
  private var found: [AppCheck.Finding] = []
  private var known: Set<[Name]> = []

  init(app: AppFacts, service: AppCheck.Service, isPackage: Bool) {
    self.app = app
    self.service = service
    self.isPackage = isPackage
  }

  mutating func findings() -> [AppCheck.Finding] {
    found = app.unread.map {
      .init(
        check: $0.aspect.rawValue, standing: .skipped, found: $0.reason, file: $0.file?.text, line: $0.line)
    }
    for key in app[.bouncerKey] { compareKey(key) }
    for proxy in app[.proxy] { compareProxy(proxy) }
    for (aspect, name, file) in app.lacking { compareLacking(aspect, name, file) }
    compareFirebase()
    for id in app[.applicationID] { compareApplicationID(id) }
    for certificate in app[.certificate] {
      good(
        .certificate, certificate,
        "SHA-256, to be registered with \(app[.applicationID].first?.text ?? "the package name") for Android's developer "
          + "verification; where Google Play signs, with the certificate of the Play Console")
    }
    compareBundles()
    compareTeams()
    compareGroups()
    compareEnvironments()
    compareBackgroundModes()
    for userAgent in app[.userAgent].prefix(1) { compareUserAgent(userAgent) }
    for name in app[.leftover] {
      // Files for Android alone has names of this kind: its authorities.
      let isAuthority = name.text.hasPrefix("org.nextcloud") || name.text.hasPrefix("com.nextcloud.android.")
      warn(
        .leftover, name, "your own name",
        isAuthority
          ? "pushes arrive, but Android installs no two apps with one authority: not this one beside the vendor's"
          : "pushes arrive all the same, but the app still names the vendor's")
    }
    return found
  }
}

extension Comparison {
  private mutating func add(
    _ aspect: AppFacts.Aspect, _ standing: Finding.Standing, _ value: Value, _ found: String? = nil,
    _ expected: String? = nil, _ effect: String? = nil
  ) {
    let finding = AppCheck.Finding(
      check: aspect.rawValue, standing: standing, found: found ?? value.text,
      file: value.file.bytes.isEmpty ? nil : value.file.text,
      line: value.line,
      expected: expected, effect: effect)
    // The same value often stands in several configurations of one file.
    let key = [Name(finding.check), Name(finding.found), value.file]
    if known.insert(key).inserted { self.found.append(finding) }
  }

  private mutating func good(_ aspect: AppFacts.Aspect, _ value: Value, _ note: String? = nil) {
    add(aspect, .good, value, note.map { "\(value.text): \($0)" })
  }

  private mutating func warn(_ aspect: AppFacts.Aspect, _ value: Value, _ expected: String, _ effect: String)
  {
    add(aspect, .warning, value, nil, expected, effect)
  }

  private mutating func fault(
    _ aspect: AppFacts.Aspect, _ value: Value, vendor: Bool = false, _ expected: String, _ effect: String
  ) {
    add(aspect, .fault, value, vendor ? "\(value.text), the vendor's own" : nil, expected, effect)
  }

  /// A fault where something is not there.
  ///
  /// - Parameter found: what is there instead.
  private mutating func lack(
    _ aspect: AppFacts.Aspect, _ file: Name, line: Int? = nil, _ found: String, _ expected: String,
    _ effect: String
  ) {
    add(aspect, .fault, Value("", file: file, line: line), found, expected, effect)
  }

  private func any(_ texts: some Sequence<String>, or other: String) -> String {
    let texts = Set(texts).sorted()
    return texts.isEmpty ? other : texts.joined(separator: " or ")
  }
}

// MARK: Key and proxy

extension Comparison {
  private mutating func compareKey(_ key: Value) {
    let expected = any(
      service.keys.filter(\.isActive).map(\.text),
      or: "an active key of this bouncer: there is none, push-bouncer keys generate makes one")
    switch service.keys.first(where: { $0.text == key.text })?.isActive {
    case true?: good(.bouncerKey, key, "an active key of this bouncer")
    case false?:
      warn(
        .bouncerKey, key, expected,
        "this key is retired: pushes arrive until push-bouncer keys remove ends it, and then no registration opens"
      )
    case nil:
      let isVendors = key.text == Vendor.bouncerKey
      fault(
        .bouncerKey, key, vendor: isVendors, expected,
        """
        the app seals its registrations to \(isVendors ? "Zulip's own bouncer" : "another key"), so this bouncer refuses \
        them, and the phone gets no notification
        """)
    }
  }

  /// An address as servers compare it: scheme and host in small letters, without the port that https has anyway.
  private static func plain(_ address: String) -> String {
    guard let scheme = address.range(of: "://") else { return address }
    let rest = address[scheme.upperBound...]
    let end = rest.utf8.firstIndex(of: UInt8(ascii: "/")) ?? rest.endIndex
    var host = String(address[..<end]).lowercased()
    for (scheme, port) in [("https:", ":443"), ("http:", ":80")]
    where host.hasPrefix(scheme) && host.hasSuffix(port) {
      host.removeLast(port.utf8.count)
    }
    return host + rest[end...]
  }

  private mutating func compareProxy(_ proxy: Value) {
    let url = service.address
    let expected =
      url.map { "\($0), without a slash at its end" } ?? "this service's address: set http.public_url to it"
    let plain = Self.plain(proxy.text)
    if plain == Vendor.proxy || plain.hasPrefix("\(Vendor.proxy)/") {
      fault(
        .proxy, proxy, vendor: true, expected,
        "the phone registers at Nextcloud's proxy, which cannot push to an app of yours: nothing arrives")
    } else if proxy.text.isEmpty {
      add(.proxy, .fault, proxy, "it is empty", expected, "the app registers nowhere: nothing arrives")
    } else if proxy.text.hasSuffix("/") {
      fault(
        .proxy, proxy, expected,
        "the phone's server calls an address with two slashes, and never removes a device that has gone")
    } else if url.map(Self.plain) == plain {
      good(.proxy, proxy)
    } else if url != nil {
      fault(.proxy, proxy, expected, "the phone registers at another service: nothing arrives from this one")
    } else {
      add(.proxy, .skipped, proxy, "\(proxy.text) cannot be compared, as http.public_url is not set")
    }
  }

  /// What the files that were read should have, and none has.
  private mutating func compareLacking(_ aspect: AppFacts.Aspect, _ name: String, _ file: Name) {
    switch aspect {
    case .proxy:
      lack(
        aspect, file, "there is no \(name)",
        any([service.address].compactMap(\.self), or: "this service's address"),
        "the app registers nowhere: nothing arrives")
    case .applicationID:
      lack(
        aspect, file, "it knows no app \(name)",
        "the google-services.json of the Firebase project in which \(name) is registered",
        "the build stops, or the Firebase library does not start: nothing arrives on Android")
    default:
      lack(
        aspect, file, "there is no \(name)",
        aspect == .firebaseProject ? expectedProject : "that of \(ownProject)",
        "the Firebase library does not start, and no token is made: nothing arrives on Android")
    }
  }
}

// MARK: Firebase

extension Comparison {
  /// The Firebase projects that this app may have: that of its entry in the apps file, or those of the service.
  private var projects: [String] {
    guard app.product != .zulip else { return service.projects }
    let own = ownApps(.android).compactMap { $0.fcmProject ?? service.defaultProject }
    return own.isEmpty ? service.projects : own
  }

  private var ownProject: String { any(projects.map { "project \($0)" }, or: "your own project") }

  private var expectedProject: String {
    any(projects, or: "your own project") + ", with its service account in Keys/fcm"
  }

  private func ownApps(_ platform: NextcloudApp.Platform) -> [NextcloudApp] {
    let kind: NextcloudApp.Kind = app.product == .talk ? .talk : .files
    return service.apps.own.filter { $0.kind == kind && $0.platform == platform }
  }

  private mutating func compareFirebase() {
    let nothing =
      "Google refuses this service's pushes to the app (SENDER_ID_MISMATCH): nothing arrives on Android"
    let noToken = "the Firebase library does not start, and no token is made: nothing arrives on Android"
    // Whoever has changed that file believes that all is done.
    let unread = app.unusedGoogleServices.map { " (no build reads \($0.text))" } ?? ""
    for project in app[.firebaseProject] {
      if Vendor.firebase.contains(project.text) {
        fault(.firebaseProject, project, vendor: true, expectedProject, nothing + unread)
      } else if project.text.isEmpty {
        add(.firebaseProject, .fault, project, "it is empty", expectedProject, noToken + unread)
      } else if service.projects.contains(project.text) {
        good(.firebaseProject, project, "a project of Keys/fcm")
      } else if service.projects.isEmpty {
        warn(
          .firebaseProject, project, "a project whose service account is in Keys/fcm, where there is none",
          "nothing is sent to Android by way of Google")
      } else {
        fault(.firebaseProject, project, expectedProject, nothing + unread)
      }
    }
    for number in app[.firebaseNumber] {
      if Vendor.firebase.contains(number.text) {
        fault(.firebaseNumber, number, vendor: true, "the number of \(ownProject)", nothing + unread)
      } else if number.text.isEmpty || !number.text.utf8.allSatisfy(\.isDigit) {
        add(
          .firebaseNumber, .fault, number, number.text.isEmpty ? "it is empty" : nil,
          "the number of \(ownProject), digits alone", noToken + unread)
      }
    }
    for id in app[.firebaseApp] { compareFirebaseApp(id, nothing, noToken, unread) }
    for key in app[.firebaseKey] {
      let expected = "an API key of \(ownProject), current_key in its google-services.json"
      if Vendor.owns(apiKey: key.text) {
        fault(
          .firebaseKey, key, vendor: true, expected,
          "Google gives no token to an app of yours for the vendor's key: nothing arrives on Android" + unread
        )
      } else if key.text.isEmpty {
        add(.firebaseKey, .fault, key, "it is empty", expected, noToken + unread)
      } else {
        good(.firebaseKey, key)
      }
    }
    for value in app[.firebaseForIOS] { compareFirebaseForIOS(value) }
  }

  private mutating func compareFirebaseApp(
    _ id: Value, _ nothing: String, _ noToken: String, _ unread: String
  ) {
    let parts = id.text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    let form = "1:NUMBER:android:..., mobilesdk_app_id in the google-services.json of \(ownProject)"
    guard parts.count == 4, parts[0] == "1", !parts[1].isEmpty, parts[1].utf8.allSatisfy(\.isDigit),
      parts[2] == "android", !parts[3].isEmpty, parts[3].utf8.allSatisfy({ $0.isWord && $0 < 0x80 })
    else {
      let isForIOS = parts.count == 4 && parts[2] == "ios"
      return add(
        .firebaseApp, .fault, id,
        id.text.isEmpty ? "it is empty" : isForIOS ? "\(id.text), an app for iOS" : nil, form,
        noToken + unread)
    }
    let numbers = app[.firebaseNumber].filter { !Vendor.firebase.contains($0.text) }
    if Vendor.firebase.contains(parts[1]) {
      fault(.firebaseApp, id, vendor: true, "an app of \(ownProject)", nothing + unread)
    } else if Vendor.firebaseApps.contains(parts[3]) {
      fault(
        .firebaseApp, id, vendor: true, form,
        "Firebase knows no such app in your project, and makes no token: nothing arrives on Android" + unread)
    } else if let number = numbers.first, !numbers.contains(where: { $0.text == parts[1] }) {
      fault(
        .firebaseApp, id, "an app of the project \(number.text), which the app names beside it",
        "Firebase makes no token for an app of another project: nothing arrives on Android")
    } else {
      good(.firebaseApp, id)
    }
  }

  private mutating func compareFirebaseForIOS(_ value: Value) {
    let parts = value.text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    let isVendors =
      parts.contains { Vendor.firebase.contains($0) || Vendor.firebaseApps.contains($0) }
      || Vendor.owns(apiKey: value.text)
    if isVendors {
      warn(
        .firebaseForIOS, value, "a value of \(ownProject)",
        "the app starts the vendor's Firebase project; its pushes come by APNs all the same")
    } else if value.text.isEmpty || (parts.count > 1 && (parts.count != 4 || parts[2] != "ios")) {
      add(
        .firebaseForIOS, .fault, value, value.text.isEmpty ? "it is empty" : nil,
        "a value of the GoogleService-Info.plist of \(ownProject); the app's is 1:NUMBER:ios:...",
        "the Firebase library stops the app at its start")
    } else {
      good(.firebaseForIOS, value)
    }
  }
}

// MARK: Names and teams

extension Comparison {
  private mutating func compareApplicationID(_ id: Value) {
    guard Vendor.owns(id.text) else { return good(.applicationID, id) }
    fault(
      .applicationID, id, vendor: true, "a package name of your own, registered in \(ownProject)",
      "the app cannot be published or installed beside the vendor's, and Firebase knows no such app in your project"
    )
  }

  private var appBundle: Value? { app.parts.first(where: \.isApp)?.bundle }
  /// The app's bundle id, which is its APNs topic, if it is not the vendor's.
  private var ownBundle: Value? { appBundle.flatMap { Vendor.owns($0.text) ? nil : $0 } }

  /// The topics that this app may have: that of its entry in the apps file, or else those that no such entry has.
  private var topics: [String] {
    let all = service.apple.flatMap(\.topics)
    guard app.product == .zulip else {
      let own = ownApps(.ios).compactMap(\.apnsTopic)
      return own.isEmpty ? all : own
    }
    let nextcloud = Set(service.apps.own.compactMap(\.apnsTopic))
    let others = all.filter { !nextcloud.contains($0) }
    return others.isEmpty ? all : others
  }

  /// The keys of Apple's that serve the app, or that would if its name were right.
  private var serving: [AppCheck.Service.Apple] {
    let names = ownBundle.map { [$0.text] } ?? topics
    let serving = service.apple.filter { !Set($0.topics).isDisjoint(with: names) }
    return serving.isEmpty ? service.apple : serving
  }

  private mutating func compareBundles() {
    for part in app.parts {
      for other in part.otherBundles where Vendor.owns(other.text) { compareVendorsBundle(other) }
      guard let id = part.bundle else { continue }
      if Vendor.owns(id.text) {
        compareVendorsBundle(id)
      } else if part.isApp {
        compareAppBundle(id)
      } else if let bundle = ownBundle, !id.text.hasPrefix("\(bundle.text).") {
        fault(
          .bundleID, id, "\(bundle.text).NAME, since the app is \(bundle.text)",
          "Apple installs no app with an extension of a foreign name")
      } else {
        good(.bundleID, id)
      }
    }
    for id in app[.bundleIDInCode] {
      let effect = "the app looks for its keys and calls under another name than its own"
      if Vendor.owns(id.text) {
        fault(
          .bundleIDInCode, id, vendor: true,
          any(ownBundle.map { [$0.text] } ?? topics, or: "your own bundle id"), effect)
      } else if let bundle = ownBundle, bundle.text != id.text {
        fault(.bundleIDInCode, id, "\(bundle.text), as in \(bundle.file.text)", effect)
      } else {
        good(.bundleIDInCode, id)
      }
    }
  }

  private mutating func compareVendorsBundle(_ id: Value) {
    let ending = id.text.dropFirst(Vendor.name(of: id.text)?.count ?? 0)
    fault(
      .bundleID, id, vendor: true,
      any((ownBundle.map { [$0.text] } ?? topics).map { $0 + ending }, or: "a bundle id of your own"),
      "only the vendor can sign an app of this name; Apple refuses pushes to it with a key of yours")
  }

  private mutating func compareAppBundle(_ id: Value) {
    let keys = service.apple.filter { $0.topics.contains(id.text) }.map(\.name).sorted()
    if service.apple.isEmpty {
      warn(
        .bundleID, id, "a topic of a key in Keys/apns, where there is none",
        "nothing is sent to iOS by way of Apple")
    } else if keys.isEmpty {
      fault(
        .bundleID, id, "\(any(topics, or: "a bundle id")), as in the topics of the keys in Keys/apns",
        "this service has no key for the topic \(id.text): nothing arrives on iOS")
    } else {
      good(.bundleID, id, "the topic of \(keys.joined(separator: ", "))")
    }
  }

  private mutating func compareTeams() {
    let teams = serving.map(\.team)
    for team in app[.team] {
      let expected = any(teams.map { "\($0), the team of the key in Keys/apns" }, or: "your own team")
      if Vendor.teams.contains(team.text) {
        fault(.team, team, vendor: true, expected, "the app cannot be signed")
      } else if !teams.isEmpty, !teams.contains(team.text) {
        fault(
          .team, team, expected,
          "Apple refuses this service's key for an app of another team (InvalidProviderToken): nothing arrives on iOS"
        )
      } else {
        good(.team, team)
      }
    }
  }
}

// MARK: App groups

extension Comparison {
  private static func isOwn(_ group: Value) -> Bool {
    group.text.hasPrefix("group.") && !Vendor.groups.contains(group.text)
  }

  private mutating func compareGroups() {
    let opened = app[.group]
    let entitled = entitledGroups
    // What the app and its extensions agree on.
    let main = opened.first.flatMap { Self.isOwn($0) ? $0 : nil }
    for group in opened { compareOpened(group, entitled) }
    for part in app.parts {
      switch part.entitlements {
      case .unreadable: break
      case .gone(let place):
        add(
          .entitledGroup, .fault, place, "\(place.text), which is not there",
          "the path of its entitlements file",
          "\(part.name) cannot be built, or is signed without its app group")
      case .none(let other):
        guard let place = other ?? (part.needsEntitlements ? part.bundle : nil) else {
          break
        }
        let elsewhere = other.map { ": another configuration has \($0.text)" } ?? ""
        add(
          .entitledGroup, .fault, place, "\(part.name) is published without an entitlements file\(elsewhere)",
          "CODE_SIGN_ENTITLEMENTS in the configuration that is published, naming a file that allows \(main?.text ?? "your app group")",
          Self.effect(on: part))
      case .file(let file, let groups, _, let isWhole):
        for group in groups { compareEntitled(group, opened) }
        // A vendor's group stands where the right one has to; that has been said.
        guard isWhole, let main, !groups.contains(where: { $0.text == main.text }),
          groups.allSatisfy(Self.isOwn), !isElsewhere(main, entitled)
        else { break }
        let there = groups.isEmpty ? "no app group" : "only \(groups.map(\.text).joined(separator: " and "))"
        lack(
          .entitledGroup, file, line: groups.first?.line, "it allows \(there)",
          "\(main.text), as in \(main.file.text)",
          Self.effect(on: part))
      }
    }
  }

  /// Whether no part allows the group that the code opens: then it is the code's that is wrong.
  private func isElsewhere(_ main: Value, _ entitled: [Value]) -> Bool {
    let own = entitled.filter(Self.isOwn)
    return !own.isEmpty && !own.contains { $0.text == main.text }
  }

  private var entitledGroups: [Value] {
    app.parts.flatMap { part -> [Value] in
      if case .file(_, let groups, _, _) = part.entitlements { groups } else { [] }
    }
  }

  private static func effect(on part: AppFacts.Part) -> String {
    part.isApp
      ? "the app finds no folder to share with its extensions: it stops at its start, or notifications stay without text"
      : part.isNotificationService
        ? "the extension cannot read what the app has stored: its notifications stay without text"
        : "\(part.name) cannot read what the app has stored, and knows neither accounts nor keys"
  }

  /// The groups that the other side has and that are one's own.
  private func other(_ groups: [Value], but known: [Value]) -> String {
    let free = groups.filter { group in Self.isOwn(group) && !known.contains { $0.text == group.text } }
    return any(
      (free.isEmpty ? groups.filter(Self.isOwn) : free).map(\.text),
      or: "a group of your own team, group.NAME")
  }

  private mutating func compareOpened(_ group: Value, _ entitled: [Value]) {
    let share =
      app.product == .zulip
      ? "the app finds no folder to share with its extension, and stops at its start"
      : "app and extension share nothing: the extension has no key, and shows no text of a notification"
    if Vendor.groups.contains(group.text) {
      fault(
        .group, group, vendor: true, other(entitled, but: app[.group]),
        "the app opens a group that your team may not have: \(share)")
    } else if !group.text.hasPrefix("group.") {
      fault(.group, group, "a name that begins with group.", "Apple knows no such group: \(share)")
    } else if !entitled.isEmpty,
      isElsewhere(group, entitled) || !entitled.contains(where: { $0.text == group.text }),
      entitled.contains(where: Self.isOwn)
    {
      let own = entitled.first(where: Self.isOwn)
      fault(.group, group, "\(other(entitled, but: app[.group])), as in \(own?.file.text ?? "")", share)
    } else {
      good(.group, group)
    }
  }

  private mutating func compareEntitled(_ group: Value, _ opened: [Value]) {
    if Vendor.groups.contains(group.text) {
      fault(
        .entitledGroup, group, vendor: true, other(opened, but: entitledGroups),
        "Xcode cannot sign the app with it")
    } else if !group.text.hasPrefix("group.") {
      fault(
        .entitledGroup, group, other(opened, but: []),
        "Apple knows no such group: Xcode cannot sign the app with it")
    } else {
      good(.entitledGroup, group)
    }
  }
}

// MARK: Push on iOS

extension Comparison {
  private mutating func compareEnvironments() {
    for part in app.parts where part.isApp {
      guard case .file(let file, _, let environment, _) = part.entitlements else { continue }
      if let environment {
        compareEnvironment(environment)
      } else {
        lack(
          .environment, file, "there is no aps-environment",
          isPackage
            ? "a provisioning profile for an app with push notifications"
            : "aps-environment with development",
          "Apple gives the app no token: nothing arrives on iOS")
      }
    }
  }

  private mutating func compareEnvironment(_ value: Value) {
    let environments = Set(serving.map(\.environment))
    let needed: APNsCredential.Environment
    switch value.text {
    case "production": needed = .production
    case "development": needed = .sandbox
    default:
      return fault(
        .environment, value, "development or production",
        "Apple gives the app no token: nothing arrives on iOS")
    }
    if environments.isEmpty || environments.contains(needed) {
      good(.environment, value)
    } else if needed == .sandbox, !isPackage {
      good(
        .environment, value,
        "an export for the App Store or TestFlight turns it into production, as the key in Keys/apns has it; an app run "
          + "from Xcode needs \"environment\": \"sandbox\" there")
    } else {
      fault(
        .environment, value,
        "a key in Keys/apns with \"environment\": \"\(needed.rawValue)\", or another signing",
        "Apple knows the phone's token in the other environment only (BadDeviceToken): nothing arrives")
    }
  }

  private mutating func compareBackgroundModes() {
    for part in app.parts where part.isApp {
      guard let (file, line, modes) = part.backgroundModes else { continue }
      let there = modes.isEmpty ? "there are none" : modes.map(\.text).joined(separator: ", ")
      if app.product == .talk, !modes.contains(where: { $0.text == "voip" }) {
        lack(
          .backgroundModes, file, line: line, there, "voip among the UIBackgroundModes",
          "iOS gives the app no token for calls, and Talk registers none without it: no call rings, and nothing arrives"
        )
      } else if app.product != .files, !modes.contains(where: { $0.text == "remote-notification" }) {
        add(
          .backgroundModes, .warning, Value("", file: file, line: line), there,
          "remote-notification among the UIBackgroundModes",
          "notifications arrive, but those that were read elsewhere stay on the phone")
      } else if !modes.isEmpty {
        add(.backgroundModes, .good, Value("", file: file, line: line), there)
      }
    }
  }
}

// MARK: Nextcloud's apps

extension Comparison {
  private mutating func compareUserAgent(_ value: Value) {
    let entry = "an entry in nextcloud.apps_file whose user_agent matches it"
    guard let known = service.apps.app(of: [value.text]) else {
      return fault(
        .userAgent, value, entry, "the proxy refuses the registration of an app that it does not know")
    }
    // A name or project of the vendor's has been found already, and belongs into no apps file.
    if let bundle = ownBundle, known.apnsTopic != bundle.text {
      return fault(
        .userAgent, value, "\(entry) with \"apns_topic\": \"\(bundle.text)\"",
        """
        the proxy takes the app for \(known.name) and sends to the topic \(known.apnsTopic ?? "of no app for iOS"): Apple \
        refuses that for a token of \(bundle.text), and nothing arrives
        """)
    }
    let project = known.fcmProject ?? service.defaultProject
    let firebase = app[.firebaseProject].first { !$0.text.isEmpty && !Vendor.firebase.contains($0.text) }
    if let firebase, let project, firebase.text != project, service.projects.contains(firebase.text) {
      return fault(
        .userAgent, value, "\(entry) with \"fcm_project\": \"\(firebase.text)\"",
        """
        the proxy takes the app for \(known.name) and sends by the project \(project): Google refuses that for a token of \
        \(firebase.text), and nothing arrives
        """)
    }
    good(.userAgent, value, "the proxy knows it as \(known.name)")
  }
}
