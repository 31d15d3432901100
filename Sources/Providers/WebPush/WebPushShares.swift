import NIOCore
import Synchronization

/// Who may have how many of the connections to push services. Hosts that have not answered, or no longer do, share a part
/// of them: however many there are, they leave the rest to those that work.
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
  }

  /// What is known of a host.
  final class Standing: Sendable {
    fileprivate struct State {
      var isProven = false
      var connections = 0
    }

    /// Guarded by the lock of the shares that it belongs to, and taken after that.
    fileprivate let state = Mutex(State())

    fileprivate init() {}
  }

  private struct Counts {
    var connections = 0
    var unproven = 0
  }

  private let limits: Limits
  private let counts = Mutex(Counts())

  init(limits: Limits) { self.limits = limits }

  /// For a host that nothing is known of.
  func standing() -> Standing { Standing() }

  /// How many connections there are.
  var connections: Int { counts.withLock { $0.connections } }

  /// How long a connection may be idle now.
  var idle: TimeAmount {
    counts.withLock { $0.connections * 2 > limits.connections ? limits.idleInNeed : limits.idle }
  }

  /// Takes a connection; false if there is none to be had.
  func take(_ host: Standing) -> Bool {
    counts.withLock { counts in
      host.state.withLock { host in
        guard counts.connections < limits.connections, host.isProven || counts.unproven < limits.unproven
        else { return false }
        counts.connections += 1
        host.connections += 1
        if !host.isProven { counts.unproven += 1 }
        return true
      }
    }
  }

  /// Gives it back.
  func giveBack(_ host: Standing) {
    counts.withLock { counts in
      host.state.withLock { host in
        counts.connections -= 1
        host.connections -= 1
        if !host.isProven { counts.unproven -= 1 }
      }
    }
  }

  /// The host has answered its last request, or has not.
  func note(_ host: Standing, isProven: Bool) {
    counts.withLock { counts in
      host.state.withLock { host in
        guard host.isProven != isProven else { return }
        host.isProven = isProven
        counts.unproven += isProven ? -host.connections : host.connections
      }
    }
  }
}
