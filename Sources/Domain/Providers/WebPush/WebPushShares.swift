import Basics
import HTTPClient
import NIOCore
import Synchronization

/// Divides the connections to push services. Hosts that do not answer, or have not yet, share a part of them,
/// so that any number of them leaves the rest to hosts that work. One network gets at most a quarter of all
/// connections, and of that part, so that whoever names many ports of one machine only blocks that machine.
final class WebPushShares: Sendable {
  struct Limits: Sendable {
    /// Connections in all.
    var connections: Int
    /// Connections to hosts that have not answered their last request.
    var unproven: Int
    /// How long an idle connection is kept.
    var idle = TimeAmount.seconds(60)
    /// How long an idle connection is kept while more than half of all connections are in use.
    var idleInNeed = TimeAmount.seconds(5)
  }

  fileprivate struct State {
    /// What networks have of all connections, and of those to hosts that do not answer.
    var connections, unproven: SharedBudget<IPAddress>
    /// Pairs of an owner with requests under way and a host that does not answer.
    var unprovenRequests: SharedBudget<Owner>

    init(_ limits: Limits) {
      connections = SharedBudget(max(1, limits.connections), most: max(1, limits.connections / 4))
      unproven = SharedBudget(max(1, limits.unproven), most: max(1, limits.unproven / 4))
      unprovenRequests = SharedBudget(limits.unproven)
    }

    func hasRoom(for network: IPAddress?, isProven: Bool) -> Bool {
      connections.refusal(to: network) == nil && (isProven || unproven.refusal(to: network) == nil)
    }
  }

  fileprivate let limits: Limits
  fileprivate let state: Mutex<State>

  init(limits: Limits) {
    self.limits = limits
    state = Mutex(State(limits))
  }

  var connections: Int { state.withLock { $0.connections.total } }

  /// How long a connection may be idle at present.
  var idle: TimeAmount {
    state.withLock { $0.connections.total * 2 > limits.connections ? limits.idleInNeed : limits.idle }
  }
}

/// A push service: its permitted addresses, whether it answers, and its part of the shared connections.
final class WebPushHost: ConnectionGate {
  private struct State {
    var isProven = false
    /// Connections by network; nil for those of which it is not known.
    var connections: [IPAddress?: Int] = [:]
    /// Owners with requests under way, while it does not answer.
    var requestingOwners: Set<Owner> = []
  }

  /// A request to the host. Must be ended once.
  struct UnprovenRequest: Sendable {
    /// The owner that the request counts for; nil if the host answers, or the owner has another request to it.
    fileprivate let owner: Owner?
  }

  let shares: WebPushShares
  let addresses: WebPushAddresses
  /// Locked after the shares.
  private let state = Mutex(State())

  init(shares: WebPushShares, addresses: WebPushAddresses) {
    self.shares = shares
    self.addresses = addresses
  }

  private func with<Result: Sendable>(
    _ body: (inout WebPushShares.State, inout State) -> Result
  ) -> Result {
    shares.state.withLock { shared in state.withLock { own in body(&shared, &own) } }
  }

  var hasRoom: Bool { with { $0.hasRoom(for: nil, isProven: $1.isProven) } }

  func addresses(of host: String) async throws -> [String] { try await addresses.addresses(of: host) }

  func takeConnection(to network: IPAddress?) -> (@Sendable () -> Void)? {
    let isTaken = with { shared, own in
      guard shared.hasRoom(for: network, isProven: own.isProven) else { return false }
      count(1, in: network, &shared, &own)
      return true
    }
    guard isTaken else { return nil }
    return { @Sendable in self.with { self.count(-1, in: network, &$0, &$1) } }
  }

  private func count(
    _ change: Int, in network: IPAddress?, _ shared: inout WebPushShares.State, _ own: inout State
  ) {
    shared.connections.add(change, of: network)
    if !own.isProven { shared.unproven.add(change, of: network) }
    let rest = own.connections[network, default: 0] + change
    own.connections[network] = rest > 0 ? rest : nil
  }

  /// Begins a request to the host; nil if its owner has requests to too many hosts that do not answer.
  func begin(for owner: Owner) -> UnprovenRequest? {
    with { shared, own in
      guard !own.isProven, !own.requestingOwners.contains(owner) else { return UnprovenRequest(owner: nil) }
      guard shared.unprovenRequests.take(of: owner) else { return nil }
      own.requestingOwners.insert(owner)
      return UnprovenRequest(owner: owner)
    }
  }

  func end(_ request: UnprovenRequest) {
    guard let owner = request.owner else { return }
    with { shared, own in
      own.requestingOwners.remove(owner)
      shared.unprovenRequests.release(of: owner)
    }
  }

  /// Records whether the host answered its last request.
  func record(isProven: Bool) {
    with { shared, own in
      guard own.isProven != isProven else { return }
      own.isProven = isProven
      let sign = isProven ? -1 : 1
      for (network, count) in own.connections { shared.unproven.add(sign * count, of: network) }
    }
  }

  func record(_ outcome: Outcome, from source: Outcome.Source) {
    switch (source, outcome) {
    case (.provider, _): record(isProven: true)
    case (.transport, .retry(_, _, .caller)), (.ourselves, _): break
    case (.transport, _): record(isProven: false)
    }
  }
}
