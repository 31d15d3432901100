import NIOCore
import Synchronization

/// Who may have how many of the connections to push services. Hosts that have not answered, or no longer do, share a part
/// of them: however many there are, they leave the rest to those that work. Nobody has more than a quarter of all, or of
/// that part: whoever names many ports of one machine gets refusals, and not the others.
final class WebPushShares: Sendable {
  struct Limits: Sendable {
    /// Connections in all.
    var connections: Int
    /// Connections to hosts that have not answered their last request.
    var unproven: Int
    /// How long a connection that nobody uses is kept,
    var idle = TimeAmount.seconds(60)
    /// and where more than half of all are in use.
    var idleInNeed = TimeAmount.seconds(5)

    /// What one holder may have of them.
    fileprivate var perHolder: Counts {
      Counts(connections: max(1, connections / 4), unproven: max(1, unproven / 4))
    }
  }

  /// Whom connections are counted for, besides the host. Each connection has one of each kind at most.
  enum Holder: Sendable, Hashable {
    /// Where it leads: an IPv4 address, or an IPv6 network of 64 bits.
    case network(IPAddress)
  }

  /// What is known of a host.
  final class Standing: Sendable {
    fileprivate struct State {
      var isProven = false
      var connections = 0
      var byHolder: [Holder: Int] = [:]
      /// Owners with a request under way that count for it.
      var visitors: Set<Owner> = []
    }

    /// Guarded by the lock of the shares that it belongs to, and taken after that.
    fileprivate let state = Mutex(State())

    fileprivate init() {}
  }

  /// A connection that was taken, to be given back once.
  struct Place: Sendable {
    fileprivate let host: Standing
    fileprivate let holders: [Holder]
  }

  /// A request to a host, to be ended once.
  struct Visit: Sendable {
    fileprivate let host: Standing
    /// Whom it counts for: the host has not answered, and the owner has no other request to it.
    fileprivate let owner: Owner?
  }

  fileprivate struct Counts {
    var connections = 0
    var unproven = 0

    func hasRoom(_ limits: Counts, isProven: Bool) -> Bool {
      connections < limits.connections && (isProven || unproven < limits.unproven)
    }

    mutating func add(_ connections: Int, unproven: Int) {
      self.connections += connections
      self.unproven += unproven
    }
  }

  private struct State {
    var all = Counts()
    var byHolder: [Holder: Counts] = [:]
    /// Hosts that have not answered and that owners have requests under way to.
    var visits = 0
    var visitsByOwner: [Owner: Int] = [:]

    mutating func add(_ connections: Int, unproven: Int, to holder: Holder) {
      byHolder[holder, default: Counts()].add(connections, unproven: unproven)
      if byHolder[holder]?.connections == 0 { byHolder[holder] = nil }
    }
  }

  private let limits: Limits
  private let state = Mutex(State())

  init(limits: Limits) { self.limits = limits }

  /// For a host that nothing is known of.
  func standing() -> Standing { Standing() }

  /// How many connections there are.
  var connections: Int { state.withLock { $0.all.connections } }

  /// How long a connection may be idle now.
  var idle: TimeAmount {
    state.withLock { $0.all.connections * 2 > limits.connections ? limits.idleInNeed : limits.idle }
  }

  /// Takes a connection; nil if there is none to be had.
  func take(_ host: Standing, for holders: [Holder]) -> Place? {
    state.withLock { state in
      host.state.withLock { host in
        guard state.all.hasRoom(limits.all, isProven: host.isProven),
          holders.allSatisfy({
            state.byHolder[$0, default: Counts()].hasRoom(limits.perHolder, isProven: host.isProven)
          })
        else { return false }
        let unproven = host.isProven ? 0 : 1
        state.all.add(1, unproven: unproven)
        host.connections += 1
        for holder in holders {
          state.add(1, unproven: unproven, to: holder)
          host.byHolder[holder, default: 0] += 1
        }
        return true
      }
    } ? Place(host: host, holders: holders) : nil
  }

  /// A request to a host begins; nil if its owner visits too many hosts that do not answer.
  func begin(_ host: Standing, for owner: Owner) -> Visit? {
    state.withLock { state in
      host.state.withLock { standing in
        guard !standing.isProven, !standing.visitors.contains(owner) else {
          return Visit(host: host, owner: nil)
        }
        let own = state.visitsByOwner[owner] ?? 0
        guard FairShare.allows(own: own, total: state.visits, limit: limits.unproven) else { return nil }
        standing.visitors.insert(owner)
        state.visits += 1
        state.visitsByOwner[owner] = own + 1
        return Visit(host: host, owner: owner)
      }
    }
  }

  /// It has ended.
  func end(_ visit: Visit) {
    guard let owner = visit.owner else { return }
    state.withLock { state in
      _ = visit.host.state.withLock { $0.visitors.remove(owner) }
      state.visits -= 1
      let rest = (state.visitsByOwner[owner] ?? 1) - 1
      state.visitsByOwner[owner] = rest > 0 ? rest : nil
    }
  }

  /// Whether there may be a connection to be had, as far as can be told before it is known where it leads.
  func hasRoom(for host: Standing) -> Bool {
    state.withLock { state in
      host.state.withLock { state.all.hasRoom(limits.all, isProven: $0.isProven) }
    }
  }

  /// Gives it back.
  func giveBack(_ place: Place) {
    state.withLock { state in
      place.host.state.withLock { host in
        let unproven = host.isProven ? 0 : -1
        state.all.add(-1, unproven: unproven)
        host.connections -= 1
        for holder in place.holders {
          state.add(-1, unproven: unproven, to: holder)
          let left = host.byHolder[holder, default: 1] - 1
          host.byHolder[holder] = left > 0 ? left : nil
        }
      }
    }
  }

  /// The host has answered its last request, or has not.
  func note(_ host: Standing, isProven: Bool) {
    state.withLock { state in
      host.state.withLock { host in
        guard host.isProven != isProven else { return }
        host.isProven = isProven
        let sign = isProven ? -1 : 1
        state.all.add(0, unproven: sign * host.connections)
        for (holder, count) in host.byHolder { state.add(0, unproven: sign * count, to: holder) }
      }
    }
  }
}

extension WebPushShares.Limits {
  fileprivate var all: WebPushShares.Counts { .init(connections: connections, unproven: unproven) }
}
