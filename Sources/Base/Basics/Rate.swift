package import Foundation
import Synchronization

/// How often something may be done: so many calls in so many seconds.
package struct RateLimit: Sendable, Hashable {
  package let calls: Int
  package let seconds: Double

  package init(calls: Int, seconds: Double) {
    self.calls = calls
    self.seconds = seconds
  }
}

/// Counts the calls of each key in windows, and says which are over the limit. A window begins with the key's first call.
package final class Rate<Key: Hashable & Sendable>: Sendable {
  private struct Window {
    let start: Date
    var calls = 0
  }

  private let limit: RateLimit?
  private let now: @Sendable () -> Date
  private let windows: Mutex<BoundedMemory<Key, Window>>

  /// - Parameter limit: nil lets every call pass.
  package init(_ limit: RateLimit?, now: @escaping @Sendable () -> Date) {
    self.limit = limit
    self.now = now
    windows = Mutex(BoundedMemory(lifetime: limit?.seconds ?? 0))
  }

  /// Counts one call of `key`.
  @specialized(where Key == Int64)
  @specialized(where Key == ClientAddress)
  package func count(_ key: Key) -> RateVerdict {
    guard let limit else { return RateVerdict() }
    let now = now()
    let window = window(with: 1, of: key, limit, at: now)
    let end = window.start + limit.seconds
    return RateVerdict(
      retryAfter: window.calls > limit.calls ? max(0.001, end.timeIntervalSince(now)) : nil,
      window: .init(limit: limit, remaining: max(0, limit.calls - window.calls), end: end))
  }

  /// Counts calls of `key` and returns how many of them are within the limit.
  @specialized(where Key == Int64)
  @specialized(where Key == ClientAddress)
  package func take(_ calls: Int = 1, of key: Key) -> Int {
    guard let limit else { return calls }
    let over = window(with: calls, of: key, limit, at: now()).calls - limit.calls
    return min(calls, max(0, calls - over))
  }

  private func window(with calls: Int, of key: Key, _ limit: RateLimit, at now: Date) -> Window {
    windows.withLock { windows in
      windows.update(key, now: now.timeIntervalSince1970) { kept in
        // An age below zero means that the clock was put back.
        let open = kept.flatMap { (0..<limit.seconds).contains(now.timeIntervalSince($0.start)) ? $0 : nil }
        var window = open ?? Window(start: now)
        window.calls += calls
        kept = window
        return window
      }
    }
  }
}

/// Whether a call is within a limit.
package struct RateVerdict: Sendable {
  /// The window in which the call was counted.
  package struct Window: Sendable {
    package let limit: RateLimit
    /// Number of further calls within the limit.
    package let remaining: Int
    package let end: Date
  }

  /// Seconds until the key may call again; nil if this call is within the limit.
  package var retryAfter: Double?
  /// Nil without a limit.
  package var window: Window?
}

/// A rate that delays calls instead of refusing them, and gives each call its own time.
///
/// This is the generic cell rate algorithm (ITU-T I.371) with the limit's window as burst: the first calls,
/// up to the limit, go at once, and ten times as many are spread over ten windows.
package final class CellRate<Key: Hashable & Sendable>: Sendable {
  package struct Booking: Sendable {
    /// Seconds by which the key exceeds what may be booked ahead. If above zero, nothing was booked.
    package let excess: TimeInterval
    fileprivate let start: Date
    /// Seconds that were booked before this booking.
    fileprivate let ahead: TimeInterval
    fileprivate let limit: RateLimit?

    /// When the call with this index may go; nil for at once.
    package func time(of index: Int) -> Date? {
      guard let limit else { return nil }
      let late = ahead + limit.seconds / Double(limit.calls) * Double(index + 1) - limit.seconds
      return late > 0 ? start + late : nil
    }
  }

  private struct Standing {
    /// The end of the time that the key's calls so far take.
    var end: Date
    /// When the latest booking was made.
    var time: Date
  }

  private let limit: RateLimit?
  /// How many seconds a key may be booked ahead and still book more.
  private let reach: TimeInterval
  private let now: @Sendable () -> Date
  private let booked: Mutex<BoundedMemory<Key, Standing>>

  /// - Parameters:
  ///   - limit: nil lets every call go at once.
  ///   - windows: how many windows may be booked ahead.
  package init(_ limit: RateLimit?, windows: Double, now: @escaping @Sendable () -> Date) {
    self.limit = limit
    self.now = now
    reach = (limit?.seconds ?? 0) * (windows + 1)
    booked = Mutex(BoundedMemory(lifetime: reach + (limit?.seconds ?? 0)))
  }

  /// Books times for `count` calls of a key, unless the key is booked too far ahead.
  @specialized(where Key == Int64)
  package func book(_ count: Int, of key: Key) -> Booking {
    let now = now()
    guard let limit, count > 0 else {
      return Booking(excess: 0, start: now, ahead: 0, limit: nil)
    }
    let ahead = booked.withLock { booked in
      booked.update(key, now: now.timeIntervalSince1970) { standing in
        // If the clock was put back, the key is not booked further ahead than before.
        let ahead = standing.map { max(0, $0.end.timeIntervalSince(max(now, $0.time))) } ?? 0
        let taken = ahead > reach ? 0 : limit.seconds / Double(limit.calls) * Double(count)
        standing = Standing(end: now + ahead + taken, time: now)
        return ahead
      }
    }
    return Booking(excess: max(0, ahead - reach), start: now, ahead: ahead, limit: limit)
  }

  /// Seconds that the calls of a key take beyond the limit's window: how late a call booked now would be.
  @specialized(where Key == Int64)
  package func delay(of key: Key) -> TimeInterval {
    guard let limit else { return 0 }
    let now = now()
    let end = booked.withLock { $0.value(of: key)?.end }
    return max(0, (end ?? now).timeIntervalSince(now) - limit.seconds)
  }
}

/// A map with a lifetime for its values and bounded memory.
///
/// Values are never dropped early. When the memory is full, new keys share a fixed number of slots, chosen by
/// a hash that outsiders cannot predict. A new key may then be limited because of other keys in its slot;
/// older keys are not affected.
package struct BoundedMemory<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private static var places: Int { 1 << 14 }

  private let capacity: Int
  private let lifetime: Double
  /// Values written since `turned`, and older ones. Once per lifetime the old ones, at least one lifetime
  /// old, are dropped and the young ones become old.
  private var young: [Key: Value] = [:]
  private var old: [Key: Value] = [:]
  private var turned = -Double.infinity
  private var shared: [Int: Value] = [:]

  /// - Parameters:
  ///   - capacity: how many keys have a slot of their own.
  ///   - lifetime: how long a value is kept at least after it was last written, in seconds.
  package init(capacity: Int = 100_000, lifetime: Double) {
    self.capacity = capacity
    self.lifetime = lifetime
  }

  /// The value of a key or of its shared slot; possibly past its lifetime.
  package func value(of key: Key) -> Value? { young[key] ?? old[key] ?? shared[Self.place(of: key)] }

  /// Changes the value of a key, or of its shared slot.
  ///
  /// - Parameters:
  ///   - now: seconds since any fixed moment.
  ///   - capacity: how many keys may have a slot of their own for this one to get one; nil for as many as there are. Keys for
  ///     which it is less share slots with each other only.
  ///   - body: is given the present value, possibly past its lifetime; nil if there is none.
  package mutating func update<Result>(
    _ key: Key, now: Double, capacity: Int? = nil, _ body: (inout Value?) -> Result
  ) -> Result {
    // Starts a new generation if the clock was put back.
    if now - turned >= lifetime || now < turned {
      old = now < turned ? old.merging(young) { $1 } : young
      young = [:]
      turned = now
    }
    if !old.isEmpty, let kept = old.removeValue(forKey: key) { young[key] = kept }
    if young[key] == nil {
      let isFull = young.count + old.count >= capacity ?? self.capacity
      if isFull || !shared.isEmpty {
        let place = Self.place(of: key) + (capacity == nil ? 0 : Self.places)
        guard !isFull else { return body(&shared[place]) }
        // What was counted in the slot that it shared still counts.
        if let kept = shared[place] { young[key] = kept }
      }
    }
    return body(&young[key])
  }

  /// - Parameter now: seconds since any fixed moment.
  package mutating func set(_ value: Value, for key: Key, now: Double) {
    update(key, now: now) { $0 = value }
  }

  /// The shared slot of a key, by a hash with a random seed per process.
  private static func place(of key: Key) -> Int {
    Int(truncatingIfNeeded: key.hashValue.magnitude % UInt(places))
  }
}
