/// What becomes of pushes to one device token, once they have passed all checks. As JSON for
/// `/_control/tokens/{token}`.
public struct TokenRule: Sendable, Hashable, Codable {
  /// The answer's status; 200 accepts.
  public var status: Int
  /// APNs' `reason` or FCM's `errorCode`; nil for one that suits the status.
  public var reason: String?
  /// With 410 of APNs: since when the token is dead, in milliseconds since 1970; nil for now.
  public var timestamp: Int?
  /// Pause before the answer.
  public var delayMilliseconds: Int
  /// For how many pushes it holds; nil for ever.
  public var times: Int?

  /// A rule.
  public init(
    status: Int, reason: String? = nil, timestamp: Int? = nil, delayMilliseconds: Int = 0, times: Int? = nil
  ) {
    self.status = status
    self.reason = reason
    self.timestamp = timestamp
    self.delayMilliseconds = delayMilliseconds
    self.times = times
  }

  enum CodingKeys: String, CodingKey, CaseIterable {
    case status, reason, timestamp, times
    case delayMilliseconds = "delay_ms"
  }

  /// From JSON: a missing `status` is 200, an unknown field an error.
  public init(from decoder: any Decoder) throws {
    let fields = try StrictFields<CodingKeys>(decoder)
    self.init(
      status: try fields.number(.status, 200...599) ?? 200, reason: try fields.value(.reason),
      timestamp: try fields.number(.timestamp, 0...Int.max),
      delayMilliseconds: try fields.number(.delayMilliseconds, 0...600_000) ?? 0,
      times: try fields.number(.times, 1...Int.max))
  }
}
