import NextcloudProxy
import Platform

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
      !$0.isEmpty && FirebaseApp.isNumber($0) && !Vendor.owns(.firebaseNumber, $0)
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
    guard let known = service.apps.app(of: [text]) else { return .fault }
    let entry = "an entry in nextcloud.apps_file whose user_agent matches it"
    // A name or project of the vendor's has been found already, and belongs into no apps file.
    if let bundle = appBundle?.text, !Vendor.owns(.bundleID, bundle), known.apnsTopic != measure ?? bundle {
      let topic = measure ?? bundle
      return .init(
        .fault,
        must: "\(entry) with \"apns_topic\": \"\(topic)\"",
        effect: """
          the proxy takes the app for \(known.name) and sends to the topic \(known.apnsTopic ?? "of no app for iOS"): \
          Apple refuses that for a token of \(topic), and nothing arrives
          """)
    }
    let project = known.fcmProject ?? service.defaultProject
    let firebase = app[.firebaseProject].first { !$0.text.isEmpty && !Vendor.owns(.firebaseProject, $0.text) }
    if let firebase, let project, firebase.text != project, service.projects.contains(firebase.text) {
      return .init(
        .fault,
        must: "\(entry) with \"fcm_project\": \"\(firebase.text)\"",
        effect: """
          the proxy takes the app for \(known.name) and sends by the project \(project): Google refuses that for a token \
          of \(firebase.text), and nothing arrives
          """)
    }
    return .init(.good, "the proxy knows it as \(known.name)")
  }

  static func isOwn(_ group: Value) -> Bool {
    group.text.hasPrefix("group.") && !Vendor.owns(.group, group.text)
  }

  /// The groups of the other aspect that are one's own, and better those that this one does not have.
  func groups(of other: Aspect, but known: Aspect) -> String {
    let own = app[other].filter(Self.isOwn)
    let free = own.filter { group in !app[known].contains { $0.text == group.text } }
    return any((free.isEmpty ? own : free).map(\.text), or: "a group of your own team, group.NAME")
  }

  /// Judges a group that the code opens. What is wrong with the app's entitlements is said of them.
  func judge(group: Value) -> Judgement {
    guard Self.isOwn(group) else { return .init(.fault, must: "a name that begins with group.") }
    let isAppWrong = app.parts.contains {
      $0.isApp && ($0.groups.isEmpty || !$0.groups.allSatisfy(Self.isOwn))
    }
    guard !isAppWrong, !app[.entitledGroup].contains(where: { $0.text == group.text }),
      let own = app[.entitledGroup].first(where: Self.isOwn)
    else { return .good }
    return .init(.fault, must: "\(groups(of: .entitledGroup, but: .group)), as in \(own.file.text)")
  }
}
