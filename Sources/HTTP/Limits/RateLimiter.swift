package import Foundation
package import HTTPTypes
import Synchronization

/// Counts calls per key in windows that begin with a key's first call. A window is kept to its end whoever else
/// comes; beyond a hundred thousand keys the new ones share windows.
package final class RateLimiter<Key: Hashable & Sendable>: Sendable {
  private struct Window {
    var start: Date
    var calls: Int
  }

  private let limit: RateLimit?
  private let now: @Sendable () -> Date
  private let windows: Mutex<BoundedMemory<Key, Window>>

  /// Without a limit every call passes.
  package init(_ limit: RateLimit?, now: @escaping @Sendable () -> Date) {
    self.limit = limit
    self.now = now
    windows = Mutex(BoundedMemory(lifetime: limit?.seconds ?? 0))
  }

  /// Counts one call of `key`.
  package func count(_ key: Key) -> RateVerdict {
    guard let limit else { return RateVerdict(retryAfter: nil, headers: [:]) }
    let now = now()
    let window = windows.withLock { windows -> Window in
      var window = windows.value(of: key) ?? Window(start: now, calls: 0)
      let age = now.timeIntervalSince(window.start)
      if age >= limit.seconds || age < 0 { window = Window(start: now, calls: 0) }
      window.calls += 1
      windows.set(window, for: key, now: now.timeIntervalSince1970)
      return window
    }
    let end = window.start.addingTimeInterval(limit.seconds)
    let headers: HTTPFields = [
      .xRateLimitLimit: String(limit.calls),
      .xRateLimitRemaining: String(max(0, limit.calls - window.calls)),
      .xRateLimitReset: String(Int(end.timeIntervalSince1970.rounded(.up))),
    ]
    return RateVerdict(
      retryAfter: window.calls > limit.calls ? max(0.001, end.timeIntervalSince(now)) : nil, headers: headers)
  }

  /// Counts one call of `key`, and refuses it with 429 if it is one too many.
  ///
  /// - Returns: headers that tell the caller how it stands.
  @discardableResult
  package func check(_ key: Key) throws(APIError) -> HTTPFields {
    let verdict = count(key)
    guard let seconds = verdict.retryAfter else { return verdict.headers }
    throw .rateLimited(
      retryAfter: String((seconds * 1000).rounded(.up) / 1000), headers: verdict.headers)
  }
}

/// How a call stands with a limit.
package struct RateVerdict: Sendable {
  /// Seconds until the key may call again, if it may not now.
  package let retryAfter: Double?
  /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`; empty without a limit.
  package let headers: HTTPFields
}

extension APIError {
  /// 429 as Zulip says it.
  ///
  /// - Parameter seconds: after which the caller may come again, as a number.
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

/// So many calls in so much time: `1000/60s`; `0` stands for no limit.
package struct RateLimit: Sendable, Hashable {
  /// How many calls.
  package let calls: Int
  /// In how many seconds.
  package let seconds: Double

  /// So many calls in so many seconds.
  package init(calls: Int, seconds: Double) {
    self.calls = calls
    self.seconds = seconds
  }
}
