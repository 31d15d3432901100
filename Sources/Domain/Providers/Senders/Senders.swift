import HTTPClient

/// The senders of all providers.
struct Senders {
  private var apns = APNsSenders()
  private var fcm = FCMSenders()
  /// Nil where Web Push is switched off.
  let hosts: WebPushHosts?
  /// Nil where there is no upstream bouncer.
  let upstream: RouteSender?

  init(hosts: WebPushHosts?, upstream: RouteSender?) {
    self.hosts = hosts
    self.upstream = upstream
  }

  /// Those that come from credentials; nil for a provider without.
  private func senders(of provider: Route.Provider) -> (any ProviderSenders)? {
    switch provider {
    case .apns: apns
    case .fcm: fcm
    case .webPush, .upstream: nil
    }
  }

  private var all: [any ProviderSenders] { Route.Provider.allCases.compactMap(senders) }

  var transports: [any Transport] { all.flatMap(\.transports) }

  /// All but those to push services, including unused ones.
  var routeSenders: [RouteSender] { all.flatMap(\.routeSenders) + (upstream.map { [$0] } ?? []) }

  /// The sender for a push; nil if no credential serves it.
  func routeSender(for push: Push) -> RouteSender? {
    switch push {
    case .apns(let notification): apns.routeSender(for: notification)
    case .fcm(let message): fcm.routeSender(to: message.project)
    // The hosts have them.
    case .webPush: nil
    case .upstream: upstream
    }
  }

  /// The sender to a target (nil: the default one), or to a push service that was used recently.
  func routeSender(_ provider: Route.Provider, _ target: String?) -> RouteSender? {
    switch provider {
    case .apns: apns.routeSender(to: target)
    case .fcm: fcm.routeSender(to: target)
    case .webPush: target.flatMap { hosts?.known($0) }
    case .upstream: upstream
    }
  }

  /// The sender for the push in APNs' other environment than that of `sender`; nil if no credential serves it.
  func otherSender(for push: Push, than sender: RouteSender) -> RouteSender? {
    guard case .apns(let notification) = push else { return nil }
    return apns.otherSender(for: notification, than: sender)
  }

  /// The environment of a route of APNs; nil if no present credential has it.
  func environment(of route: Route) -> APNsCredential.Environment? {
    route.provider == .apns ? apns.environment(of: route) : nil
  }

  /// Whether a credential serves the target of a route.
  ///
  /// - Parameter environment: of APNs; nil for either.
  func serves(_ route: Route, in environment: APNsCredential.Environment?) -> Bool {
    if let environment { return apns.serves(route.target, in: environment) }
    if route.isOfHost { return hosts != nil }
    return routeSender(route.provider, route.target.isEmpty ? nil : route.target) != nil
  }

  /// A target that a credential serves and that differs from this one only by upper and lower case.
  func alike(_ route: Route) -> String? {
    let key = route.target.lowercased()
    return senders(of: route.provider)?.targets.first { $0 != route.target && $0.lowercased() == key }
  }

  /// Replaces the credentials; returns the transports that are no longer needed.
  mutating func use(_ credentials: Credentials, factory: SenderFactory) -> [any Transport] {
    let before = transports
    for provider in Route.Provider.allCases {
      switch provider {
      case .apns: apns.use(credentials, factory)
      case .fcm: fcm.use(credentials, factory)
      case .webPush, .upstream: break
      }
    }
    let now = transports
    return before.filter { old in !now.contains { $0 === old } }
  }
}
