package import Foundation
package import HTTPTypes
import Synchronization

/// Counts calls per key in fixed windows; a window begins with the key's first call.
package final class RateLimiter<Key: Hashable & Sendable>: Sendable {
  private struct Window {
    var start: Date
    var calls: Int
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

  /// Counts one call of `key` and returns whether it is within the limit.
  package func count(_ key: Key) -> RateVerdict {
    guard let limit else { return RateVerdict(retryAfter: nil, headers: [:]) }
    let now = now()
    let window = window(with: 1, of: key, limit, at: now)
    let end = window.start + limit.seconds
    let headers: HTTPFields = [
      .xRateLimitLimit: String(limit.calls),
      .xRateLimitRemaining: String(max(0, limit.calls - window.calls)),
      .xRateLimitReset: String(Int(end.timeIntervalSince1970.rounded(.up))),
    ]
    return RateVerdict(
      retryAfter: window.calls > limit.calls ? max(0.001, end.timeIntervalSince(now)) : nil, headers: headers)
  }

  /// Counts calls of `key` and returns how many of them are within the limit.
  package func take(_ calls: Int, of key: Key) -> Int {
    guard let limit else { return calls }
    let over = window(with: calls, of: key, limit, at: now()).calls - limit.calls
    return min(calls, max(0, calls - over))
  }

  private func window(with calls: Int, of key: Key, _ limit: RateLimit, at now: Date) -> Window {
    windows.withLock { windows in
      var window = windows.value(of: key) ?? Window(start: now, calls: 0)
      let age = now.timeIntervalSince(window.start)
      if age >= limit.seconds || age < 0 { window = Window(start: now, calls: 0) }
      window.calls += calls
      windows.set(window, for: key, now: now.timeIntervalSince1970)
      return window
    }
  }

  /// Counts one call of `key`, and refuses it with 429 if it is over the limit.
  ///
  /// - Returns: ``RateVerdict/headers``.
  @discardableResult
  package func check(_ key: Key) throws(APIError) -> HTTPFields {
    let verdict = count(key)
    guard let seconds = verdict.retryAfter else { return verdict.headers }
    throw .rateLimited(after: seconds, headers: verdict.headers)
  }
}

package struct RateVerdict: Sendable {
  /// Seconds until the key may call again; nil if this call is within the limit.
  package let retryAfter: Double?
  /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`; empty without a limit.
  package let headers: HTTPFields
}

extension APIError {
  /// 429, with the seconds until the next call may come.
  static func rateLimited(after seconds: Double, headers: HTTPFields = [:]) -> APIError {
    rateLimited(retryAfter: String((seconds * 1000).rounded(.up) / 1000), headers: headers)
  }

  /// 429.
  ///
  /// - Parameter seconds: a number as text.
  package static func rateLimited(retryAfter seconds: String, headers: HTTPFields = [:]) -> APIError {
    var headers = headers
    headers[.retryAfter] = seconds
    return APIError(
      .tooManyRequests, code: "RATE_LIMIT_HIT", "API usage exceeded rate limit",
      fields: [.init("retry-after", .number(seconds))], headers: headers)
  }
}

extension HTTPField.Name {
  static let xRateLimitLimit = HTTPField.Name("X-RateLimit-Limit")!  // a valid token
  static let xRateLimitRemaining = HTTPField.Name("X-RateLimit-Remaining")!  // a valid token
  static let xRateLimitReset = HTTPField.Name("X-RateLimit-Reset")!  // a valid token
}

package struct RateLimit: Sendable, Hashable {
  package let calls: Int
  package let seconds: Double

  package init(calls: Int, seconds: Double) {
    self.calls = calls
    self.seconds = seconds
  }
}

/// A rate limit that delays calls instead of refusing them, and gives each call its own time.
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

  private let limit: RateLimit?
  /// How many seconds a key may be booked ahead and still book more.
  private let reach: TimeInterval
  private let now: @Sendable () -> Date
  private let booked: Mutex<BoundedMemory<Key, Standing>>

  private struct Standing {
    /// The end of the time that the key's calls so far take.
    var end: Date
    /// When the latest booking was made.
    var time: Date
  }

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
  package func book(_ count: Int, of key: Key) -> Booking {
    let now = now()
    guard let limit, count > 0 else {
      return Booking(excess: 0, start: now, ahead: 0, limit: nil)
    }
    return booked.withLock { booked in
      let standing = booked.value(of: key) ?? Standing(end: now, time: now)
      // If the clock was put back, the key is not booked further ahead than before.
      let ahead = max(0, standing.end.timeIntervalSince(max(now, standing.time)))
      let taken = ahead > reach ? 0 : limit.seconds / Double(limit.calls) * Double(count)
      booked.set(
        Standing(end: now + ahead + taken, time: now), for: key, now: now.timeIntervalSince1970)
      return Booking(
        excess: max(0, ahead - reach), start: now, ahead: ahead, limit: limit)
    }
  }

  /// Seconds that the calls of a key take beyond the limit's window: how late a call booked now would be.
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
struct BoundedMemory<Key: Hashable & Sendable, Value: Sendable>: Sendable {
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
  init(capacity: Int = 100_000, lifetime: Double) {
    self.capacity = capacity
    self.lifetime = lifetime
  }

  /// The value of a key or of its shared slot; possibly past its lifetime.
  func value(of key: Key) -> Value? { young[key] ?? old[key] ?? shared[Self.place(of: key)] }

  /// - Parameter now: seconds since any fixed moment.
  mutating func set(_ value: Value, for key: Key, now: Double) {
    // Starts a new generation if the clock was put back.
    if now - turned >= lifetime || now < turned {
      old = now < turned ? old.merging(young) { $1 } : young
      young = [:]
      turned = now
    }
    if let kept = old.removeValue(forKey: key) { young[key] = kept }
    if young[key] != nil || young.count + old.count < capacity {
      young[key] = value
    } else {
      shared[Self.place(of: key)] = value
    }
  }

  /// The shared slot of a key, by a hash with a random seed per process.
  private static func place(of key: Key) -> Int {
    Int(truncatingIfNeeded: key.hashValue.magnitude % UInt(places))
  }
}
