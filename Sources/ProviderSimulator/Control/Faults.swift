import Foundation

/// What the simulator does wrong on purpose.
package struct Faults: Sendable, Equatable {
  /// On the APNs listener.
  package var apns = ProviderFaults()
  /// On FCM's `messages:send`.
  package var fcm = ProviderFaults()
  /// On the push service of Web Push, at its endpoints.
  package var webPush = ProviderFaults()
  /// Milliseconds before each answer of the OAuth endpoint.
  package var oauthLatencyMilliseconds = 0
  /// The OAuth endpoint answers with this instead.
  package var oauthStatus: Int?
  /// Keep notifications for reading; false only counts them, for long runs.
  package var record = true

  package init() {}

  /// Those of one provider.
  package subscript(provider: Delivery.Provider) -> ProviderFaults {
    get {
      switch provider {
      case .apns: apns
      case .fcm: fcm
      case .webPush: webPush
      }
    }
    set {
      switch provider {
      case .apns: apns = newValue
      case .fcm: fcm = newValue
      case .webPush: webPush = newValue
      }
    }
  }
}

/// Faults of one provider. `every` counts that provider's requests: every Nth is hit.
package struct ProviderFaults: Sendable, Equatable {
  /// Closes each connection: at once for APNs, at the first push for the others, whose ports also serve the control
  /// calls or the phones.
  package var outage = false
  /// Milliseconds before each answer.
  package var latencyMilliseconds = 0
  /// GOAWAY after this many requests of a connection, which is then closed (HTTP/1.1: `Connection: close`).
  package var goAwayEvery: Int?
  /// RST_STREAM instead of an answer; the notification is not taken.
  package var resetEvery: Int?
  /// The error code of that RST_STREAM.
  package var resetCode = ResetCode.refusedStream
  /// Closes the connection instead of answering; the notification is not taken.
  package var dropEvery: Int?
  /// Takes the notification, then closes the connection instead of answering.
  package var loseAnswerEvery: Int?
  /// No answer to this request, ever.
  package var neverAnswerEvery: Int?
  /// From this request on the connection stays open but reads nothing more, not even a PING: the peer has vanished.
  package var freezeEvery: Int?
  /// An error or a redirect instead of the true answer.
  package var status: Int?
  /// The reason of that error in the provider's own words; nil is the usual one.
  package var reason: String?
  /// Which requests get that error.
  package var every = 1
  /// `Retry-After` of that error: seconds, or an HTTP-date (RFC 9110 10.2.3).
  package var retryAfter: String?
  /// `Location` of that answer: where a redirect leads.
  package var location: String?
  /// Answers have a body without an end.
  package var endless = false
  /// Errors have an HTML body, as from a proxy or an edge server in between.
  package var html = false

  /// What comes along with that answer.
  var headers: [(name: String, value: String)] {
    [("retry-after", retryAfter), ("location", location)].compactMap { name, value in value.map { (name, $0) }
    }
  }

  /// RFC 9113 7: what a RST_STREAM says.
  package enum ResetCode: String, Sendable, CaseIterable {
    /// Not processed: safe to send again.
    case refusedStream = "REFUSED_STREAM"
    case internalError = "INTERNAL_ERROR"
    case cancel = "CANCEL"
  }
}

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

  /// Milliseconds since 1970, where the answer has one.
  func timestamp(at now: Date) -> Int? {
    switch timestamp {
    case .at(let milliseconds): milliseconds
    case .now: status == 410 ? Int(now.timeIntervalSince1970 * 1000) : nil
    case .none: nil
    }
  }
}
