/// What the simulator answers for one token.
package struct TokenRule: Sendable, Equatable {
  /// The `timestamp` of an APNs answer of 410.
  package enum Timestamp: Sendable, Equatable {
    /// The moment of the answer.
    case now
    /// None, which Apple does not promise never to do.
    case none
    /// Milliseconds since 1970.
    case at(Int)
  }

  /// HTTP status; 200 accepts (and makes a malformed APNs token good).
  package var status: Int
  /// APNs reason or FCM error code; nil is the usual one for the status.
  package var reason: String?
  /// The `timestamp` of an APNs answer of 410.
  package var timestamp: Timestamp
  /// `Retry-After` of the answer, as it stands in the header: seconds or an HTTP-date.
  package var retryAfter: String?
  /// Milliseconds before the answer.
  package var delayMilliseconds: Int
  /// How many pushes it applies to before it is forgotten; nil is all.
  package var times: Int?

  /// A rule; only the status is needed.
  package init(
    status: Int, reason: String? = nil, timestamp: Timestamp = .now, retryAfter: String? = nil,
    delayMilliseconds: Int = 0, times: Int? = nil
  ) {
    self.status = status
    self.reason = reason
    self.timestamp = timestamp
    self.retryAfter = retryAfter
    self.delayMilliseconds = delayMilliseconds
    self.times = times
  }

  /// Header fields of the answer.
  var headers: [(name: String, value: String)] { retryAfter.map { [("retry-after", $0)] } ?? [] }
}
