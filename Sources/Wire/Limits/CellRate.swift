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
    fileprivate let start: Date
    fileprivate let ahead: TimeInterval
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
    guard let limit, count > 0 else { return Booking(excess: 0, start: now, ahead: 0, limit: nil) }
    let interval = limit.seconds / Double(limit.calls)
    let ahead = booked.withLock { booked -> TimeInterval in
      let standing = booked.value(of: key) ?? Standing(end: now, time: now)
      // Where the clock was put back since, nobody is further ahead than before.
      let ahead = max(0, standing.end.timeIntervalSince(max(now, standing.time)))
      let taken = ahead > reach ? 0 : count
      booked.set(
        Standing(end: now + ahead + interval * Double(taken), time: now), for: key,
        now: now.timeIntervalSince1970)
      return ahead
    }
    return Booking(excess: max(0, ahead - reach), start: now, ahead: ahead, limit: limit)
  }
}
