import Foundation
import NIOCore
import Synchronization

/// What arrived, in order, and who waits for more.
final class Ledger: Sendable {
  /// How many deliveries are kept; older ones make room.
  static let limit = 200_000

  private struct State {
    var counts = SimulatorCounts()
    var sequence = 0
    var kept = CircularBuffer<Delivery>()
    var waiters: [Int: Waiter] = [:]
    var lastWaiter = 0
  }

  private struct Waiter {
    var sequence: Int
    var continuation: CheckedContinuation<Bool, Never>
  }

  private let state = Mutex(State())

  var counts: SimulatorCounts {
    state.withLock { $0.counts }
  }

  func count(_ change: (inout SimulatorCounts) -> Void) {
    state.withLock { change(&$0.counts) }
  }

  /// Takes in one more delivery, which is made with its sequence; `make` gives nil if it is only to be counted.
  func accept(_ provider: Delivery.Provider, _ make: (Int) -> Delivery?) {
    let ready: [Waiter] = state.withLock { state in
      state.sequence += 1
      switch provider {
      case .apns: state.counts.apns += 1
      case .fcm: state.counts.fcm += 1
      }
      if let delivery = make(state.sequence) {
        if state.kept.count == Self.limit { state.kept.removeFirst() }
        state.kept.append(delivery)
      }
      guard !state.waiters.isEmpty else { return [] }
      let ready = state.waiters.filter { $0.value.sequence <= state.sequence }
      for id in ready.keys { state.waiters[id] = nil }
      return Array(ready.values)
    }
    for waiter in ready { waiter.continuation.resume(returning: true) }
  }

  /// What came after the delivery with this sequence, at most `limit`, and the sequence to go on from.
  func deliveries(since sequence: Int, limit: Int = .max) -> (deliveries: [Delivery], next: Int) {
    state.withLock { state in
      // In order, but with gaps where deliveries were not kept.
      var low = state.kept.startIndex
      var count = state.kept.count
      while count > 0 {
        let half = count / 2
        let middle = state.kept.index(low, offsetBy: half)
        if state.kept[middle].sequence <= sequence {
          low = state.kept.index(after: middle)
          count -= half + 1
        } else {
          count = half
        }
      }
      let found = Array(state.kept[low...].prefix(limit))
      return (found, found.count < limit ? state.sequence : found.last?.sequence ?? state.sequence)
    }
  }

  /// Waits until as many have arrived; false if the time is up first, or the caller is cancelled.
  func wait(for sequence: Int, timeout: Duration) async -> Bool {
    await withTaskGroup(of: Bool.self) { group in
      group.addTask { await self.wait(for: sequence) }
      group.addTask {
        try? await Task.sleep(for: timeout)
        return false
      }
      defer { group.cancelAll() }
      return await group.next() ?? false
    }
  }

  private func wait(for sequence: Int) async -> Bool {
    let id = state.withLock { state in
      state.lastWaiter += 1
      return state.lastWaiter
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let answer: Bool? = state.withLock { state in
          if state.sequence >= sequence { return true }
          // Cancelled before this point: the handler has run and found nobody to wake.
          if Task.isCancelled { return false }
          state.waiters[id] = Waiter(sequence: sequence, continuation: continuation)
          return nil
        }
        if let answer { continuation.resume(returning: answer) }
      }
    } onCancel: {
      let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
      waiter?.continuation.resume(returning: false)
    }
  }

  /// As new. Who waits goes on waiting.
  func reset() {
    state.withLock { state in
      state.counts = SimulatorCounts()
      state.sequence = 0
      state.kept = CircularBuffer()
    }
  }
}
