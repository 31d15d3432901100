import NIOCore
import Synchronization

/// A number of places, of which each owner has so many at a time. Who finds none waits: for those of the same owner that
/// came before, and where all are taken, in turn with other owners, so that nobody waits for all that another wants.
package final class Places<Owner: Hashable & Sendable>: Sendable {
  private struct Waiting {
    let number: Int
    let count: Int
    let turn: CheckedContinuation<Bool, Never>
  }

  private struct Standing {
    var taken = 0
    var waiting: CircularBuffer<Waiting> = []
  }

  private struct State {
    let total: Int
    let share: Int
    var taken = 0
    var standings: [Owner: Standing] = [:]
    /// The owners of those who wait, the next one first.
    var order: CircularBuffer<Owner> = []
    /// Of who has come last.
    var number = 0

    /// Gives places to those who wait, as many as there are.
    mutating func admit() -> [Waiting] {
      var turns: [Waiting] = []
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
          turns.append(standing.waiting.removeFirst())
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

  /// How many wait.
  package var waiting: Int { state.withLock { $0.standings.values.reduce(0) { $0 + $1.waiting.count } } }

  /// Takes places, at most as many as an owner may have, which ``leave(_:of:)`` gives back.
  ///
  /// - Parameter limit: how long to wait for them; nil: as long as it takes.
  /// - Returns: whether they came in time.
  /// - Throws: `CancellationError` if the task was cancelled meanwhile; then nothing is taken.
  @discardableResult
  package func take(_ count: Int, of owner: Owner, within limit: Duration? = nil) async throws -> Bool {
    var timer: Task<Void, Never>?
    let hasThem = await withCheckedContinuation { turn in
      let (number, turns) = state.withLock { state in
        state.number += 1
        if state.standings[owner, default: Standing()].waiting.isEmpty { state.order.append(owner) }
        state.standings[owner, default: Standing()].waiting.append(
          Waiting(number: state.number, count: count, turn: turn))
        return (state.number, state.admit())
      }
      for next in turns { next.turn.resume(returning: true) }
      // Not before it waits: there would be nothing to give up.
      timer = limit.map { limit in
        Task {
          try? await Task.sleep(for: limit)
          giveUp(number, of: owner)
        }
      }
    }
    timer?.cancel()
    guard hasThem, Task.isCancelled else { return hasThem }
    leave(count, of: owner)
    throw CancellationError()
  }

  private func giveUp(_ number: Int, of owner: Owner) {
    let (gone, turns) = state.withLock { state -> (Waiting?, [Waiting]) in
      guard var standing = state.standings[owner],
        let index = standing.waiting.firstIndex(where: { $0.number == number })
      else { return (nil, []) }
      let gone = standing.waiting.remove(at: index)
      state.standings[owner] = standing.taken == 0 && standing.waiting.isEmpty ? nil : standing
      if standing.waiting.isEmpty, let place = state.order.firstIndex(of: owner) {
        state.order.remove(at: place)
      }
      return (gone, state.admit())
    }
    gone?.turn.resume(returning: false)
    for next in turns { next.turn.resume(returning: true) }
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
    for next in turns { next.turn.resume(returning: true) }
  }
}
