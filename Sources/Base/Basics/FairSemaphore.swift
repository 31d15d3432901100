import Synchronization

/// A ``SharedBudget`` that callers wait for. Callers of one holder wait in the order of arrival, and holders take turns: nobody
/// waits for everything that another holder asks for.
package final class FairSemaphore<Holder: Hashable & Sendable>: Sendable {
  private struct Caller {
    let number: Int
    let amount: Int
    let turn: CheckedContinuation<Bool, Never>
  }

  private struct State {
    var budget: SharedBudget<Holder>
    var waiting = Turns<Holder, Caller>()
    /// The number of the latest caller.
    var lastNumber = 0

    /// Gives what is free to waiting callers.
    mutating func admit() -> [Caller] {
      var admitted: [Caller] = []
      while let (next, holder) = next() {
        budget.add(next.amount, of: holder)
        admitted.append(next)
      }
      return admitted
    }

    /// The next caller with room. Those of a holder that has its share are passed over; but if too little is free for one, it
    /// comes before all who want less.
    private mutating func next() -> (Caller, Holder)? {
      waiting.next { [budget] caller, holder in
        switch budget.refusal(of: caller.amount, to: holder) {
        case nil: true
        case .share: false
        case .full: nil
        }
      }
    }
  }

  private let state: Mutex<State>

  /// - Parameter share: the most that a holder may have; nil for a share of what is free (``FairShare``).
  package init(_ limit: Int, each share: Int? = nil) {
    state = Mutex(State(budget: SharedBudget(limit, most: share)))
  }

  /// The amount that is held.
  package var taken: Int { state.withLock(\.budget.total) }

  /// The number of waiting callers.
  package var waiting: Int { state.withLock(\.waiting.count) }

  /// What was taken at once.
  package struct Permit: Sendable {
    fileprivate let semaphore: FairSemaphore
    fileprivate let amount: Int
    fileprivate let holder: Holder

    /// Gives it back. Call it once.
    package func release() { semaphore.release(amount, of: holder) }
  }

  /// Takes an amount at once.
  ///
  /// - Returns: nil if there is no room, or others wait.
  @specialized(where Holder == Owner)
  package func take(_ amount: Int, of holder: Holder) -> Permit? {
    state.withLock { $0.waiting.isEmpty && $0.budget.take(amount, of: holder) }
      ? Permit(semaphore: self, amount: amount, holder: holder) : nil
  }

  /// Takes an amount, at most as much as a holder may have; ``release(_:of:)`` gives it back.
  ///
  /// - Parameter limit: how long to wait for it; nil: as long as it takes.
  /// - Returns: whether it was taken in time.
  /// - Throws: `CancellationError` if the task was cancelled meanwhile; then nothing is held.
  @discardableResult
  package func acquire(_ amount: Int, of holder: Holder, within limit: Duration? = nil) async throws -> Bool {
    var timer: Task<Void, Never>?
    let isTaken = await withCheckedContinuation { turn in
      let (number, admitted) = state.withLock { state in
        state.lastNumber += 1
        state.waiting.append(Caller(number: state.lastNumber, amount: amount, turn: turn), of: holder)
        return (state.lastNumber, state.admit())
      }
      for caller in admitted { caller.turn.resume(returning: true) }
      // Set only now: before it waits there is nothing to time out.
      timer = limit.map { limit in
        Task {
          try? await Task.sleep(for: limit)
          stopWaiting(number, of: holder)
        }
      }
    }
    timer?.cancel()
    guard isTaken, Task.isCancelled else { return isTaken }
    release(amount, of: holder)
    throw CancellationError()
  }

  private func stopWaiting(_ number: Int, of holder: Holder) {
    let (gone, admitted) = state.withLock { state -> (Caller?, [Caller]) in
      guard let gone = state.waiting.remove(of: holder, where: { $0.number == number }) else {
        return (nil, [])
      }
      return (gone, state.admit())
    }
    gone?.turn.resume(returning: false)
    for caller in admitted { caller.turn.resume(returning: true) }
  }

  @specialized(where Holder == Owner)
  package func release(_ amount: Int, of holder: Holder) {
    let admitted = state.withLock { state in
      state.budget.release(amount, of: holder)
      return state.admit()
    }
    for caller in admitted { caller.turn.resume(returning: true) }
  }
}
