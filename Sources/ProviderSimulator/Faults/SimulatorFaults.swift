/// What a simulator does wrong on purpose, on both ports. As JSON for `/_control/faults`, with the
/// names below in snake case; a value replaces all of the one before.
///
/// "Every N" counts the requests of both providers together since the faults were set; the control
/// interface is spared from all of them.
public struct SimulatorFaults: Sendable, Hashable, Codable {
  /// A provider that is not there: APNs closes new connections, and any request ends its connection.
  public var outage = false
  /// Pause before each answer to a notification or message.
  public var latencyMilliseconds = 0
  /// Every Nth answer is followed by GOAWAY and, when the streams up to it are answered, the end of the connection.
  public var goawayEvery: Int?
  /// Every Nth request is answered with RST_STREAM (over HTTP/1.1: the connection is dropped).
  public var resetEvery: Int?
  /// Every Nth request drops the connection with all that is in flight on it.
  public var dropEvery: Int?
  /// Every Nth request is never answered.
  public var neverAnswerEvery: Int?
  /// Requests are answered with this status.
  public var status: Int?
  /// APNs' reason or FCM's error code for `status`; nil for one that suits it.
  public var reason: String?
  /// `status` (or `html`) is for every Nth request; nil for each.
  public var every: Int?
  /// A `Retry-After` with `status`: seconds or an HTTP-date, sent as it is.
  public var retryAfter: String?
  /// The body with `status` (502 if that is nil) is a page of HTML, as a proxy's.
  public var html = false
  /// The OAuth endpoint answers with this status.
  public var oauthStatus: Int?
  /// Pause before each answer of the OAuth endpoint.
  public var oauthLatencyMilliseconds = 0
  /// Whether deliveries are kept to be looked at; they are counted in any case.
  public var record = true

  /// No faults.
  public init() {}

  enum CodingKeys: String, CodingKey, CaseIterable {
    case outage, status, reason, every, html, record
    case latencyMilliseconds = "latency_ms"
    case goawayEvery = "goaway_every"
    case resetEvery = "rst_every"
    case dropEvery = "drop_every"
    case neverAnswerEvery = "never_answer_every"
    case retryAfter = "retry_after"
    case oauthStatus = "oauth_status"
    case oauthLatencyMilliseconds = "oauth_latency_ms"
  }

  /// From JSON: each field may be missing, an unknown one or a nonsensical value is an error.
  public init(from decoder: any Decoder) throws {
    let fields = try StrictFields<CodingKeys>(decoder)
    outage = try fields.value(.outage) ?? false
    latencyMilliseconds = try fields.number(.latencyMilliseconds, 0...600_000) ?? 0
    goawayEvery = try fields.number(.goawayEvery, 1...Int.max)
    resetEvery = try fields.number(.resetEvery, 1...Int.max)
    dropEvery = try fields.number(.dropEvery, 1...Int.max)
    neverAnswerEvery = try fields.number(.neverAnswerEvery, 1...Int.max)
    status = try fields.number(.status, 400...599)
    reason = try fields.value(.reason)
    every = try fields.number(.every, 1...Int.max)
    retryAfter = try fields.numberOrText(.retryAfter)
    html = try fields.value(.html) ?? false
    oauthStatus = try fields.number(.oauthStatus, 400...599)
    oauthLatencyMilliseconds = try fields.number(.oauthLatencyMilliseconds, 0...600_000) ?? 0
    record = try fields.value(.record) ?? true
  }
}
