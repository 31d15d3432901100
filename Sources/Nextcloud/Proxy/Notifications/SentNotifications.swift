internal import Foundation
internal import Registrations
internal import Synchronization

/// The notifications of the last minutes, so that a request that was sent again does not make phones
/// ring twice: encryption is randomized, and an equal signature for an equal device is the same notification.
final class SentNotifications: Sendable {
  /// A notification for a device: the row, and 16 bytes of a signature that was verified.
  struct Key: Hashable {
    private let device: Int64
    private let signature: SIMD2<UInt64>

    init(_ notification: NotificationBatch.Accepted) {
      device = notification.device.id
      signature = notification.entry.signature.withUnsafeBytes {
        $0.loadUnaligned(as: SIMD2<UInt64>.self)  // 256 bytes at least
      }
    }
  }

  /// How long a notification is remembered, in seconds.
  private static let memory: TimeInterval = 300
  /// Notifications remembered at a time; beyond it those are forgotten whose time is up, then all.
  private static let maximum = 100_000

  private let now: @Sendable () -> Date
  /// Until when each is remembered.
  private let ends = Mutex<[Key: Date]>([:])

  init(now: @escaping @Sendable () -> Date) {
    self.now = now
  }

  /// Whether each is remembered, or stands in front of itself in the list.
  func areRepeated(_ keys: [Key]) -> [Bool] {
    let now = now()
    var seen: Set<Key> = []
    return ends.withLock { ends in
      keys.map { key in !seen.insert(key).inserted || ends[key].map { now < $0 } == true }
    }
  }

  /// Remembers what has been sent or durably queued.
  func add(_ keys: [Key]) {
    let now = now()
    ends.withLock { ends in
      if ends.count + keys.count > Self.maximum {
        ends = ends.filter { now < $0.value }
        if ends.count + keys.count > Self.maximum { ends.removeAll() }
      }
      for key in keys { ends[key] = now + Self.memory }
    }
  }
}
