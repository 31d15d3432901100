internal import Foundation
internal import NextcloudProxy
internal import Operations
internal import Providers
internal import Sealing

/// One app beside one service.
struct Comparison {
  let app: AppFacts
  let service: AppCheck.Service
  let isPackage: Bool
  private var found: [AppCheck.Finding] = []
  private var known: Set<[Name]> = []

  init(app: AppFacts, service: AppCheck.Service, isPackage: Bool) {
    (self.app, self.service, self.isPackage) = (app, service, isPackage)
  }

  mutating func findings() -> [AppCheck.Finding] {
    found = app.unread.map {
      .init(
        check: $0.aspect.rawValue, standing: .skipped, found: $0.reason, file: $0.file?.text, line: $0.line)
    }
    for key in app[.bouncerKey] { compareKey(key) }
    for proxy in app[.proxy] { compareProxy(proxy) }
    compareFirebase()
    for id in app[.applicationID] { compareApplicationID(id) }
    compareBundles()
    compareTeams()
    compareGroups()
    for environment in app[.environment] { compareEnvironment(environment) }
    for userAgent in app[.userAgent].prefix(1) { compareUserAgent(userAgent) }
    for name in app[.leftover] {
      warn(
        .leftover, name, "your own name",
        "pushes arrive all the same, but the app still names the vendor's")
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
      check: aspect.rawValue, standing: standing, found: found ?? value.text, file: value.file.text,
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
}

extension Comparison {
  private mutating func compareKey(_ key: Value) {
    let active = service.bouncerKeys.all.filter { $0.state == .active }.map(\.pair.publicKeyBase64).sorted()
    let expected =
      active.isEmpty
      ? "an active key of this bouncer: there is none, push-bouncer keys generate makes one"
      : active.joined(separator: " or ")
    switch service.bouncerKeys.all.first(where: { $0.pair.publicKeyBase64 == key.text })?.state {
    case .active: good(.bouncerKey, key, "an active key of this bouncer")
    case .retired:
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

  private mutating func compareProxy(_ proxy: Value) {
    let url = service.publicURL
    let expected =
      url.map { "\($0), without a slash at its end" } ?? "this service's address: set http.public_url to it"
    if proxy.text == Vendor.proxy || proxy.text == "\(Vendor.proxy)/" {
      fault(
        .proxy, proxy, vendor: true, expected,
        "the phone registers at Nextcloud's proxy, which cannot push to an app of yours: nothing arrives")
    } else if proxy.text.hasSuffix("/") {
      fault(
        .proxy, proxy, expected,
        "the phone's server calls an address with two slashes, and never removes a device that has gone")
    } else if proxy.text.isEmpty {
      fault(.proxy, proxy, expected, "the app registers nowhere: nothing arrives")
    } else if url == proxy.text {
      good(.proxy, proxy)
    } else if url != nil {
      fault(.proxy, proxy, expected, "the phone registers at another service: nothing arrives from this one")
    } else {
      add(.proxy, .skipped, proxy, "\(proxy.text) cannot be compared, as http.public_url is not set")
    }
  }
}

// MARK: Firebase

extension Comparison {
  private mutating func compareFirebase() {
    let projects = service.credentials.fcm.map(\.projectID).sorted()
    let nothing =
      "Google refuses this service's pushes to the app (SENDER_ID_MISMATCH): nothing arrives on Android"
    for project in app[.firebaseProject] {
      let isVendors = Vendor.firebase.contains(project.text)
      if projects.contains(project.text) {
        good(.firebaseProject, project, "a project of Keys/fcm")
      } else if projects.isEmpty, !isVendors {
        warn(
          .firebaseProject, project, "a project whose service account is in Keys/fcm, where there is none",
          "nothing is sent to Android by way of Google")
      } else {
        let own = projects.isEmpty ? "your own project" : projects.joined(separator: " or ")
        fault(
          .firebaseProject, project, vendor: isVendors, "\(own), with its service account in Keys/fcm",
          nothing)
      }
    }
    let numbers = app[.firebaseNumber]
    for number in numbers where Vendor.firebase.contains(number.text) {
      fault(
        .firebaseNumber, number, vendor: true, "your project's number, as in its google-services.json",
        nothing)
    }
    for id in app[.firebaseApp] {
      guard let number = id.text.firstMatch(of: #/^1:(\d+):(?:android|ios|web):\w+$/#)?.output.1 else {
        fault(
          .firebaseApp, id, "1:NUMBER:android:..., as in google-services.json",
          "the Firebase library does not start, and no token is made: nothing arrives on Android")
        continue
      }
      if Vendor.firebase.contains(String(number)) {
        fault(.firebaseApp, id, vendor: true, "an app of your own project", nothing)
      } else if !numbers.isEmpty, !numbers.contains(where: { $0.text == number }) {
        fault(
          .firebaseApp, id, "an app of the project \(numbers[0].text), which the app names beside it",
          "Firebase makes no token for an app of another project: nothing arrives on Android")
      } else {
        good(.firebaseApp, id)
      }
    }
    for value in app[.firebaseForIOS] {
      if value.text.split(separator: ":").contains(where: { Vendor.firebase.contains(String($0)) }) {
        warn(
          .firebaseForIOS, value, "a value of your own project",
          "the app starts the vendor's Firebase project; its pushes come by APNs all the same")
      } else {
        good(.firebaseForIOS, value)
      }
    }
  }
}

// MARK: Names, teams, groups

extension Comparison {
  private mutating func compareApplicationID(_ id: Value) {
    guard Vendor.owns(id.text) else { return good(.applicationID, id) }
    fault(
      .applicationID, id, vendor: true, "a package name of your own, registered in your Firebase project",
      "the app cannot be published or installed beside the vendor's, and Firebase knows no such app in your project"
    )
  }

  /// The app's bundle id, which is its APNs topic: the shortest, since those of its extensions begin with it.
  private var appBundle: Value? {
    app[.bundleID].min { ($0.text.utf8.count, $0.text) < ($1.text.utf8.count, $1.text) }
  }

  private mutating func compareBundles() {
    guard let bundle = appBundle else { return }
    let serving = service.credentials.apns.filter { $0.topics.contains(bundle.text) }
    let topics = Set(service.credentials.apns.flatMap(\.topics)).sorted()
    for id in app[.bundleID] {
      let ending = id.text.hasPrefix(bundle.text) ? id.text.dropFirst(bundle.text.count) : ""
      if Vendor.owns(id.text) {
        fault(
          .bundleID, id, vendor: true,
          topics.isEmpty ? "a bundle id of your own" : topics.map { $0 + ending }.joined(separator: " or "),
          "only the vendor can sign an app of this name; Apple refuses pushes to it with a key of yours")
      } else if id.text == bundle.text, topics.isEmpty {
        warn(
          .bundleID, id, "a topic of a key in Keys/apns, where there is none",
          "nothing is sent to iOS by way of Apple")
      } else if id.text == bundle.text, serving.isEmpty {
        fault(
          .bundleID, id, "\(topics.joined(separator: " or ")), the topics of the keys in Keys/apns",
          "this service has no key for the topic \(id.text): nothing arrives on iOS")
      } else if id.text != bundle.text, !ending.hasPrefix(".") {
        fault(
          .bundleID, id, "\(bundle.text).NAME, since the app is \(bundle.text)",
          "Apple installs no app with an extension of a foreign name")
      } else {
        good(
          .bundleID, id,
          id == bundle ? "the topic of \(serving.map(\.name).sorted().joined(separator: ", "))" : nil)
      }
    }
    for id in app[.bundleIDInCode] where id.text != bundle.text {
      fault(
        .bundleIDInCode, id, vendor: Vendor.owns(id.text), bundle.text,
        "the app looks for its keys and calls under another name than its own")
    }
  }

  private mutating func compareTeams() {
    let teams = service.credentials.apns
      .filter { credential in appBundle.map { credential.topics.contains($0.text) } ?? false }.map(\.teamID)
    for team in app[.team] {
      if team.text == Vendor.team {
        fault(.team, team, vendor: true, "your own team", "the app cannot be signed")
      } else if !teams.isEmpty, !teams.contains(team.text) {
        fault(
          .team, team, "\(Set(teams).sorted().joined(separator: " or ")), the team of the key in Keys/apns",
          "Apple refuses this service's key for an app of another team (InvalidProviderToken): nothing arrives on iOS"
        )
      } else {
        good(.team, team)
      }
    }
  }

  private mutating func compareGroups() {
    let entitled = app[.entitledGroup]
    for group in app[.group] + entitled {
      let aspect: AppFacts.Aspect = entitled.contains(group) ? .entitledGroup : .group
      if Vendor.groups.contains(group.text) {
        fault(aspect, group, vendor: true, "a group of your own team", "Xcode cannot sign the app with it")
      } else if aspect == .group, !entitled.isEmpty, !entitled.contains(where: { $0.text == group.text }) {
        fault(
          .group, group,
          "\(Set(entitled.map(\.text)).sorted().joined(separator: " or ")), as in \(entitled[0].file.text)",
          app.product == .zulip
            ? "the app finds no folder to share with its extension, and stops at its start"
            : "app and extension share nothing: the extension has no key, and shows no text of a notification"
        )
      } else {
        good(aspect, group)
      }
    }
    // Each extension needs every group that the code opens.
    for (file, groups) in Dictionary(grouping: entitled, by: \.file).sorted(by: { $0.key < $1.key }) {
      let (first, texts) = (groups[0], groups.map(\.text))
      for group in app[.group].prefix(1) where !texts.contains(group.text) {
        add(
          .entitledGroup, .fault, first, "\(file.text) lacks \(group.text)", group.text,
          "what is signed with this file cannot read what the app has stored: its notifications stay without text"
        )
      }
    }
  }

  private mutating func compareEnvironment(_ value: Value) {
    let environments = Set(
      service.credentials.apns.filter { credential in
        appBundle.map { credential.topics.contains($0.text) } ?? true
      }.map(\.environment))
    let needed: APNsCredential.Environment = value.text == "production" ? .production : .sandbox
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
}

// MARK: Nextcloud's apps

extension Comparison {
  private mutating func compareUserAgent(_ value: Value) {
    let expected = "an entry in nextcloud.apps_file whose user_agent matches it"
    guard let known = service.apps.app(of: [value.text]) else {
      return fault(
        .userAgent, value, expected, "the proxy refuses the registration of an app that it does not know")
    }
    if let bundle = appBundle, known.apnsTopic != bundle.text {
      return fault(
        .userAgent, value, "\(expected) with \"apns_topic\": \"\(bundle.text)\"",
        """
        the proxy takes the app for \(known.name) and sends to the topic \(known.apnsTopic ?? "of no app for iOS"): Apple \
        refuses that for a token of \(bundle.text), and nothing arrives
        """)
    }
    let project = known.fcmProject ?? service.credentials.defaultProject
    if let firebase = app[.firebaseProject].first, let project, firebase.text != project {
      return fault(
        .userAgent, value, "\(expected) with \"fcm_project\": \"\(firebase.text)\"",
        """
        the proxy takes the app for \(known.name) and sends by the project \(project): Google refuses that for a token of \
        \(firebase.text), and nothing arrives
        """)
    }
    good(.userAgent, value, "the proxy knows it as \(known.name)")
  }
}
