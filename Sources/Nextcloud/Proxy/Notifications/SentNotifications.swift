internal import Foundation
internal import Registrations
internal import Synchronization

/// The notifications of the last five minutes, so that a request that was sent again does not make phones
/// ring twice: encryption is randomized, and an equal signature for an equal device is the same notification
/// (`spec/nextcloud.md` 5.3).
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

  /// How long a notification is remembered.
  private static let memory: TimeInterval = 300
  /// Notifications remembered at a time; beyond it those are forgotten whose time is up, then all.
  private static let maximum = 100_000

  private let now: @Sendable () -> Date
  private let times = Mutex<[Key: Date]>([:])

  init(now: @escaping @Sendable () -> Date) {
    self.now = now
  }

  /// Whether each was sent in the last five minutes, or stands in front of itself in the list.
  func areRepeated(_ keys: [Key]) -> [Bool] {
    let now = now()
    var seen: Set<Key> = []
    return times.withLock { times in
      keys.map { key in
        !seen.insert(key).inserted || times[key].map { Self.isRecent($0, now) } == true
      }
    }
  }

  /// Remembers what has been sent or durably queued.
  func add(_ keys: [Key]) {
    let now = now()
    times.withLock { times in
      if times.count + keys.count > Self.maximum {
        times = times.filter { Self.isRecent($0.value, now) }
        if times.count + keys.count > Self.maximum { times.removeAll() }
      }
      for key in keys { times[key] = now }
    }
  }

  private static func isRecent(_ time: Date, _ now: Date) -> Bool {
    (0..<memory).contains(now.timeIntervalSince(time))
  }
}
