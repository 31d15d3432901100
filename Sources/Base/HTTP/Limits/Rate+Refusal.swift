package import Basics
import Foundation
package import HTTPTypes

extension Rate {
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

extension RateVerdict {
  /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`; empty without a limit.
  fileprivate var headers: HTTPFields {
    guard let window else { return [:] }
    return [
      .xRateLimitLimit: String(window.limit.calls), .xRateLimitRemaining: String(window.remaining),
      .xRateLimitReset: String(Int(window.end.timeIntervalSince1970.rounded(.up))),
    ]
  }
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
