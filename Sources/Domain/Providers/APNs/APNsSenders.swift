import HTTPClient

struct APNsSenders: ProviderSenders {
  /// By ``APNsCredential/connectionKey``.
  private var senders: [APNsCredential: Sender] = [:]
  /// The topics that the files list for each.
  private var listed: [APNsCredential: Set<String>] = [:]
  /// By ``APNsCredential/tokenKey``: two files with the same key share a token.
  private var tokens: [APNsCredential: TokenSource] = [:]
  /// By topic, of each environment.
  private var topics: [APNsCredential.Environment: [String: RouteSender]] = [:]

  private static let voip = ".voip"

  var transports: [any Transport] { senders.values.map(\.transport) }
  var targets: [String] { topics.values.flatMap(\.keys) }

  /// Leaves out VoIP topics that are neither listed nor used.
  var routeSenders: [RouteSender] {
    topics.values.flatMap(\.values).filter {
      $0.state != .unknown || !$0.route.target.hasSuffix(Self.voip)
    }
  }

  func routeSender(for notification: APNsNotification) -> RouteSender? {
    guard let environment = notification.environment else { return routeSender(to: notification.topic) }
    return topics[environment]?[notification.topic]
  }

  /// In production, if a credential serves the topic there.
  func routeSender(to topic: String?) -> RouteSender? {
    topic.flatMap { topics[.production]?[$0] ?? topics[.sandbox]?[$0] }
  }

  /// The sender in the other environment than that of `sender`; nil if no credential serves the topic there.
  func otherSender(for notification: APNsNotification, than sender: RouteSender) -> RouteSender? {
    guard let environment = sender.environment else { return nil }
    return topics[environment == .production ? .sandbox : .production]?[notification.topic]
  }

  /// The environment of a route; nil if no present credential has it.
  func environment(of route: Route) -> APNsCredential.Environment? {
    topics.values.compactMap { $0[route.target] }.first { $0.route == route }?.environment
  }

  func serves(_ topic: String, in environment: APNsCredential.Environment) -> Bool {
    topics[environment]?[topic] != nil
  }

  /// A key that gains a topic keeps its token, but gets new connections, because the old ones do not serve the new topic.
  mutating func use(_ credentials: Credentials, _ factory: SenderFactory) {
    let before = self
    self = APNsSenders()
    for credential in credentials.apns {
      let key = credential.connectionKey
      let tokenKey = credential.tokenKey
      let source = tokens[tokenKey] ?? before.tokens[tokenKey] ?? factory.apnsTokens(credential)
      tokens[tokenKey] = source
      senders[key] =
        senders[key] ?? before.senders[key] ?? factory.apns(credential.environment, tokens: source)
      listed[key, default: []].formUnion(credential.topics)
    }
    let topics = credentials.apns.flatMap { credential in credential.topics.map { (credential, $0) } }
    // Listed topics take precedence over VoIP topics derived from another file's list.
    for (credential, topic) in topics + topics.map({ ($0, $1 + Self.voip) }) {
      let environment = credential.environment
      guard let sender = senders[credential.connectionKey], self.topics[environment]?[topic] == nil else {
        continue
      }
      self.topics[environment, default: [:]][topic] = Self.routeSender(
        to: topic, of: credential.name, over: sender, formerly: before.topics[environment]?[topic], factory)
    }
    for (key, sender) in senders {
      // A connection serves only the topics that its key had when it was opened.
      guard let known = before.listed[key], !listed[key, default: []].isSubset(of: known) else { continue }
      sender.transport.renew(through: nil)
    }
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

extension SenderFactory {
  fileprivate func apns(_ environment: APNsCredential.Environment, tokens: TokenSource) -> Sender {
    let host = environment == .production ? "api.push.apple.com" : "api.sandbox.push.apple.com"
    let origin = endpoint(of: .apns) ?? Origin(host: host)
    let transport = network.transport(to: ProviderPeer(provider: .apns, origin: origin))
    return Sender(
      provider: .apns, origin: origin, transport: transport, environment: environment,
      authority: .tokens(tokens), now: now)
  }

  /// The provider tokens of one key.
  fileprivate func apnsTokens(_ credential: APNsCredential) -> TokenSource {
    tokens(.apns, APNsProviderToken.limits) { [now] in
      APNsProviderToken.make(for: credential, now: now())
    }
  }
}
