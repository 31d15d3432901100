import AsyncHTTPClient
package import Foundation
import NIOCore
import Synchronization

/// APNs and FCM behind one door: a push in, an ``Outcome`` out.
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

  let factory: TransportFactory
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

  /// For tests: with a clock, and with limits of their own.
  init(
    configuration: Configuration, pool: PoolLimits = .init(),
    connection: HTTP2ConnectionHandler.Limits = .init(),
    now: @escaping @Sendable () -> Date
  ) throws {
    factory = try TransportFactory(configuration: configuration, pool: pool, connection: connection, now: now)
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
    for transport in left {
      Task {
        await transport.shutdown(deadline: nil)
        state.withLock { state in state.leaving.removeAll { $0 === transport } }
      }
    }
  }

  /// What sends the push; nil, which is counted, where no credential serves its topic or project.
  package func routeSender(for push: Push) -> RouteSender? {
    let routeSender = state.withLock { $0.senders.routeSender(for: push) }
    if routeSender == nil { factory.metrics.unconfigured(push.provider) }
    return routeSender
  }

  /// The route that a push would take; nil if there is none.
  package func route(of push: Push) -> Route? { state.withLock { $0.senders.routeSender(for: push)?.route } }

  /// How long an answer is waited for after whoever waited for it has gone on without.
  package var answerPatience: Duration { .nanoseconds(factory.pool.patience.nanoseconds) }

  /// Sends one push and returns what became of it, or `retry(timeout)` at the deadline.
  package func send(_ push: Push, deadline: ContinuousClock.Instant) async -> Outcome {
    switch await routeSender(for: push)?.attempt(push, deadline: deadline) {
    case nil: return .misconfigured(.unconfigured)
    case .ended(let outcome): return outcome
    case .underWay(let answer):
      Task { _ = await answer() }
      return Outcome(TransportFailure.timeout)
    }
  }

  /// The senders of the present credentials, whether used yet or not.
  package var routeSenders: [RouteSender] { state.withLock { $0.senders.routeSenders } }

  /// The state of every route of the present credentials.
  package func routeStates() -> [Route: RouteState] {
    Dictionary(routeSenders.map { ($0.route, $0.state) }) { $1 }
  }

  /// Closes all connections after the requests in flight have ended, which get that much time. Those that have
  /// not are `retry(abandoned)`: nobody knows what becomes of them.
  package func shutdown(within limit: Duration = .seconds(60)) async {
    guard let transports = close() else { return }
    await Self.shutDown(transports, factory, deadline: .now() + TimeAmount(limit))
  }

  deinit {
    guard let transports = close() else { return }
    Task { [factory] in await Self.shutDown(transports, factory, deadline: nil) }
  }

  /// Takes no more pushes; returns what is to be shut down, the first time.
  private func close() -> [any Transport]? {
    state.withLock { state in
      defer { state.isShutDown = true }
      return state.isShutDown ? nil : state.leaving + state.senders.transports
    }
  }

  private static func shutDown(
    _ transports: [any Transport], _ factory: TransportFactory, deadline: NIODeadline?
  )
    async
  {
    await withTaskGroup { group in
      for transport in transports { group.addTask { await transport.shutdown(deadline: deadline) } }
    }
    try? await factory.client.shutdown()
  }
}

extension Push {
  package var provider: Route.Provider {
    switch self {
    case .apns: .apns
    case .fcm: .fcm
    }
  }
}
