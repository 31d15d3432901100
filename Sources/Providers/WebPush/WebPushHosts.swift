import NIOCore
import Synchronization
import Timing

/// The push services that were used of late, each with its connections and its health. When there are too many some go, and
/// what was learned about them goes along: those that do not work before those that do, of these the ones that were not
/// used for longest.
final class WebPushHosts: Sendable {
  /// So many are known at a time.
  static let most = 10_000

  private struct Host {
    let sender: RouteSender
    let transport: any Transport
    var lastUsed: Int
  }

  private struct State {
    var hosts: [String: Host] = [:]
    var uses = 0
    var isClosed = false

    /// Takes out a tenth of all.
    mutating func makeRoom() -> [any Transport] {
      let ranked = hosts.map { authority, host in
        (authority: authority, host: host, works: host.sender.state == .ok)
      }
      let leaving = ranked.sorted {
        $0.works == $1.works ? $0.host.lastUsed < $1.host.lastUsed : !$0.works
      }.prefix(hosts.count / 10 + 1)
      for (authority, _, _) in leaving { hosts[authority] = nil }
      return leaving.map(\.host.transport)
    }
  }

  private let most: Int
  private let make: @Sendable (WebPushEndpoint) -> (RouteSender, any Transport)
  private let state = Mutex(State())

  /// - Parameter make: makes a host's sender.
  init(
    most: Int = WebPushHosts.most,
    make: @escaping @Sendable (WebPushEndpoint) -> (RouteSender, any Transport)
  ) {
    self.most = most
    self.make = make
  }

  /// What sends to an endpoint, and the transports that are to be closed: of those that had to go for it, and after
  /// ``close()`` its own.
  func routeSender(for endpoint: WebPushEndpoint) -> (sender: RouteSender, left: [any Transport]) {
    state.withLock { state in
      state.uses += 1
      if let sender = state.hosts[endpoint.authority]?.sender {
        state.hosts[endpoint.authority]?.lastUsed = state.uses
        return (sender, [])
      }
      var left = state.hosts.count >= most ? state.makeRoom() : []
      let (sender, transport) = make(endpoint)
      if state.isClosed { left.append(transport) }
      state.hosts[endpoint.authority] = Host(sender: sender, transport: transport, lastUsed: state.uses)
      return (sender, left)
    }
  }

  var routeSenders: [RouteSender] { state.withLock { $0.hosts.values.map(\.sender) } }

  /// Takes no more messages; the transports of all hosts.
  func close() -> [any Transport] {
    state.withLock { state in
      state.isClosed = true
      return state.hosts.values.map(\.transport)
    }
  }
}

/// What is known of a push service beyond the health of its route: whether it has proven itself.
struct WebPushHost: Sendable {
  let shares: WebPushShares
  let standing: WebPushShares.Standing

  init(shares: WebPushShares) {
    self.shares = shares
    standing = shares.standing()
  }

  /// It has answered, or has not.
  func note(_ outcome: Outcome, from source: Outcome.Source) {
    switch (source, outcome) {
    case (.provider, _): shares.note(standing, isProven: true)
    case (.transport, .retry(_, _, .caller)), (.ourselves, _): break
    case (.transport, _): shares.note(standing, isProven: false)
    }
  }
}

extension PushProviders {
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

/// What names meant when they last answered, for when name servers have no time: many dead hosts keep those who ask busy,
/// and are to hold up nobody who was there before.
final class FormerAddresses: Sendable {
  /// So many names are remembered, twice over.
  private static let most = WebPushHosts.most

  private struct State {
    var late: [String: [String]] = [:]
    var early: [String: [String]] = [:]
  }

  private let state = Mutex(State())

  /// A name's addresses; nil for one that has not answered.
  subscript(name: String) -> [String]? { state.withLock { $0.late[name] ?? $0.early[name] } }

  /// A name has answered. That it has no address is not kept: name servers that are away look like that, too.
  func note(_ addresses: [String], of name: String) {
    guard !addresses.isEmpty else { return }
    state.withLock { state in
      if state.late.count >= Self.most { (state.early, state.late) = (state.late, [:]) }
      state.late[name] = addresses
    }
  }
}

/// Which push services may be called, and at which addresses. Their names come from strangers.
struct WebPushAddresses: Sendable {
  /// Why a host is not called.
  enum Refusal: Error {
    /// The name has no address.
    case unknown
    /// It has one that must not be called, or is one.
    case forbidden
  }

  /// How long a registration waits for what a name means.
  private static let lookupTimeout = Duration.seconds(2)
  /// How long a connection waits for what a name means that has answered before.
  private static let connectTimeout = Duration.milliseconds(300)
  /// How long such a name may take to answer for the next connection.
  private static let refreshTimeout = Duration.seconds(10)
  /// As many addresses of a name are tried.
  private static let most = 3
  /// Endings of names that mean nothing outside of a house.
  private static let privateEndings = [".localhost", ".local", ".internal", ".lan", ".home.arpa"]

  /// Those that may be anywhere, in lower case.
  let privateHosts: Set<String>
  let resolve: @Sendable (String) async throws -> [String]
  private let former = FormerAddresses()

  init(privateHosts: Set<String>, resolve: @escaping @Sendable (String) async throws -> [String]) {
    self.privateHosts = privateHosts
    self.resolve = resolve
  }

  /// Whether a subscription on this host may be registered. A name that does not answer is taken: it is looked up again
  /// for each connection.
  func allow(_ host: String) async -> Bool {
    guard !privateHosts.contains(host) else { return true }
    guard !Self.isPrivateName(host) else { return false }
    guard let addresses = try? await withTimeout(Self.lookupTimeout, { try await resolve(host) }) else {
      return true
    }
    return addresses.allSatisfy { IPAddress($0)?.isPublic == true }
  }

  /// Where to connect to: no address but those that are looked at here. Where a name that has answered before does not
  /// at once, they are those that it had then.
  ///
  /// - Throws: ``Refusal``, or `LookupsExhausted`.
  func addresses(of host: String) async throws -> [String] {
    let isTrusted = privateHosts.contains(host)
    guard isTrusted || !Self.isPrivateName(host) else { throw Refusal.forbidden }
    let addresses = try await lookUp(host)
    guard !addresses.isEmpty else { throw Refusal.unknown }
    // One forbidden address spoils a name: a public host has none.
    guard isTrusted || addresses.allSatisfy({ IPAddress($0)?.isPublic == true }) else {
      throw Refusal.forbidden
    }
    return Array(addresses.prefix(Self.most))
  }

  private func lookUp(_ host: String) async throws -> [String] {
    guard let known = former[host] else {
      let addresses = try await resolve(host)
      former.note(addresses, of: host)
      return addresses
    }
    // Goes on when nobody waits any more, for the next time; not for long, as others want to ask, too.
    Task {
      guard let addresses = try? await withTimeout(Self.refreshTimeout, { try await resolve(host) }) else {
        return
      }
      former.note(addresses, of: host)
    }
    return (try? await withTimeout(Self.connectTimeout) { try await resolve(host) }) ?? known
  }

  /// Whether a host is an address, however spelled, or has a name that means nothing outside.
  static func isPrivateName(_ host: String) -> Bool {
    guard !host.contains(":"), let dot = host.lastIndex(of: ".") else { return true }
    // What ends in a number is an address to many a resolver: 127.1, 0x7f.1.
    let last = host[host.index(after: dot)...]
    return last.utf8.allSatisfy { (0x30...0x39).contains($0) } || last.hasPrefix("0x")
      || privateEndings.contains { host.hasSuffix($0) }
  }
}
