import HTTPClient

/// The senders of the present credentials, with their connections and tokens.
struct Senders {
  /// By ``APNsCredential/connectionKey``.
  private var apns: [APNsCredential: Sender] = [:]
  /// The topics that the files list for each.
  private var listed: [APNsCredential: Set<String>] = [:]
  /// By ``APNsCredential/tokenKey``: two files with the same key share a token.
  private var tokens: [APNsCredential: TokenSource] = [:]
  private var fcm: [FCMCredential: Sender] = [:]
  /// By topic, of each environment.
  private var topics: [APNsCredential.Environment: [String: RouteSender]] = [:]
  /// By project.
  private var projects: [String: RouteSender] = [:]
  private var defaultProject: String?

  private static let voip = ".voip"

  private subscript(topicsIn environment: APNsCredential.Environment) -> [String: RouteSender] {
    get { topics[environment] ?? [:] }
    set { topics[environment] = newValue }
  }

  var transports: [any Transport] { apns.values.map(\.transport) + fcm.values.map(\.transport) }

  /// The sender for a push; nil if no credential serves it.
  func routeSender(for push: Push) -> RouteSender? {
    switch push {
    case .apns(let notification):
      if let environment = notification.environment {
        topics[environment]?[notification.topic]
      } else {
        routeSender(.apns, notification.topic)
      }
    case .fcm(let message): routeSender(.fcm, message.project)
    // Handled by ``WebPushHosts`` and ``PushProviders``.
    case .webPush, .upstream: nil
    }
  }

  /// The sender for the push in APNs' other environment than that of `sender`; nil if no credential serves it.
  func otherSender(for push: Push, than sender: RouteSender) -> RouteSender? {
    guard case .apns(let notification) = push, let environment = sender.environment else { return nil }
    return topics[environment == .production ? .sandbox : .production]?[notification.topic]
  }

  /// The environment of a route of APNs; nil if no present credential has it.
  func environment(of route: Route) -> APNsCredential.Environment? {
    topics.values.compactMap { $0[route.target] }.first { $0.route == route }?.environment
  }

  /// The sender for a topic (in production, if a credential serves it there) or project; nil means the default
  /// project.
  func routeSender(_ provider: Route.Provider, _ target: String?) -> RouteSender? {
    switch provider {
    case .apns: target.flatMap { topics[.production]?[$0] ?? topics[.sandbox]?[$0] }
    case .fcm: (target ?? defaultProject).flatMap { projects[$0] }
    case .webPush, .upstream: nil
    }
  }

  func serves(_ topic: String, in environment: APNsCredential.Environment) -> Bool {
    topics[environment]?[topic] != nil
  }

  /// A topic or project that differs from this one only by upper and lower case.
  func alike(_ provider: Route.Provider, _ target: String) -> String? {
    let known = provider == .apns ? topics.values.flatMap(\.keys) : Array(projects.keys)
    let key = target.lowercased()
    return known.first { $0 != target && $0.lowercased() == key }
  }

  /// All senders. Leaves out VoIP topics that are neither listed nor used.
  var routeSenders: [RouteSender] {
    (topics.values.flatMap(\.values) + Array(projects.values)).filter {
      $0.state != .unknown || !$0.route.target.hasSuffix(Self.voip)
    }
  }

  /// Replaces the credentials; returns the transports that are no longer needed.
  mutating func use(_ credentials: Credentials, factory: SenderFactory) -> [any Transport] {
    let before = self
    self = Senders()
    defaultProject = credentials.defaultProject ?? credentials.fcm.first?.projectID
    for credential in credentials.apns {
      let key = credential.connectionKey
      let tokenKey = credential.tokenKey
      let source = tokens[tokenKey] ?? before.tokens[tokenKey] ?? factory.apnsTokens(credential)
      tokens[tokenKey] = source
      apns[key] = apns[key] ?? before.apns[key] ?? factory.apns(credential.environment, tokens: source)
      listed[key, default: []].formUnion(credential.topics)
    }
    let topics = credentials.apns.flatMap { credential in credential.topics.map { (credential, $0) } }
    // Listed topics take precedence over VoIP topics derived from another file's list.
    for (credential, topic) in topics + topics.map({ ($0, $1 + Self.voip) }) {
      guard let sender = apns[credential.connectionKey] else { continue }
      add(
        credential.name, topic, over: sender, to: \.[topicsIn: credential.environment], before,
        factory)
    }
    for credential in credentials.fcm where projects[credential.projectID] == nil {
      let sender = before.fcm[credential] ?? factory.fcm(credential)
      fcm[credential] = sender
      add(credential.name, credential.projectID, over: sender, to: \.projects, before, factory)
    }
    for (key, sender) in apns {
      // A connection serves only the topics that its key had when it was opened.
      guard let known = before.listed[key], !listed[key, default: []].isSubset(of: known) else { continue }
      sender.transport.renew(through: nil)
    }
    return before.transports.filter { old in !transports.contains { $0 === old } }
  }

  private mutating func add(
    _ credential: String, _ target: String, over sender: Sender,
    to routes: WritableKeyPath<Senders, [String: RouteSender]>, _ before: Senders, _ factory: SenderFactory
  ) {
    guard self[keyPath: routes][target] == nil else { return }
    let route = Route(provider: sender.provider, credential: credential, target: target)
    let known = before[keyPath: routes][target]
    let isKept = known?.route == route && known?.transport === sender.transport
    self[keyPath: routes][target] = isKept ? known : RouteSender(route, sender, factory.metrics)
  }
}

extension APNsCredential {
  /// The credential without its topics: connections depend on everything else.
  fileprivate var connectionKey: APNsCredential {
    var key = self
    key.topics = []
    return key
  }

  /// The signing key alone, without name, environment and topics.
  fileprivate var tokenKey: APNsCredential {
    var key = connectionKey
    key.name = ""
    key.environment = .production
    return key
  }
}
