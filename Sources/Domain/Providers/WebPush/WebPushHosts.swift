import Basics
import HTTPClient
import NIOCore
import Synchronization

/// The recently used push services, with their connections and health. If there are too many, a tenth of them is
/// forgotten: first those that do not work, then the least recently used.
final class WebPushHosts: Sendable {
  /// Number of push services that are kept.
  static let capacity = 10_000

  private struct Host {
    let sender: RouteSender
    var lastUsed: Int
  }

  private struct State {
    var hosts: [String: Host] = [:]
    var uses = 0
    var isClosed = false

    /// Removes a tenth of the hosts.
    mutating func makeRoom() -> [any Transport] {
      let ranked = hosts.map { (authority: $0, host: $1, works: $1.sender.state == .ok) }
      let removed = ranked.sorted {
        $0.works == $1.works ? $0.host.lastUsed < $1.host.lastUsed : !$0.works
      }.prefix(hosts.count / 10 + 1)
      for (authority, _, _) in removed { hosts[authority] = nil }
      return removed.map(\.host.sender.transport)
    }
  }

  private let capacity: Int
  private let factory: SenderFactory
  private let webPush: PushProviders.Configuration.WebPush
  private let shares: WebPushShares
  private let addresses: WebPushAddresses
  private let state = Mutex(State())

  init(
    capacity: Int, factory: SenderFactory, webPush: PushProviders.Configuration.WebPush,
    resolve: @escaping @Sendable (String) async throws -> [String]
  ) {
    self.capacity = capacity
    self.factory = factory
    self.webPush = webPush
    shares = WebPushShares(
      limits: .init(connections: webPush.connections, unproven: webPush.connections / 4))
    addresses = WebPushAddresses(privateHosts: webPush.privateHosts, resolve: resolve)
    factory.metrics.prepare(.webPush)
  }

  /// The public key that apps subscribe with, in base64url.
  var publicKey: String { webPush.key.publicKey }

  func accepts(_ subscription: WebPushSubscription) async -> Bool {
    await addresses.allow(subscription.endpoint.host)
  }

  private func makeSender(for endpoint: WebPushEndpoint) -> RouteSender {
    let origin = Origin(host: endpoint.host, port: endpoint.port)
    let host = WebPushHost(shares: shares, addresses: addresses)
    let sender = Sender(
      provider: .webPush, origin: origin,
      transport: factory.network.transport(
        to: ProviderPeer(provider: .webPush, origin: origin, webPush: host)),
      authority: .tokens(
        factory.tokens(.webPush, VAPIDToken.limits) { [webPush, now = factory.now] in
          VAPIDToken.make(for: endpoint.origin, by: webPush, now: now())
        }),
      neverResolves: addresses.neverResolves(endpoint.host), now: factory.now)
    return RouteSender(
      Route(provider: .webPush, credential: endpoint.authority, target: ""), sender, factory.metrics,
      host: host)
  }

  /// The sender for a push, and the transports to close: those of hosts that were removed for it, and
  /// after ``close()`` its own. Nil for other providers' pushes.
  func routeSender(for push: Push) -> (sender: RouteSender, retired: [any Transport])? {
    guard case .webPush(let message) = push else { return nil }
    let endpoint = message.subscription.endpoint
    return state.withLock { state in
      state.uses += 1
      if let sender = state.hosts[endpoint.authority]?.sender {
        state.hosts[endpoint.authority]?.lastUsed = state.uses
        return (sender, [])
      }
      var retired = state.hosts.count >= capacity ? state.makeRoom() : []
      let sender = makeSender(for: endpoint)
      if state.isClosed {
        sender.transport.close()
        retired.append(sender.transport)
      }
      state.hosts[endpoint.authority] = Host(sender: sender, lastUsed: state.uses)
      return (sender, retired)
    }
  }

  /// The sender of a push service that was used recently.
  func known(_ authority: String) -> RouteSender? { state.withLock { $0.hosts[authority]?.sender } }

  var routeSenders: [RouteSender] { state.withLock { $0.hosts.values.map(\.sender) } }

  /// Takes no more hosts. Returns the transports of all.
  func close() -> [any Transport] {
    state.withLock { state in
      state.isClosed = true
      return state.hosts.values.map(\.sender.transport)
    }
  }
}

/// Decides which push services may be called, and at which addresses. Their names come from untrusted devices.
struct WebPushAddresses: Sendable {
  /// How long a registration waits for the lookup of a name.
  private static let lookupTimeout = Duration.seconds(2)
  /// Endings of names that exist in local networks only.
  private static let privateEndings = [".localhost", ".local", ".internal", ".lan", ".home.arpa"]

  /// Endings of names that no name server ever knows (RFC 6761, RFC 7686).
  private static let reservedEndings = [".invalid", ".test", ".example", ".onion"]

  /// Hosts that may have any address, in lower case.
  let privateHosts: Set<String>
  let resolve: @Sendable (String) async throws -> [String]

  /// Whether a subscription on this host may be registered. Accepts a name that does not resolve, because it
  /// is looked up again for each connection.
  func allow(_ host: String) async -> Bool {
    guard !privateHosts.contains(host) else { return true }
    guard !Self.isPrivateName(host), !Self.isReserved(host) else { return false }
    guard let addresses = try? await withTimeout(Self.lookupTimeout, { try await resolve(host) }) else {
      return true
    }
    return addresses.allSatisfy { IPAddress($0)?.isPublic == true }
  }

  /// The addresses to connect to.
  ///
  /// - Throws: ``OutgoingClient/HostError``, or ``LookupsExhausted``.
  func addresses(of host: String) async throws -> [String] {
    let isTrusted = privateHosts.contains(host)
    guard isTrusted || !Self.isPrivateName(host) && !Self.isReserved(host) else {
      throw OutgoingClient.HostError.forbiddenAddress
    }
    return try HostAddresses.callable(try await resolve(host)) { address in
      isTrusted || IPAddress(address)?.isPublic == true
    }
  }

  /// Whether a host can never be found, so that what is sent there would wait in vain for ever.
  func neverResolves(_ host: String) -> Bool { !privateHosts.contains(host) && Self.isReserved(host) }

  private static func isReserved(_ host: String) -> Bool {
    reservedEndings.contains { host.hasSuffix($0) }
  }

  /// Whether a host is an address, in any spelling, or a name of local networks only.
  static func isPrivateName(_ host: String) -> Bool {
    guard !host.contains(":"), let dot = host.lastIndex(of: ".") else { return true }
    // Many resolvers take a name whose last label is a number for an address: 127.1, 0x7f.1.
    let last = host[host.index(after: dot)...]
    return last.utf8.allSatisfy(\.isDigit) || last.hasPrefix("0x")
      || privateEndings.contains { host.hasSuffix($0) }
  }
}
