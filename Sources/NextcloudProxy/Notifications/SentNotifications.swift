internal import Foundation
internal import Synchronization

/// The notifications of the last minutes, so that a request that was sent again does not make phones
/// ring twice: encryption is randomized, and an equal signature for an equal device is the same notification.
final class SentNotifications: Sendable {
  /// A notification for a device: the row, and 16 bytes of a signature that was verified.
  struct Key: Hashable {
    let device: Int64
    let signature: SIMD2<UInt64>
  }

  /// How long a notification is remembered, in seconds.
  private static let memory: TimeInterval = 300
  /// Notifications remembered at a time; beyond it the older half of them is forgotten.
  private static let maximum = 100_000

  /// Until when each is remembered.
  private struct Ends {
    /// Those that came last, at most half of all.
    var young: [Key: Date] = [:]
    var old: [Key: Date] = [:]
  }

  private let now: @Sendable () -> Date
  private let ends = Mutex(Ends())

  init(now: @escaping @Sendable () -> Date) {
    self.now = now
  }

  /// Whether each is remembered, or stands in front of itself in the list.
  func areRepeated(_ keys: [Key]) -> [Bool] {
    let now = now()
    var seen: Set<Key> = []
    return ends.withLock { ends in
      keys.map { key in
        !seen.insert(key).inserted || (ends.young[key] ?? ends.old[key]).map { now < $0 } == true
      }
    }
  }

  /// Remembers what has been sent or durably queued.
  func add(_ keys: [Key]) {
    let end = now() + Self.memory
    ends.withLock { ends in
      for key in keys {
        if ends.young.count == Self.maximum / 2 { ends = Ends(old: ends.young) }
        ends.young[key] = end
      }
    }
  }
}

extension SentNotifications.Key {
  init(_ notification: NotificationBatch.Accepted) {
    device = notification.device.id
    signature = notification.entry.signature.withUnsafeBytes {
      $0.loadUnaligned(as: SIMD2<UInt64>.self)  // 256 bytes at least
    }
  }
}
