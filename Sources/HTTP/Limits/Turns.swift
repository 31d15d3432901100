internal import Synchronization

/// Lets a few do something at a time, one for each owner. The others wait, and their owners take turns.
package final class Turns<Owner: Hashable & Sendable>: Sendable {
  private struct Waiting {
    let number: Int
    let turn: CheckedContinuation<Bool, Never>
  }

  private struct State {
    var free: Int
    var busy: Set<Owner> = []
    /// By owner, in the order in which their turns come.
    var waiting: [(owner: Owner, calls: [Waiting])] = []
    var number = 0

    /// Takes the turn of the first owner that is not busy.
    mutating func next() -> Waiting? {
      guard free > 0, let index = waiting.firstIndex(where: { !busy.contains($0.owner) }) else { return nil }
      var (owner, calls) = waiting.remove(at: index)
      let call = calls.removeFirst()
      if !calls.isEmpty { waiting.append((owner, calls)) }
      free -= 1
      busy.insert(owner)
      return call
    }
  }

  private let state: Mutex<State>

  /// - Parameter limit: how many may do it at a time.
  package init(_ limit: Int) { state = Mutex(State(free: limit)) }

  /// Runs `body` when it is the owner's turn; nil if that does not come in time.
  package func run<Result>(
    _ owner: Owner, within limit: Duration, _ body: () async throws -> Result
  ) async rethrows -> Result? {
    guard await take(owner, within: limit) else { return nil }
    defer { leave(owner) }
    return try await body()
  }

  /// How many wait.
  package var waiting: Int { state.withLock { $0.waiting.reduce(0) { $0 + $1.calls.count } } }

  private func take(_ owner: Owner, within limit: Duration) async -> Bool {
    let number = state.withLock { state in
      state.number += 1
      return state.number
    }
    let timer = Task {
      try? await Task.sleep(for: limit)
      giveUp(number, of: owner)
    }
    defer { timer.cancel() }
    return await withCheckedContinuation { turn in
      let next = state.withLock { state in
        let call = Waiting(number: number, turn: turn)
        if let index = state.waiting.firstIndex(where: { $0.owner == owner }) {
          state.waiting[index].calls.append(call)
        } else {
          state.waiting.append((owner, [call]))
        }
        return state.next()
      }
      next?.turn.resume(returning: true)
    }
  }

  private func giveUp(_ number: Int, of owner: Owner) {
    let call = state.withLock { state -> Waiting? in
      guard let index = state.waiting.firstIndex(where: { $0.owner == owner }),
        let place = state.waiting[index].calls.firstIndex(where: { $0.number == number })
      else { return nil }
      let call = state.waiting[index].calls.remove(at: place)
      if state.waiting[index].calls.isEmpty { state.waiting.remove(at: index) }
      return call
    }
    call?.turn.resume(returning: false)
  }

  private func leave(_ owner: Owner) {
    let next = state.withLock { state in
      state.free += 1
      state.busy.remove(owner)
      return state.next()
    }
    next?.turn.resume(returning: true)
  }
}
