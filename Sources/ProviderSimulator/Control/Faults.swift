/// What the simulator does wrong on purpose.
public struct Faults: Sendable, Equatable {
  /// On the APNs listener.
  public var apns = ProviderFaults()
  /// On FCM's `messages:send`.
  public var fcm = ProviderFaults()
  /// Milliseconds before each answer of the OAuth endpoint.
  public var oauthLatencyMilliseconds = 0
  /// The OAuth endpoint answers with this instead.
  public var oauthStatus: Int?
  /// Keep notifications for reading; false only counts them, for long runs.
  public var record = true

  /// No faults.
  public init() {}
}

/// Faults of one provider. `every` counts that provider's requests: every Nth is hit.
public struct ProviderFaults: Sendable, Equatable {
  /// Closes each connection: at once for APNs, at the first push for FCM, whose port also serves the control calls.
  public var outage = false
  /// Milliseconds before each answer.
  public var latencyMilliseconds = 0
  /// GOAWAY after this many requests of a connection, which is then closed (HTTP/1.1: `Connection: close`).
  public var goAwayEvery: Int?
  /// RST_STREAM instead of an answer; the notification is not taken.
  public var resetEvery: Int?
  /// The error code of that RST_STREAM.
  public var resetCode = ResetCode.refusedStream
  /// Closes the connection instead of answering; the notification is not taken.
  public var dropEvery: Int?
  /// Takes the notification, then closes the connection instead of answering.
  public var loseAnswerEvery: Int?
  /// No answer to this request, ever.
  public var neverAnswerEvery: Int?
  /// From this request on the connection stays open but reads nothing more, not even a PING: the peer has vanished.
  public var freezeEvery: Int?
  /// An error instead of the true answer.
  public var status: Int?
  /// The APNs reason or FCM error code of that error; nil is the usual one.
  public var reason: String?
  /// Which requests get that error.
  public var every = 1
  /// `Retry-After` of that error: seconds, or an HTTP-date (RFC 9110 10.2.3).
  public var retryAfter: String?
  /// Errors have an HTML body, as from a proxy or an edge server in between.
  public var html = false

  /// No faults.
  public init() {}

  /// RFC 9113 7: what a RST_STREAM says.
  public enum ResetCode: String, Sendable, CaseIterable {
    /// Not processed: safe to send again.
    case refusedStream = "REFUSED_STREAM"
    case internalError = "INTERNAL_ERROR"
    case cancel = "CANCEL"
  }
}
