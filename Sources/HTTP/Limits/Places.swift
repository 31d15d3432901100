import NIOCore
import Synchronization

/// A number of places, of which each owner has so many at a time. Who finds none waits: for those of the same owner that
/// came before, and where all are taken, in turn with other owners, so that nobody waits for all that another wants.
package final class Places<Owner: Hashable & Sendable>: Sendable {
  private typealias Turn = CheckedContinuation<Void, Never>

  private struct Standing {
    var taken = 0
    var waiting: CircularBuffer<(count: Int, turn: Turn)> = []
  }

  private struct State {
    let total: Int
    let share: Int
    var taken = 0
    var standings: [Owner: Standing] = [:]
    /// The owners of those who wait, the next one first.
    var order: CircularBuffer<Owner> = []

    /// Gives places to those who wait, as many as there are.
    mutating func admit() -> [Turn] {
      var turns: [Turn] = []
      var passed = 0
      while passed < order.count, let owner = order.first, var standing = standings[owner],
        let next = standing.waiting.first
      {
        if standing.taken + next.count > share {
          passed += 1
        } else if taken + next.count > total {
          break
        } else {
          passed = 0
          taken += next.count
          standing.taken += next.count
          turns.append(standing.waiting.removeFirst().turn)
          standings[owner] = standing
        }
        order.removeFirst()
        if !standing.waiting.isEmpty { order.append(owner) }
      }
      return turns
    }
  }

  private let state: Mutex<State>

  /// - Parameter share: the most that an owner has.
  package init(_ total: Int, each share: Int) { state = Mutex(State(total: total, share: share)) }

  /// The number of places that are taken.
  package var taken: Int { state.withLock(\.taken) }

  /// Takes places, at most as many as an owner may have, which ``leave(_:of:)`` gives back.
  ///
  /// - Throws: `CancellationError` if the task was cancelled meanwhile; then nothing is taken.
  package func take(_ count: Int, of owner: Owner) async throws {
    await withCheckedContinuation { turn in
      let turns = state.withLock { state in
        if state.standings[owner, default: Standing()].waiting.isEmpty { state.order.append(owner) }
        state.standings[owner, default: Standing()].waiting.append((count, turn))
        return state.admit()
      }
      for turn in turns { turn.resume() }
    }
    guard Task.isCancelled else { return }
    leave(count, of: owner)
    throw CancellationError()
  }

  package func leave(_ count: Int, of owner: Owner) {
    let turns = state.withLock { state in
      state.taken -= count
      state.standings[owner]?.taken -= count
      let turns = state.admit()
      if let standing = state.standings[owner], standing.taken == 0, standing.waiting.isEmpty {
        state.standings[owner] = nil
      }
      return turns
    }
    for turn in turns { turn.resume() }
  }
}
