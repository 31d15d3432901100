import ProviderSimulator
import Synchronization

/// What has arrived at the providers in a long run, each notification told apart by its mark, and whether anything
/// explains that one arrived twice.
final class Arrivals: Sendable {
  private struct State {
    /// The number of the last notification that was looked at.
    var last = 0
    /// How many cuts there were.
    var cuts = 0
    /// By mark: how many cuts there had been when it last arrived.
    var seen: [String: Int] = [:]
    var twice = 0
    var unexplained: [String] = []
  }

  private let simulator: SimulatedProviders
  private let state = Mutex(State())

  init(at simulator: SimulatedProviders) { self.simulator = simulator }

  /// The number of notifications that arrived more than once.
  var twice: Int { state.withLock(\.twice) }

  /// Notifications that arrived again although the service had not been cut off from its providers in
  /// between.
  var unexplained: [String] { state.withLock(\.unexplained) }

  /// To be called whenever an answer may have been lost: after a kill, and once connections were closed. What arrived
  /// before may arrive again.
  func cut() {
    state.withLock { state in
      look(&state)
      state.cuts += 1
    }
  }

  /// Those that have not arrived yet.
  func missing(of marks: Set<String>) -> Set<String> {
    state.withLock { state in
      look(&state)
      return marks.filter { state.seen[$0] == nil }
    }
  }

  private func look(_ state: inout State) {
    for delivery in simulator.deliveries(since: state.last) {
      state.last = delivery.sequence
      guard let mark = Stage.mark(of: delivery) else { continue }
      if let before = state.seen.updateValue(state.cuts, forKey: mark) {
        state.twice += 1
        if before == state.cuts { state.unexplained.append(mark) }
      }
    }
  }
}
