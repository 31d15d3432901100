import Basics
package import Foundation
package import HTTPClient
import NIOCore
import Synchronization

/// Sends pushes to the providers and returns an ``Outcome`` for each.
package final class PushProviders: Sendable {
  /// The state of a route, for `/readyz`.
  package enum RouteState: Sendable, Hashable {
    /// No request has been sent over it yet.
    case unknown
    /// The last answer was about a notification, not about the route.
    case ok
    /// Requests fail because of the route.
    case failing(Reason, since: Date)
    /// Requests fail, and the breaker is open: only a probe goes out now and then.
    case open(Reason, since: Date)
  }

  private let factory: SenderFactory
  /// Nil where Web Push is switched off.
  let hosts: WebPushHosts?
  /// The upstream bouncer; nil where there is none.
  package let upstream: RouteSender?
  private let state: Mutex<State>

  private struct State {
    var senders: Senders
    /// Transports of removed credentials, kept until their last request has ended.
    var retiring: [any Transport] = []
    var isShutDown = false
  }

  /// Prepares the clients; connects on first use.
  ///
  /// - Throws: ``ConfigurationError``.
  package convenience init(configuration: Configuration) throws {
    try self.init(configuration: configuration, now: { Date() })
  }

  /// Sends over a simulated network in this process.
  package convenience init(
    configuration: Configuration, over network: any ProviderNetwork, now: @escaping @Sendable () -> Date
  ) throws {
    try self.init(configuration: configuration, network: network, resolve: { _ in [] }, now: now)
  }

  /// - Parameters:
  ///   - network: nil for the internet, with the limits in `pool` and `connection`.
  ///   - hostCapacity: how many push services are remembered.
  init(
    configuration: Configuration, network: (any ProviderNetwork)? = nil, pool: PoolLimits = .init(),
    connection: HTTP2ConnectionHandler.Limits = .init(), hostCapacity: Int = WebPushHosts.capacity,
    resolve: @escaping @Sendable (String) async throws -> [String] = HostAddresses.resolvePresentOrFormer,
    now: @escaping @Sendable () -> Date
  ) throws {
    let metrics = ProviderMetrics()
    let network =
      try network ?? Internet(configuration, pool: pool, connection: connection, metrics: metrics)
    let factory = try SenderFactory(
      configuration: configuration, metrics: metrics, network: network, now: now)
    self.factory = factory
    hosts = configuration.webPush.map {
      WebPushHosts(capacity: hostCapacity, factory: factory, webPush: $0, resolve: resolve)
    }
    upstream = try configuration.upstream.map(factory.upstream)
    state = Mutex(State(senders: Senders(hosts: hosts, upstream: upstream)))
  }

  /// Replaces the credentials. Requests in flight end with the old ones; unchanged credentials keep their
  /// connections and tokens.
  package func use(_ credentials: Credentials) {
    for provider in Route.Provider.allCases where !credentials[provider].isEmpty {
      factory.metrics.prepare(provider)
    }
    let retired = state.withLock { state -> [any Transport] in
      guard !state.isShutDown else { return [] }
      let retired = state.senders.use(credentials, factory: factory)
      state.retiring += retired
      return retired
    }
    closeRetired(retired)
  }

  /// Closes transports in ``State/retiring`` after their last request.
  private func closeRetired(_ transports: [any Transport]) {
    for transport in transports {
      Task {
        await transport.shutdown(deadline: nil)
        state.withLock { state in state.retiring.removeAll { $0 === transport } }
      }
    }
  }

  /// The sender for a push; nil, which is counted, if no credential serves its topic or project.
  package func routeSender(for push: Push) -> RouteSender? {
    let routeSender = find(push)
    if routeSender == nil { factory.metrics.unconfigured(push.provider) }
    return routeSender
  }

  package func route(of push: Push) -> Route? { find(push)?.route }

  /// The sender for a push in APNs' other environment than that of `sender`; nil if no credential serves it.
  package func otherSender(for push: Push, than sender: RouteSender) -> RouteSender? {
    guard sender.environment != nil else { return nil }
    return state.withLock { $0.senders.otherSender(for: push, than: sender) }
  }

  /// The environment of a route of APNs; nil if no present credential has it.
  package func environment(of route: Route) -> APNsCredential.Environment? {
    state.withLock { $0.senders.environment(of: route) }
  }

  private func find(_ push: Push) -> RouteSender? {
    guard push.provider.definition.hasHosts else {
      return state.withLock { $0.senders.routeSender(for: push) }
    }
    guard let (sender, retired) = hosts?.routeSender(for: push) else { return nil }
    if !retired.isEmpty {
      state.withLock { $0.retiring += retired }
      closeRetired(retired)
    }
    return sender
  }

  /// How long an answer is still awaited after its caller has stopped waiting at the deadline.
  package var answerTimeout: Duration { factory.network.answerTimeout }

  /// Sends one push and returns its outcome, or `retry(timeout)` at the end of the limit.
  package func sendOnce(_ push: Push, within limit: Duration) async -> Outcome {
    let deadline = NIODeadline.now() + TimeAmount(limit)
    switch await routeSender(for: push)?.attempt(push, of: .nobody, deadline: deadline) {
    case nil: return .misconfigured(.unconfigured)
    case .ended(let answer): return answer.outcome
    case .underWay(let answer):
      Task { _ = await answer() }
      return Outcome(TransportFailure.timeout)
    }
  }

  /// The senders of the present credentials and ``upstream``, including unused ones, without ``webPushSenders``.
  package var routeSenders: [RouteSender] { state.withLock { $0.senders.routeSenders } }

  /// The sender to a topic, a project (nil: the default one), a push service that was used recently, or the
  /// upstream bouncer; nil if there is none.
  package func routeSender(_ provider: Route.Provider, target: String?) -> RouteSender? {
    state.withLock { $0.senders.routeSender(provider, target) }
  }

  /// Whether a credential serves the target of a route, which may name another credential or none.
  ///
  /// - Parameter environment: of APNs; nil for either.
  package func serves(_ route: Route, in environment: APNsCredential.Environment? = nil) -> Bool {
    state.withLock { $0.senders.serves(route, in: environment) }
  }

  /// A target that a credential serves and that differs from this one only by upper and lower case.
  package func targetAlike(_ route: Route) -> String? { state.withLock { $0.senders.alike(route) } }

  /// The key exchange of the latest connection to a provider; nil if there was none.
  package func keyExchange(_ provider: Route.Provider) -> KeyExchange? {
    factory.metrics.keyExchange(provider)
  }

  package func routeStates() -> [Route: RouteState] {
    Dictionary(routeSenders.map { ($0.route, $0.state) }) { $1 }
  }

  /// Waits up to `limit` for the requests in flight, then closes all connections. A request that has no
  /// answer by then ends as `retry(abandoned)`: whether the provider took it is unknown.
  package func shutdown(within limit: Duration = .seconds(60)) async {
    guard let transports = close() else { return }
    await Self.shutDown(transports, deadline: .now() + TimeAmount(limit))
  }

  deinit {
    guard let transports = close() else { return }
    Task { await Self.shutDown(transports, deadline: nil) }
  }

  /// Refuses pushes from now on.
  ///
  /// - Returns: the transports to shut down; nil after the first call.
  private func close() -> [any Transport]? {
    state.withLock { state in
      defer { state.isShutDown = true }
      let others = (hosts?.close() ?? []) + (upstream.map { [$0.transport] } ?? [])
      return state.isShutDown ? nil : state.retiring + state.senders.transports + others
    }
  }

  private static func shutDown(_ transports: [any Transport], deadline: NIODeadline?) async {
    await withTaskGroup { group in
      for transport in transports { group.addTask { await transport.shutdown(deadline: deadline) } }
    }
  }

  // MARK: Web Push

  /// The public key that apps subscribe with, in base64url; nil where Web Push is switched off.
  package var vapidPublicKey: String? { hosts?.publicKey }

  /// Whether a subscription on this host may be registered. Refuses addresses, private names and names with a
  /// private address, unless the operator allows the host. Accepts a name that does not resolve within two
  /// seconds, because addresses are checked again for every connection.
  package func accepts(_ subscription: WebPushSubscription) async -> Bool {
    await hosts?.accepts(subscription) ?? false
  }

  /// Whether there are push services: Web Push is on.
  package var hasHosts: Bool { hosts != nil }

  /// The senders of recently used push services, at most 10,000.
  package var webPushSenders: [RouteSender] { hosts?.routeSenders ?? [] }
}

extension PushProviders {
  /// Where the providers are and how to trust them.
  package struct Configuration: Sendable {
    /// Replace the providers' hosts, for example by a simulator's. An `http` URL is for the simulator and uses unencrypted
    /// HTTP/1.1.
    package var endpoints: [Route.Provider: URL]
    /// PEM file with a trust root besides the system's.
    package var caFile: String?
    /// HTTP CONNECT proxy, `http://[user:password@]host:port`.
    package var proxy: URL?
    /// Nil if Web Push is switched off.
    package var webPush: WebPush?
    /// Nil if there is no upstream bouncer.
    package var upstream: Upstream?

    /// Uses the providers' own endpoints by default.
    package init(
      endpoints: [Route.Provider: URL?] = [:], caFile: String? = nil, proxy: URL? = nil,
      webPush: WebPush? = nil
    ) {
      self.endpoints = endpoints.compactMapValues(\.self)
      self.webPush = webPush
      self.caFile = caFile
      self.proxy = proxy
    }
  }

  package struct ConfigurationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The name of the setting.
    package let key: String
    package let advice: String

    package var description: String { "\(key): \(advice)" }
  }
}

extension PushProviders.ConfigurationError: Readable {}
