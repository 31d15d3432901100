import Foundation
import NIOCore
import Synchronization
import Timing

/// What arrived, in order, and who waits for more.
final class DeliveryLog: Sendable {
  struct Contents {
    /// The last sequence number given out. It outlives a reset, so that a reader never sees a number twice.
    var last = 0
    /// Index of the first kept entry in `entries`: cutting off the front one by one would move all the rest.
    var start = 0
    var entries: [Delivery] = []
    var lastAccepted = 0
    /// Accepted since the last reset.
    var accepted = 0

    /// The kept entries after `sequence`.
    func after(_ sequence: Int) -> ArraySlice<Delivery> {
      let first = last - (entries.count - start) + 1
      return entries[min(entries.count, start + max(0, sequence + 1 - first))...]
    }
  }

  private struct State {
    var contents = Contents()
    var waiters:
      [UInt64: (condition: @Sendable (Contents) -> Bool, continuation: CheckedContinuation<Void, Never>)] =
        [:]
    var nextWaiter: UInt64 = 0
  }

  private let state = Mutex(State())
  private let limit: Int

  init(limit: Int) {
    self.limit = max(1, limit)
  }

  /// `kept` is told the sequence number before any reader hears of it.
  func record(_ delivery: Delivery, kept: (Int) -> Void) {
    change { contents in
      contents.append(delivery, keeping: limit)
      kept(contents.last)
    }
  }

  /// Has those who wait look again, where something beside the log has changed.
  func wakeReaders() {
    change { _ in }
  }

  private func change(_ change: (inout Contents) -> Void) {
    let woken = state.withLock { state -> [CheckedContinuation<Void, Never>] in
      change(&state.contents)
      guard !state.waiters.isEmpty else { return [] }
      let ready = state.waiters.filter { $0.value.condition(state.contents) }
      for id in ready.keys { state.waiters[id] = nil }
      return ready.values.map(\.continuation)
    }
    for continuation in woken { continuation.resume() }
  }

  /// Entries after `sequence`, oldest first, and the number to ask from next time.
  func entries(after sequence: Int, refused: Bool, limit: Int) -> (next: Int, deliveries: [Delivery]) {
    state.withLock { state in
      var found: [Delivery] = []
      for entry in state.contents.after(sequence) where refused || entry.accepted {
        guard found.count < limit else { return (found.last?.sequence ?? sequence, found) }
        found.append(entry)
      }
      return (state.contents.last, found)
    }
  }

  /// Those of the entries that are still kept, in this order.
  func entries(numbered sequences: [Int]) -> [Delivery] {
    state.withLock { state in
      sequences.compactMap { sequence in
        state.contents.after(sequence - 1).first.flatMap { $0.sequence == sequence ? $0 : nil }
      }
    }
  }

  /// Accepted since the last reset.
  var accepted: Int { state.withLock(\.contents.accepted) }

  func reset() {
    state.withLock { state in
      state.contents.entries = []
      state.contents.start = 0
      state.contents.accepted = 0
    }
  }

  /// Returns once `condition` holds, or as soon as the task is cancelled.
  func wait(until condition: @escaping @Sendable (Contents) -> Bool) async {
    let id = state.withLock { state in
      state.nextWaiter += 1
      return state.nextWaiter
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let done = state.withLock { state in
          // Cancelled before this line: the handler below found no waiter to wake.
          if Task.isCancelled || condition(state.contents) { return true }
          state.waiters[id] = (condition, continuation)
          return false
        }
        if done { continuation.resume() }
      }
    } onCancel: {
      state.withLock { $0.waiters.removeValue(forKey: id) }?.continuation.resume()
    }
  }

  /// Like `wait(until:)`, but gives up after `timeout`.
  func wait(
    until condition: @escaping @Sendable (Contents) -> Bool, timeout: Duration
  ) async {
    _ = try? await withTimeout(timeout) { await self.wait(until: condition) }
  }
}

extension DeliveryLog.Contents {
  fileprivate mutating func append(_ delivery: Delivery, keeping limit: Int) {
    last += 1
    entries.append(delivery)
    entries[entries.count - 1].sequence = last
    // The body is a slice of what the connection had read, which would be kept whole: 30 KB for each of a million.
    entries[entries.count - 1].body = ByteBuffer(buffer: delivery.body)
    if delivery.accepted {
      lastAccepted = last
      accepted += 1
    }
    if entries.count - start > limit {
      // Frees what the entry holds; its slot goes with the next compaction.
      entries[start] = .forgotten
      start += 1
      if start > limit / 2 + 16 {
        entries.removeFirst(start)
        start = 0
      }
    }
  }
}

extension Delivery {
  fileprivate static let forgotten = Delivery(
    provider: .apns, token: "", target: "", headers: [], receivedAt: .distantPast, status: 0, reason: nil,
    id: "",
    body: .init())
}
