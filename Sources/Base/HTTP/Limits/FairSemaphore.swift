import Basics
import NIOCore
import Synchronization

/// A semaphore with a number of permits, of which each owner may hold a share. Callers of one owner wait in the order of
/// arrival, and owners take turns: nobody waits for everything that another owner asks for.
package final class FairSemaphore<Owner: Hashable & Sendable>: Sendable {
  private struct Waiting {
    let number: Int
    let count: Int
    let turn: CheckedContinuation<Bool, Never>
  }

  private struct Account {
    var taken = 0
    var waiting: CircularBuffer<Waiting> = []
  }

  private struct State {
    let total: Int
    let share: Int
    var taken = 0
    var accounts: [Owner: Account] = [:]
    /// The owners of waiting callers, the next one first.
    var order: CircularBuffer<Owner> = []
    /// The number of the latest caller.
    var lastNumber = 0

    /// Gives the free permits to waiting callers.
    mutating func admit() -> [Waiting] {
      var turns: [Waiting] = []
      var passed = 0
      while passed < order.count, let owner = order.first, var account = accounts[owner],
        let next = account.waiting.first
      {
        if account.taken + next.count > share {
          passed += 1
        } else if taken + next.count > total {
          break
        } else {
          passed = 0
          taken += next.count
          account.taken += next.count
          turns.append(account.waiting.removeFirst())
          accounts[owner] = account
        }
        order.removeFirst()
        if !account.waiting.isEmpty { order.append(owner) }
      }
      return turns
    }
  }

  private let state: Mutex<State>

  /// - Parameter share: the most permits that an owner may hold.
  package init(_ total: Int, each share: Int) { state = Mutex(State(total: total, share: share)) }

  /// The number of permits that are held.
  package var taken: Int { state.withLock(\.taken) }

  /// The number of waiting callers.
  package var waiting: Int { state.withLock { $0.accounts.values.reduce(0) { $0 + $1.waiting.count } } }

  /// Acquires permits, at most as many as an owner may hold; ``release(_:of:)`` gives them back.
  ///
  /// - Parameter limit: how long to wait for them; nil: as long as it takes.
  /// - Returns: whether they were acquired in time.
  /// - Throws: `CancellationError` if the task was cancelled meanwhile; then nothing is held.
  @discardableResult
  package func acquire(_ count: Int, of owner: Owner, within limit: Duration? = nil) async throws -> Bool {
    var timer: Task<Void, Never>?
    let isAcquired = await withCheckedContinuation { turn in
      let (number, turns) = state.withLock { state in
        state.lastNumber += 1
        if state.accounts[owner, default: Account()].waiting.isEmpty { state.order.append(owner) }
        state.accounts[owner, default: Account()].waiting.append(
          Waiting(number: state.lastNumber, count: count, turn: turn))
        return (state.lastNumber, state.admit())
      }
      for next in turns { next.turn.resume(returning: true) }
      // Set only now: before it waits there is nothing to time out.
      timer = limit.map { limit in
        Task {
          try? await Task.sleep(for: limit)
          stopWaiting(number, of: owner)
        }
      }
    }
    timer?.cancel()
    guard isAcquired, Task.isCancelled else { return isAcquired }
    release(count, of: owner)
    throw CancellationError()
  }

  private func stopWaiting(_ number: Int, of owner: Owner) {
    let (gone, turns) = state.withLock { state -> (Waiting?, [Waiting]) in
      guard var account = state.accounts[owner],
        let index = account.waiting.firstIndex(where: { $0.number == number })
      else { return (nil, []) }
      let gone = account.waiting.remove(at: index)
      state.accounts[owner] = account.taken == 0 && account.waiting.isEmpty ? nil : account
      if account.waiting.isEmpty, let place = state.order.firstIndex(of: owner) {
        state.order.remove(at: place)
      }
      return (gone, state.admit())
    }
    gone?.turn.resume(returning: false)
    for next in turns { next.turn.resume(returning: true) }
  }

  package func release(_ count: Int, of owner: Owner) {
    let turns = state.withLock { state in
      state.taken -= count
      state.accounts[owner]?.taken -= count
      let turns = state.admit()
      if let account = state.accounts[owner], account.taken == 0, account.waiting.isEmpty {
        state.accounts[owner] = nil
      }
      return turns
    }
    for next in turns { next.turn.resume(returning: true) }
  }
}
