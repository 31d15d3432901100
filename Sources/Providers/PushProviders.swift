package import Foundation
import NIOCore
import Synchronization

/// APNs, FCM and Web Push behind one door: a push in, an ``Outcome`` out.
package final class PushProviders: Sendable {
  /// The state of a route, for `/readyz`.
  package enum RouteState: Sendable, Hashable {
    /// Not used yet.
    case unknown
    /// The last answer was about a notification, not about the route.
    case ok
    /// Something is wrong with the route itself.
    case failing(Reason, since: Date)
    /// The same, so that requests are kept from it but for a probe now and then.
    case open(Reason, since: Date)
  }

  private let factory: SenderFactory
  /// Nil where Web Push is switched off.
  private let hosts: WebPushHosts?
  private let state = Mutex(State())

  private struct State {
    var senders = Senders()
    /// Transports of credentials that are gone, until their last request has ended.
    var leaving: [any Transport] = []
    var isShutDown = false
  }

  /// Prepares the clients; connects on first use.
  ///
  /// - Throws: ``ConfigurationError``.
  package convenience init(configuration: Configuration) throws {
    try self.init(configuration: configuration, now: { Date() })
  }

  /// With the providers played in this process.
  package convenience init(
    configuration: Configuration, over network: any ProviderNetwork, now: @escaping @Sendable () -> Date
  ) throws {
    try self.init(configuration: configuration, network: network, resolve: { _ in [] }, now: now)
  }

  /// - Parameters:
  ///   - network: nil: the internet, with these limits.
  ///   - mostHosts: how many push services are remembered.
  init(
    configuration: Configuration, network: (any ProviderNetwork)? = nil, pool: PoolLimits = .init(),
    connection: HTTP2ConnectionHandler.Limits = .init(), mostHosts: Int = WebPushHosts.most,
    resolve: @escaping @Sendable (String) async throws -> [String] = HostAddresses.resolvePresentOrFormer,
    now: @escaping @Sendable () -> Date
  ) throws {
    let metrics = ProviderMetrics()
    let network =
      try network ?? Internet(configuration, pool: pool, connection: connection, metrics: metrics)
    let factory = try SenderFactory(
      configuration: configuration, metrics: metrics, network: network, resolve: resolve, now: now)
    self.factory = factory
    hosts = configuration.webPush.map { webPush in
      metrics.prepare(.webPush)
      return WebPushHosts(most: mostHosts, factory: factory, webPush: webPush)
    }
  }

  /// Takes these credentials from now on. Requests in flight end with the ones they began with;
  /// credentials that did not change keep their connections and tokens. An APNs key with a topic more keeps its
  /// token, but not its connections: they do not serve the topic.
  package func use(_ credentials: Credentials) {
    if !credentials.apns.isEmpty { factory.metrics.prepare(.apns) }
    if !credentials.fcm.isEmpty { factory.metrics.prepare(.fcm) }
    let left = state.withLock { state -> [any Transport] in
      guard !state.isShutDown else { return [] }
      let left = state.senders.use(credentials, factory: factory)
      state.leaving += left
      return left
    }
    dismiss(left)
  }

  /// Closes transports that ``State/leaving`` has when their last request has ended.
  private func dismiss(_ transports: [any Transport]) {
    for transport in transports {
      Task {
        await transport.shutdown(deadline: nil)
        state.withLock { state in state.leaving.removeAll { $0 === transport } }
      }
    }
  }

  /// What sends the push; nil, which is counted, where no credential serves its topic or project.
  package func routeSender(for push: Push) -> RouteSender? {
    let routeSender = find(push)
    if routeSender == nil { factory.metrics.unconfigured(push.provider) }
    return routeSender
  }

  /// The route that a push would take; nil if there is none.
  package func route(of push: Push) -> Route? { find(push)?.route }

  private func find(_ push: Push) -> RouteSender? {
    guard case .webPush(let message) = push else {
      return state.withLock { $0.senders.routeSender(for: push) }
    }
    guard let hosts else { return nil }
    let (sender, left) = hosts.routeSender(for: message.subscription.endpoint)
    if !left.isEmpty {
      state.withLock { $0.leaving += left }
      dismiss(left)
    }
    return sender
  }

  /// How long an answer is waited for after whoever waited for it has gone on without.
  package var answerTimeout: Duration { factory.network.answerTimeout }

  /// Sends one push and returns what became of it, or `retry(timeout)` at the deadline.
  package func send(_ push: Push, deadline: ContinuousClock.Instant) async -> Outcome {
    switch await routeSender(for: push)?.attempt(push, of: .nobody, deadline: deadline) {
    case nil: return .misconfigured(.unconfigured)
    case .ended(let outcome): return outcome
    case .underWay(let answer):
      Task { _ = await answer() }
      return Outcome(TransportFailure.timeout)
    }
  }

  /// The senders of the present credentials, whether used yet or not; those of Web Push are ``webPushSenders``.
  package var routeSenders: [RouteSender] { state.withLock { $0.senders.routeSenders } }

  /// The state of every route of the present credentials.
  package func routeStates() -> [Route: RouteState] {
    Dictionary(routeSenders.map { ($0.route, $0.state) }) { $1 }
  }

  /// Closes all connections after the requests in flight have ended, which get that much time. Those that have
  /// not are `retry(abandoned)`: nobody knows what becomes of them.
  package func shutdown(within limit: Duration = .seconds(60)) async {
    guard let transports = close() else { return }
    await Self.shutDown(transports, deadline: .now() + TimeAmount(limit))
  }

  deinit {
    guard let transports = close() else { return }
    Task { await Self.shutDown(transports, deadline: nil) }
  }

  /// Takes no more pushes; returns what is to be shut down, the first time.
  private func close() -> [any Transport]? {
    state.withLock { state in
      defer { state.isShutDown = true }
      return state.isShutDown ? nil : state.leaving + state.senders.transports + (hosts?.close() ?? [])
    }
  }

  private static func shutDown(_ transports: [any Transport], deadline: NIODeadline?) async {
    await withTaskGroup { group in
      for transport in transports { group.addTask { await transport.shutdown(deadline: deadline) } }
    }
  }

  // MARK: Web Push

  /// The public key that apps subscribe with, in base64url; nil where Web Push is switched off.
  package var vapidPublicKey: String? { factory.webPush?.key.publicKey }

  /// Whether messages may be sent to a subscription's host: not where that is an address or a private name or has a
  /// private address, unless the operator has named it. A name that does not answer within two seconds is taken, as every
  /// connection is checked again.
  package func accepts(_ subscription: WebPushSubscription) async -> Bool {
    guard factory.webPush != nil else { return false }
    return await factory.webPushAddresses.allow(subscription.endpoint.host)
  }

  /// The senders of the push services that were used of late, at most 10,000.
  package var webPushSenders: [RouteSender] { hosts?.routeSenders ?? [] }
}

extension PushProviders {
  /// Where the providers are and how to trust them.
  package struct Configuration: Sendable {
    /// Instead of Apple's hosts: a simulator's `https` URL.
    package var apnsEndpoint: URL?
    /// FCM's URL, Google's where nil; with `http` the simulator is spoken to over HTTP/1.1 in clear.
    package var fcmEndpoint: URL?
    /// PEM file with a trust root besides the system's.
    package var caFile: String?
    /// HTTP CONNECT proxy, `http://[user:password@]host:port`.
    package var proxy: URL?
    /// What Web Push needs; nil: it is switched off.
    package var webPush: WebPush?

    /// Who sends to push services, and which of them may be at home.
    package struct WebPush: Sendable {
      /// The key pair that subscriptions are bound to.
      package var key: VAPIDKey
      /// `sub` of VAPID tokens: a `mailto:` or `https:` URL.
      package var contact: String
      /// Push services that may have private addresses, in lower case.
      package var privateHosts: Set<String>
      /// How many connections there may be to push services; a quarter of them to such as do not answer.
      package var connections: Int

      package init(
        key: VAPIDKey, contact: String, privateHosts: Set<String> = [], connections: Int = 1000
      ) {
        (self.key, self.contact) = (key, contact)
        (self.privateHosts, self.connections) = (privateHosts, connections)
      }
    }

    /// Apple's and Google's own endpoints unless told otherwise.
    package init(
      apnsEndpoint: URL? = nil, fcmEndpoint: URL? = nil, caFile: String? = nil, proxy: URL? = nil,
      webPush: WebPush? = nil
    ) {
      (self.apnsEndpoint, self.fcmEndpoint, self.webPush) = (apnsEndpoint, fcmEndpoint, webPush)
      (self.caFile, self.proxy) = (caFile, proxy)
    }
  }

  /// A configuration that cannot work.
  package struct ConfigurationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The configuration's.
    package let key: String
    package let advice: String

    package var description: String { "\(key): \(advice)" }
  }
}
