import Foundation
import NIOCore

/// Who sends what: the present credentials, each with its connections and tokens.
struct Senders {
  /// What makes a signing key: the same key in two files has one token.
  private struct APNsKey: Hashable {
    let keyID: String
    let teamID: String
    let privateKey: String

    init(_ credential: APNsCredential) {
      (keyID, teamID, privateKey) = (credential.keyID, credential.teamID, credential.privateKey)
    }
  }

  private var apns: [APNsCredential: APNsSender] = [:]
  private var fcm: [FCMCredential: FCMSender] = [:]
  /// The topics of each, as its file lists them.
  private var listed: [APNsCredential: Set<String>] = [:]
  private var tokens: [APNsKey: TokenSource] = [:]
  private var topics: [String: RouteSender] = [:]
  private var projects: [String: RouteSender] = [:]
  private var defaultProject: String?

  /// All that can hold connections.
  var transports: [any Transport] {
    apns.values.map(\.authorized.transport) + fcm.values.map(\.authorized.transport)
  }

  /// What sends the push, if there is anything.
  func routeSender(for push: Push) -> RouteSender? {
    switch push {
    case .apns(let notification): topics[notification.topic]
    case .fcm(let message): (message.project ?? defaultProject).flatMap { projects[$0] }
    // Their hosts are none of the credentials'.
    case .webPush: nil
    }
  }

  /// All of them. A VoIP topic that nobody listed appears once it has been used.
  var routeSenders: [RouteSender] {
    (Array(topics.values) + Array(projects.values)).filter {
      $0.state != .unknown || !$0.route.target.hasSuffix(Self.voip)
    }
  }

  /// Takes these credentials; returns the transports that are no longer needed.
  mutating func use(_ credentials: Credentials, factory: TransportFactory) -> [any Transport] {
    let before = self
    self = Senders()
    for credential in credentials.apns {
      add(credential, before, factory)
    }
    // What a file lists itself goes before what follows from another's list.
    for credential in credentials.apns {
      for topic in credential.topics {
        add(topic + Self.voip, of: credential, before, factory)
      }
    }
    for credential in credentials.fcm {
      add(credential, before, factory)
    }
    defaultProject = credentials.defaultProject ?? credentials.fcm.first?.projectID
    for (identity, sender) in apns {
      // A connection serves the topics that its key had when it was opened.
      guard let known = before.listed[identity], !listed[identity, default: []].isSubset(of: known) else {
        continue
      }
      sender.authorized.transport.renew(through: nil)
    }
    return before.transports.filter { old in !transports.contains { $0 === old } }
  }

  private static let voip = ".voip"

  private mutating func add(_ credential: APNsCredential, _ before: Senders, _ factory: TransportFactory) {
    let identity = credential.identity
    if apns[identity] == nil {
      let key = APNsKey(credential)
      let source = tokens[key] ?? before.tokens[key] ?? factory.apnsTokens(credential)
      tokens[key] = source
      apns[identity] =
        before.apns[identity]
        ?? {
          let (transport, authority) = factory.apnsTransport(credential.environment)
          return APNsSender(
            authority: authority, authorized: AuthorizedTransport(transport: transport, tokens: source),
            now: factory.now)
        }()
    }
    listed[identity, default: []].formUnion(credential.topics)
    for topic in credential.topics { add(topic, of: credential, before, factory) }
  }

  private mutating func add(
    _ topic: String, of credential: APNsCredential, _ before: Senders, _ factory: TransportFactory
  ) {
    guard topics[topic] == nil, let sender = apns[credential.identity] else { return }
    let route = Route(provider: .apns, credential: credential.name, target: topic)
    let known = before.topics[topic].flatMap {
      $0.route == route && before.apns[credential.identity] != nil ? $0 : nil
    }
    topics[topic] = known ?? RouteSender(route, .apns(sender), factory)
  }

  private mutating func add(_ credential: FCMCredential, _ before: Senders, _ factory: TransportFactory) {
    guard projects[credential.projectID] == nil else { return }
    let known = before.fcm[credential]
    let sender =
      known
      ?? FCMSender(
        origin: factory.fcmOrigin, credential: credential,
        authorized: AuthorizedTransport(
          transport: factory.fcmTransport(), tokens: factory.fcmTokens(credential)),
        now: factory.now)
    fcm[credential] = sender
    let route = Route(provider: .fcm, credential: credential.name, target: credential.projectID)
    let routeSender = known == nil ? nil : before.projects[credential.projectID]
    projects[credential.projectID] = routeSender ?? RouteSender(route, .fcm(sender), factory)
  }
}

extension APNsCredential {
  /// The credential without its topics: what connections and tokens depend on.
  fileprivate var identity: APNsCredential {
    var identity = self
    identity.topics = []
    return identity
  }
}
