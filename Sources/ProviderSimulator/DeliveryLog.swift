import Foundation
import NIOCore
import Synchronization

/// What arrived, in order.
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

  private let contents = Mutex(Contents())
  private let limit: Int

  init(limit: Int) {
    self.limit = max(1, limit)
  }

  /// `kept` is told the sequence number before any reader hears of it.
  func record(_ delivery: Delivery, kept: (Int) -> Void) {
    contents.withLock { contents in
      contents.append(delivery, keeping: limit)
      kept(contents.last)
    }
  }

  /// Entries after `sequence`, oldest first, and the number to ask from next time.
  func entries(after sequence: Int, refused: Bool, limit: Int) -> (next: Int, deliveries: [Delivery]) {
    contents.withLock { contents in
      var found: [Delivery] = []
      for entry in contents.after(sequence) where refused || entry.accepted {
        guard found.count < limit else { return (found.last?.sequence ?? sequence, found) }
        found.append(entry)
      }
      return (contents.last, found)
    }
  }

  /// Those of the entries that are still kept, in this order.
  func entries(numbered sequences: [Int]) -> [Delivery] {
    contents.withLock { contents in
      sequences.compactMap { sequence in
        contents.after(sequence - 1).first.flatMap { $0.sequence == sequence ? $0 : nil }
      }
    }
  }

  /// Accepted since the last reset.
  var accepted: Int { contents.withLock(\.accepted) }

  func reset() {
    contents.withLock { contents in
      contents.entries = []
      contents.start = 0
      contents.accepted = 0
    }
  }

  /// Returns once `condition` holds, `timeout` is over or the task is cancelled.
  func wait(until condition: (Contents) -> Bool, timeout: Duration) async {
    let end = ContinuousClock.now + timeout
    while !contents.withLock({ condition($0) }), .now < end, !Task.isCancelled {
      try? await Task.sleep(for: .milliseconds(10))
    }
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
