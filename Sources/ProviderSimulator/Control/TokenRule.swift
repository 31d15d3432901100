/// What the simulator answers for one token.
public struct TokenRule: Sendable, Equatable {
  /// The `timestamp` of an APNs answer of 410.
  public enum Timestamp: Sendable, Equatable {
    /// The moment of the answer.
    case now
    /// None, which Apple does not promise never to do.
    case none
    /// Milliseconds since 1970.
    case at(Int)
  }

  /// HTTP status; 200 accepts (and makes a malformed APNs token good).
  public var status: Int
  /// APNs reason or FCM error code; nil is the usual one for the status.
  public var reason: String?
  /// The `timestamp` of an APNs answer of 410.
  public var timestamp: Timestamp
  /// Milliseconds before the answer.
  public var delayMilliseconds: Int
  /// How many pushes it applies to before it is forgotten; nil is all.
  public var times: Int?

  /// A rule; only the status is needed.
  public init(
    status: Int, reason: String? = nil, timestamp: Timestamp = .now, delayMilliseconds: Int = 0,
    times: Int? = nil
  ) {
    self.status = status
    self.reason = reason
    self.timestamp = timestamp
    self.delayMilliseconds = delayMilliseconds
    self.times = times
  }
}
