package import Foundation
import Synchronization

/// A pace: what exceeds it is not refused but due later, each at its own time.
///
/// This is the generic cell rate algorithm (ITU-T I.371), with the limit's window as its burst: as many as the
/// limit go at once, and what exceeds it by ten times comes out over ten windows.
package final class CellRate<Key: Hashable & Sendable>: Sendable {
  /// What has been booked.
  package struct Booking: Sendable {
    /// Seconds by which the key was booked too far ahead for more; above zero, nothing was booked.
    package let excess: TimeInterval
    fileprivate let key: Key
    fileprivate let start: Date
    fileprivate let ahead: TimeInterval
    /// Seconds of the pace that it has taken up.
    fileprivate let taken: TimeInterval
    fileprivate let limit: RateLimit?

    /// When the call with this index is due; nil is at once.
    package func time(of index: Int) -> Date? {
      guard let limit else { return nil }
      let late = ahead + limit.seconds / Double(limit.calls) * Double(index + 1) - limit.seconds
      return late > 0 ? start + late : nil
    }
  }

  private let limit: RateLimit?
  /// How many seconds ahead a key may be booked and still book more.
  private let reach: TimeInterval
  private let now: @Sendable () -> Date
  private let booked: Mutex<BoundedMemory<Key, Standing>>

  private struct Standing {
    /// Until when the key's calls so far take up the pace.
    var end: Date
    /// When the last of them came.
    var time: Date
  }

  /// - Parameters:
  ///   - limit: without one everything goes at once.
  ///   - windows: how many windows of the limit may wait.
  package init(_ limit: RateLimit?, windows: Double, now: @escaping @Sendable () -> Date) {
    self.limit = limit
    self.now = now
    reach = (limit?.seconds ?? 0) * (windows + 1)
    booked = Mutex(BoundedMemory(lifetime: reach + (limit?.seconds ?? 0)))
  }

  /// Gives each of `count` calls of a key its time, unless as much as may waits already.
  package func book(_ count: Int, of key: Key) -> Booking {
    let now = now()
    guard let limit, count > 0 else {
      return Booking(excess: 0, key: key, start: now, ahead: 0, taken: 0, limit: nil)
    }
    return booked.withLock { booked in
      let standing = booked.value(of: key) ?? Standing(end: now, time: now)
      // Where the clock was put back since, nobody is further ahead than before.
      let ahead = max(0, standing.end.timeIntervalSince(max(now, standing.time)))
      let taken = ahead > reach ? 0 : limit.seconds / Double(limit.calls) * Double(count)
      booked.set(
        Standing(end: now + ahead + taken, time: now), for: key, now: now.timeIntervalSince1970)
      return Booking(
        excess: max(0, ahead - reach), key: key, start: now, ahead: ahead, taken: taken, limit: limit)
    }
  }

  /// Gives back what calls have booked that nobody makes after all.
  package func cancel(_ booking: Booking) {
    guard booking.taken > 0 else { return }
    let now = now().timeIntervalSince1970
    booked.withLock { booked in
      guard var standing = booked.value(of: booking.key) else { return }
      standing.end -= booking.taken
      booked.set(standing, for: booking.key, now: now)
    }
  }
}
