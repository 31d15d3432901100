internal import NextcloudProxy
internal import Platform
internal import Providers

/// What an app has to be beside one service: what the service has is named rather than "your own", and what is the
/// vendor's is never what something must be.
struct Expectation: Sendable {
  let app: AppFacts
  let service: AppCheck.Service
  let isPackage: Bool

  func any(_ texts: some Sequence<String>, or other: String) -> String {
    let texts = Set(texts).sorted()
    return texts.isEmpty ? other : texts.joined(separator: " or ")
  }

  var key: String {
    any(
      service.keys.filter(\.isActive).map(\.text),
      or: "an active key of this bouncer: there is none, push-bouncer keys generate makes one")
  }

  var proxy: String {
    service.address.map { "\($0), without a slash at its end" }
      ?? "this service's address: set http.public_url to it"
  }

  /// The Firebase projects that this app may have: that of its entry in the apps file, or those of the service.
  private var projects: [String] {
    guard app.product != .zulip else { return service.projects }
    let own = ownApps(.android).compactMap { $0.fcmProject ?? service.defaultProject }
    return own.isEmpty ? service.projects : own
  }

  var ownProject: String { any(projects.map { "project \($0)" }, or: "your own project") }
  var project: String { any(projects, or: "your own project") + ", with its service account in Keys/fcm" }

  /// The project numbers beside which an app id is looked at: what is wrong with others has been said.
  var numbers: [String] {
    app[.firebaseNumber].map(\.text).filter {
      !$0.isEmpty && $0.utf8.allSatisfy(\.isDigit) && !Vendor.owns(.firebaseNumber, $0)
    }
  }

  private func ownApps(_ platform: NextcloudApp.Platform) -> [NextcloudApp] {
    let kind: NextcloudApp.Kind = app.product == .talk ? .talk : .files
    return service.apps.own.filter { $0.kind == kind && $0.platform == platform }
  }

  /// The bundle id of the app for iOS, which is its APNs topic.
  var appBundle: Value? { app.parts.first(where: \.isApp)?.bundle }

  /// The topics that this app may have: that of its entry in the apps file, or else those that no such entry has.
  var topics: [String] {
    let all = service.apple.flatMap(\.topics)
    guard app.product == .zulip else {
      let own = ownApps(.ios).compactMap(\.apnsTopic)
      return own.isEmpty ? all : own
    }
    let nextcloud = Set(service.apps.own.compactMap(\.apnsTopic))
    let others = all.filter { !nextcloud.contains($0) }
    return others.isEmpty ? all : others
  }

  /// The bundle id that others are measured by: the app's, if it is a topic of this app, or else the only topic.
  var measure: String? {
    let topics = Set(topics)
    if let id = appBundle?.text, topics.contains(id) { return id }
    return topics.count == 1 ? topics.first : nil
  }

  var bundle: String { any(measure.map { [$0] } ?? topics, or: "a bundle id of your own") }

  /// The keys of Apple's that serve the app, or that would if its name were right.
  var serving: [AppCheck.Service.Apple] {
    let names = measure.map { [$0] } ?? topics
    let serving = service.apple.filter { !Set($0.topics).isDisjoint(with: names) }
    return serving.isEmpty ? service.apple : serving
  }

  func judge(userAgent text: String) -> Judgement {
    guard let known = service.apps.app(of: [text]) else { return .fault() }
    let entry = "an entry in nextcloud.apps_file whose user_agent matches it"
    // A name or project of the vendor's has been found already, and belongs into no apps file.
    if let bundle = appBundle?.text, !Vendor.owns(.bundleID, bundle), known.apnsTopic != measure ?? bundle {
      let topic = measure ?? bundle
      return .fault(
        must: "\(entry) with \"apns_topic\": \"\(topic)\"",
        effect: """
          the proxy takes the app for \(known.name) and sends to the topic \(known.apnsTopic ?? "of no app for iOS"): \
          Apple refuses that for a token of \(topic), and nothing arrives
          """)
    }
    let project = known.fcmProject ?? service.defaultProject
    let firebase = app[.firebaseProject].first { !$0.text.isEmpty && !Vendor.owns(.firebaseProject, $0.text) }
    if let firebase, let project, firebase.text != project, service.projects.contains(firebase.text) {
      return .fault(
        must: "\(entry) with \"fcm_project\": \"\(firebase.text)\"",
        effect: """
          the proxy takes the app for \(known.name) and sends by the project \(project): Google refuses that for a token \
          of \(firebase.text), and nothing arrives
          """)
    }
    return .good("the proxy knows it as \(known.name)")
  }
}

/// One app beside one service: what its table says of each value, and what its parts have to agree on.
struct Comparison {
  private let expected: Expectation
  private var app: AppFacts { expected.app }
  private var service: AppCheck.Service { expected.service }
  private var found: [AppCheck.Finding] = []

  init(app: AppFacts, service: AppCheck.Service, isPackage: Bool) {
    expected = Expectation(app: app, service: service, isPackage: isPackage)
  }

  mutating func findings() -> [AppCheck.Finding] {
    for (aspect, reason, file, line) in app.unread {
      add(aspect, .skipped, Value("", file: file ?? "", line: line), remark: reason)
    }
    var seen: Set<Aspect> = []
    for row in app.rows where seen.insert(row.aspect).inserted || row.aspect == .firebaseForIOS {
      compare(row)
    }
    for (row, name, file) in app.lacking {
      add(
        row.aspect, .fault, Value("", file: file, line: nil), remark: "there is no \(name.text)",
        row.must(expected), row.effects.missing)
    }
    compareAndroid()
    compareBundles()
    compareTeams()
    compareNotificationService()
    compareGroups()
    compareEnvironments()
    compareBackgroundModes()
    for name in app[.leftover] {
      add(
        .leftover, .warning, name, "your own name",
        Self.isForAndroid(name.text)
          ? "pushes arrive, but beside the vendor's app Android does not install this one, or lets it make no account"
          : "pushes arrive all the same, but the app still names the vendor's")
    }
    return found
  }

  /// Whether a name left over is one of Android's: an authority or an account type.
  private static func isForAndroid(_ name: String) -> Bool {
    name == "nextcloud"
      || ["org.nextcloud", "com.nextcloud.android.", "com.nextcloud.talk2"].contains(where: name.hasPrefix)
  }

  private mutating func add(
    _ aspect: Aspect, _ standing: Finding.Standing, _ value: Value, remark: String? = nil,
    _ must: String? = nil, _ effect: String? = nil
  ) {
    let place = AppCheck.Place(
      file: value.file.bytes.isEmpty ? nil : value.file.text, line: value.line, member: value.member,
      target: value.target)
    let finding = AppCheck.Finding(
      check: aspect.rawValue, standing: standing, value: value.text.isEmpty ? nil : value.text,
      remark: remark, places: place.file == nil ? [] : [place], expected: must, effect: effect)
    if let index = found.firstIndex(where: { $0.isSame(as: finding) }) {
      if !found[index].places.contains(place), place.file != nil { found[index].places.append(place) }
      return
    }
    // One line that several things are taken from is one cause.
    let isSaid =
      standing != .good && standing != .skipped && place.line != nil
      && found.contains {
        $0.standing == .fault && $0.value == finding.value
          && $0.places.contains { $0.file == place.file && $0.line == place.line }
      }
    if !isSaid { found.append(finding) }
  }
}

// MARK: The rows

extension Comparison {
  private mutating func compare(_ row: Row) {
    // Of texts that begin alike the first is the one that is sent.
    let values = row.aspect == .userAgent ? Array(app[.userAgent].prefix(1)) : app[row.aspect]
    // Whoever has changed a file that no build reads believes that all is done.
    let note = app.unusedGoogleServices.map { " (no build reads \($0.text))" } ?? ""
    let effects = row.effects
    for value in values where row.aspect != .group {
      if row.aspect == .firebaseForIOS, !isMember(value, of: row) { continue }
      let must = row.must(expected)
      let isFirebase = row.aspect.isFirebase
      let text = value.text
      // That a number is the vendor's, or none, is said where it stands.
      if isFirebase, let number = FirebaseApp.number(of: text), !expected.numbers.contains(number),
        !Vendor.isApp(text), app[.firebaseNumber].contains(where: { $0.text == number })
      {
        continue
      }
      if Vendor.owns(row.aspect, text) {
        if row.aspect == .firebaseForIOS {
          add(
            row.aspect, .warning, value, remark: "the vendor's own", must,
            "the app starts the vendor's Firebase project; its pushes come by APNs all the same")
        } else {
          add(
            row.aspect, .fault, value, remark: "the vendor's own", must,
            effects.vendors + (isFirebase ? note : ""))
        }
        continue
      }
      if text.isEmpty {
        add(
          row.aspect, .fault, value, remark: "it is empty", must, effects.missing + (isFirebase ? note : ""))
        continue
      }
      switch row.judge(text, expected) {
      case .good(let remark): add(row.aspect, .good, value, remark: remark)
      case .skipped(let remark): add(row.aspect, .skipped, value, remark: remark)
      case .warning(let remark, let other, let effect):
        add(row.aspect, .warning, value, remark: remark, other ?? must, effect ?? effects.other)
      case .fault(let remark, let other, let effect):
        add(
          row.aspect, .fault, value, remark: remark, other ?? must,
          (effect ?? effects.other) + (isFirebase ? note : ""))
      }
    }
  }

  /// Values of Firebase for iOS are of one kind each, which their member says.
  private func isMember(_ value: Value, of row: Row) -> Bool {
    if case .option(let name, _) = row.source { value.member == name.text } else { false }
  }

  private mutating func compareAndroid() {
    for id in app[.applicationID] {
      if Vendor.owns(.applicationID, id.text) {
        add(
          .applicationID, .fault, id, remark: "the vendor's own",
          "a package name of your own, registered in \(expected.ownProject)",
          "the app cannot be published or installed beside the vendor's, and Firebase knows no such app in your project"
        )
      } else {
        add(.applicationID, .good, id)
      }
    }
    if let (remark, places) = app.wrongServices {
      let name = app[.applicationID].first?.text ?? "the app"
      for place in places {
        add(
          .googleServices, .fault, place, remark: remark,
          "the google-services.json of the Firebase project in which \(name) is registered",
          "the build stops, or the Firebase library does not start: nothing arrives on Android")
      }
    }
    for value in app[.messaging] {
      if value.member == SourceReader.messaging.text {
        add(
          .messaging, .fault, value,
          remark: "no manifest of this flavour has it for \(SourceReader.messaging.text)",
          "the service in an AndroidManifest.xml that is built, with this class and that action",
          "nothing takes what Google delivers: no notification is shown")
      } else {
        add(
          .messaging, .fault, value, remark: "neither Firebase's messaging nor UnifiedPush",
          "a flavour with push: --flavor gplay", "the app has no push: nothing arrives")
      }
    }
    for certificate in app[.certificate] {
      let name = app[.applicationID].first?.text ?? "the package name"
      switch certificate.member {
      case "unsigned":
        add(
          .certificate, .fault, Value("", file: certificate.file, line: nil),
          remark: "the package is not signed", "a signature: apksigner sign, or jarsigner for a bundle",
          "Android installs no package without one")
      case "debug":
        add(
          .certificate, .warning, certificate, remark: "a debug certificate", "your own release certificate",
          "pushes arrive, but no store takes the app, and the next machine's build does not install over it")
      default:
        add(
          .certificate, .good, certificate,
          remark:
            "SHA-256, to be registered with \(name) for Android's developer verification; where Google Play signs, "
            + "with the certificate of the Play Console")
      }
    }
  }
}

// MARK: Names and teams

extension Comparison {
  private mutating func compareBundles() {
    let measure = expected.measure
    for part in app.parts {
      for other in part.otherBundles where Vendor.owns(.bundleID, other.text) { addVendors(other) }
      guard let id = part.bundle else { continue }
      if Vendor.owns(.bundleID, id.text) {
        addVendors(id)
      } else if part.isApp {
        compareAppBundle(id)
      } else if let measure,
        ![measure, expected.appBundle?.text ?? measure].contains(where: { id.text.hasPrefix("\($0).") })
      {
        add(
          .bundleID, .fault, id, "\(measure).NAME, since the app is \(measure)",
          "Apple installs no app with an extension of a foreign name")
      } else {
        add(.bundleID, .good, id)
      }
    }
  }

  /// The vendor's name stands in many places, and is one mistake.
  private mutating func addVendors(_ id: Value) {
    let name = Vendor.name(of: id.text) ?? ""
    let bundles = expected.measure.map { [$0] } ?? expected.topics
    let ending = id.text.dropFirst(name.utf8.count)
    let effect =
      "only the vendor can sign an app of this name; Apple refuses pushes to it with a key of yours"
    if let index = found.firstIndex(where: { $0.effect == effect && ($0.value.flatMap(Vendor.name) == name) })
    {
      let place = AppCheck.Place(file: id.file.text, line: id.line, target: id.target)
      if !found[index].places.contains(place) { found[index].places.append(place) }
      if found[index].value != id.text {
        found[index].value = name
        found[index].expected =
          expected.any(bundles, or: "a bundle id of your own") + ", also before the names of extensions"
      }
    } else {
      add(
        .bundleID, .fault, id, remark: "the vendor's own",
        expected.any(bundles.map { $0 + ending }, or: "a bundle id of your own"), effect)
    }
  }

  private mutating func compareAppBundle(_ id: Value) {
    let keys = service.apple.filter { $0.topics.contains(id.text) }.map(\.name).sorted()
    if service.apple.isEmpty {
      add(
        .bundleID, .warning, id, "a topic of a key in Keys/apns, where there is none",
        "nothing is sent to iOS by way of Apple")
    } else if keys.isEmpty {
      add(
        .bundleID, .fault, id,
        "\(expected.any(expected.topics, or: "a bundle id")), as in the topics of the keys in Keys/apns",
        "this service has no key for the topic \(id.text): nothing arrives on iOS")
    } else {
      add(.bundleID, .good, id, remark: "the topic of \(keys.joined(separator: ", "))")
    }
  }

  private mutating func compareTeams() {
    let teams = expected.serving.map(\.team)
    for team in app[.team] {
      let must = expected.any(teams.map { "\($0), the team of the key in Keys/apns" }, or: "your own team")
      if Vendor.owns(.team, team.text) {
        add(.team, .fault, team, remark: "the vendor's own", must, "the app cannot be signed")
      } else if !teams.isEmpty, !teams.contains(team.text) {
        add(
          .team, .fault, team, must,
          "Apple refuses this service's key for an app of another team (InvalidProviderToken): nothing arrives on iOS"
        )
      } else {
        add(.team, .good, team)
      }
    }
  }

  private mutating func compareNotificationService() {
    guard let app = app.parts.first(where: \.isApp),
      !self.app.unread.contains(where: { $0.aspect == .notificationService })
    else { return }
    let effect =
      "what arrives is encrypted, and nothing decrypts it: a notification shows no text, or not at all"
    let services = self.app.parts.filter { $0.isNotificationService }
    if let service = services.first {
      guard !services.contains(where: \.isEmbedded) else { return }
      let place = service.bundle ?? Value("", file: self.app.project ?? "", line: nil)
      add(
        .notificationService, .fault, Value("", file: place.file, line: place.line),
        remark: "\(service.name) is not embedded in \(app.name)",
        "\(service.name) among \"Embed Foundation Extensions\" of \(app.name)", effect)
    } else if let wrong = self.app.parts.first(where: \.isCalledNotificationService) {
      let place = wrong.point ?? Value("", file: wrong.bundle?.file ?? "", line: nil)
      add(
        .notificationService, .fault, place,
        remark: wrong.point == nil ? "\(wrong.name) has no NSExtensionPointIdentifier" : nil,
        "NSExtensionPointIdentifier with \(AppFacts.Part.service)", effect)
    } else if self.app.product != .zulip || !self.app[.bouncerKey].isEmpty {
      // Versions of Zulip's app without encryption have none.
      add(
        .notificationService, .fault, Value("", file: self.app.project ?? "", line: nil),
        remark: "there is none", "an extension of the app for \(AppFacts.Part.service)", effect)
    }
  }
}

// MARK: App groups

extension Comparison {
  private static func isOwn(_ group: Value) -> Bool {
    group.text.hasPrefix("group.") && !Vendor.owns(.group, group.text)
  }

  private mutating func compareGroups() {
    let opened = app[.group]
    let entitled = app.parts.flatMap(\.groups)
    // What the app and its extensions agree on.
    let main =
      expected.isPackage
      ? opened.first(where: Self.isOwn) : opened.first.flatMap { Self.isOwn($0) ? $0 : nil }
    let share =
      app.product == .zulip
      ? "the app finds no folder to share with its extension, and stops at its start"
      : "app and extension share nothing: the extension has no key, and shows no text of a notification"
    for group in opened
    where compare(group, .group, other(entitled, but: opened), "your team has no such group: \(share)") {
      if !isAppWrong, !entitled.contains(where: { $0.text == group.text }),
        let own = entitled.first(where: Self.isOwn)
      {
        add(.group, .fault, group, "\(other(entitled, but: opened)), as in \(own.file.text)", share)
      } else {
        add(.group, .good, group)
      }
    }
    for part in app.parts {
      switch part.entitlements {
      case .unreadable: break
      case .gone(let place):
        add(
          .entitledGroup, .fault, place, remark: "it is not there", "the path of its entitlements file",
          "\(part.name) cannot be built, or is signed without its app group")
      case .none(let other):
        guard let place = other ?? (part.needsEntitlements ? part.bundle : nil) else { break }
        let elsewhere = other.map { ": another configuration has \($0.text)" } ?? ""
        add(
          .entitledGroup, .fault, Value("", file: place.file, line: place.line),
          remark: "\(part.name) is published without an entitlements file\(elsewhere)",
          "CODE_SIGN_ENTITLEMENTS in the configuration that is published, naming a file that allows \(main?.text ?? "your app group")",
          Self.effect(on: part))
      case .file(let file, let groups, _, let isWhole):
        for group in groups
        where compare(
          group, .entitledGroup, other(opened, but: entitled), "Xcode cannot sign the app with it")
        { add(.entitledGroup, .good, group) }
        // A vendor's group stands where the right one has to; that has been said. A package does not say which of the groups
        // that its code opens is the one that is shared.
        let shared = expected.isPackage ? opened.filter(Self.isOwn) : main.map { [$0] } ?? []
        guard isWhole, let main,
          !groups.contains(where: { group in shared.contains { $0.text == group.text } }),
          groups.allSatisfy(Self.isOwn), !isElsewhere(main, entitled)
        else { break }
        guard part.needsEntitlements || !groups.isEmpty else { break }
        let there = groups.isEmpty ? "no app group" : "only \(groups.map(\.text).joined(separator: " and "))"
        add(
          .entitledGroup, .fault, Value("", file: file, line: groups.first?.line),
          remark: "it allows \(there)", "\(main.text), as in \(main.file.text)", Self.effect(on: part))
      }
    }
  }

  /// Whether no part allows the group that the code opens: then it is the code's that is wrong.
  private func isElsewhere(_ main: Value, _ entitled: [Value]) -> Bool {
    let own = entitled.filter(Self.isOwn)
    return !own.isEmpty && !own.contains { $0.text == main.text }
  }

  private static func effect(on part: AppFacts.Part) -> String {
    part.isApp
      ? "the app finds no folder to share with its extensions: it stops at its start, or notifications stay without text"
      : part.isNotificationService
        ? "the extension cannot read what the app has stored: its notifications stay without text"
        : "\(part.name) cannot read what the app has stored, and knows neither accounts nor keys"
  }

  /// Whether the app's entitlements are not those that they have to be, which is said of them.
  private var isAppWrong: Bool {
    app.parts.contains { $0.isApp && ($0.groups.isEmpty || !$0.groups.allSatisfy(Self.isOwn)) }
  }

  /// The groups that the other side has and that are one's own.
  private func other(_ groups: [Value], but known: [Value]) -> String {
    let free = groups.filter { group in Self.isOwn(group) && !known.contains { $0.text == group.text } }
    return expected.any(
      (free.isEmpty ? groups.filter(Self.isOwn) : free).map(\.text),
      or: "a group of your own team, group.NAME")
  }

  /// Says what is wrong with a group by itself; false if something is.
  private mutating func compare(_ group: Value, _ aspect: Aspect, _ must: String, _ effect: String) -> Bool {
    guard !Self.isOwn(group) else { return true }
    let isVendors = Vendor.owns(.group, group.text)
    add(
      aspect, .fault, group,
      remark: isVendors ? "the vendor's own" : group.text.isEmpty ? "it is empty" : nil,
      isVendors || aspect == .entitledGroup ? must : "a name that begins with group.", effect)
    return false
  }
}

// MARK: Push on iOS

extension Comparison {
  private mutating func compareEnvironments() {
    for part in app.parts where part.isApp {
      guard case .file(let file, _, let environment, _) = part.entitlements else { continue }
      if let environment {
        compareEnvironment(environment)
      } else if !app.unread.contains(where: { $0.aspect == .environment }) {
        add(
          .environment, .fault, Value("", file: file, line: nil), remark: "there is no aps-environment",
          expected.isPackage
            ? "a provisioning profile for an app with push notifications"
            : "aps-environment with development", "Apple gives the app no token: nothing arrives on iOS")
      }
    }
  }

  private mutating func compareEnvironment(_ value: Value) {
    let environments = Set(expected.serving.map(\.environment))
    let needed: APNsCredential.Environment
    switch value.text {
    case "production": needed = .production
    case "development": needed = .sandbox
    default:
      return add(
        .environment, .fault, value, remark: value.text.isEmpty ? "it is empty" : nil,
        "development or production", "Apple gives the app no token: nothing arrives on iOS")
    }
    if environments.isEmpty || environments.contains(needed) {
      add(.environment, .good, value)
    } else if needed == .sandbox, !expected.isPackage {
      add(
        .environment, .good, value,
        remark:
          "an export for the App Store or TestFlight turns it into production, as the key in Keys/apns has it; an app run "
          + "from Xcode needs \"environment\": \"sandbox\" there")
    } else {
      add(
        .environment, .fault, value,
        "a key in Keys/apns with \"environment\": \"\(needed.rawValue)\", or another signing",
        "Apple knows the phone's token in the other environment only (BadDeviceToken): nothing arrives")
    }
  }

  private mutating func compareBackgroundModes() {
    for part in app.parts where part.isApp {
      guard let (place, modes) = part.backgroundModes else { continue }
      let there = modes.isEmpty ? "there are none" : modes.map(\.text).joined(separator: ", ")
      func has(_ mode: String) -> Bool { modes.contains { $0.text == mode } }
      if app.product == .talk, !has("voip") {
        add(
          .backgroundModes, .fault, place, remark: there, "voip among the UIBackgroundModes",
          "iOS gives the app no token for calls, and Talk registers none without it: no call rings, and nothing arrives"
        )
      } else if app.product != .files, !has("remote-notification") {
        add(
          .backgroundModes, .warning, place, remark: there, "remote-notification among the UIBackgroundModes",
          "notifications arrive, but those that were read elsewhere stay on the phone")
      } else if !modes.isEmpty {
        add(.backgroundModes, .good, place, remark: there)
      }
    }
  }
}
