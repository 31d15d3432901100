import Foundation
import HTTP
import NIOCore
package import Providers

/// What the simulator does wrong on purpose.
package struct Faults: Sendable, Equatable {
  package var apns = ProviderFaults()
  package var fcm = ProviderFaults()
  package var webPush = ProviderFaults()
  /// Milliseconds before each answer of the OAuth endpoint.
  package var oauthLatencyMilliseconds = 0
  /// The OAuth endpoint answers with this instead.
  package var oauthStatus: Int?
  /// Keep notifications for reading; false only counts them, for long runs.
  package var record = true

  package init() {}

  subscript(provider: Delivery.Provider) -> ProviderFaults {
    switch provider {
    case .apns: apns
    case .fcm: fcm
    case .webPush: webPush
    }
  }
}

/// Faults of one provider. `every` counts that provider's requests: every Nth is hit.
package struct ProviderFaults: Sendable, Equatable, Codable {
  /// Closes each connection: at once for APNs, at the first push for the others, whose ports also serve the control
  /// calls or the phones.
  package var outage = false
  /// Milliseconds before each answer.
  package var latencyMilliseconds = 0
  /// GOAWAY after this many requests of a connection, which is then closed (HTTP/1.1: `Connection: close`).
  package var goAwayEvery: Int?
  /// RST_STREAM instead of an answer; the notification is not taken.
  package var resetEvery: Int?
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

  /// The names of the control calls.
  enum CodingKeys: String, CodingKey, CaseIterable {
    case outage, status, reason, every, location, endless, html
    case latencyMilliseconds = "latency_ms"
    case goAwayEvery = "goaway_every"
    case resetEvery = "rst_every"
    case resetCode = "rst_code"
    case dropEvery = "drop_every"
    case loseAnswerEvery = "lose_answer_every"
    case neverAnswerEvery = "never_answer_every"
    case freezeEvery = "freeze_every"
    case retryAfter = "retry_after"
  }

  /// Header fields of that answer.
  var headers: [(name: String, value: String)] {
    [("retry-after", retryAfter), ("location", location)].compactMap { name, value in value.map { (name, $0) }
    }
  }

  /// RFC 9113 7: what a RST_STREAM says.
  package enum ResetCode: String, Sendable, CaseIterable, Codable {
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

  /// The environment of APNs that answers so; nil: both.
  package var environment: APNsCredential.Environment?
  /// 200 accepts, and makes a malformed APNs token good.
  package var status: Int
  /// APNs reason or FCM error code; nil is the usual one for the status.
  package var reason: String?
  package var timestamp: Timestamp
  /// `Retry-After` of the answer: seconds or an HTTP-date.
  package var retryAfter: String?
  /// Milliseconds before the answer.
  package var delayMilliseconds: Int
  /// How many pushes it applies to before it is forgotten; nil is all.
  package var times: Int?

  package init(
    status: Int, reason: String? = nil, timestamp: Timestamp = .now, retryAfter: String? = nil,
    delayMilliseconds: Int = 0, times: Int? = nil, environment: APNsCredential.Environment? = nil
  ) {
    self.environment = environment
    self.status = status
    self.reason = reason
    self.timestamp = timestamp
    self.retryAfter = retryAfter
    self.delayMilliseconds = delayMilliseconds
    self.times = times
  }

  /// Header fields of the answer.
  var headers: [(name: String, value: String)] { retryAfter.map { [("retry-after", $0)] } ?? [] }

  /// The answer's `timestamp` in milliseconds since 1970; nil if it has none.
  func timestamp(at now: Date) -> Int? {
    switch timestamp {
    case .at(let milliseconds): milliseconds
    case .now: status == 410 ? Int(now.timeIntervalSince1970 * 1000) : nil
    case .none: nil
    }
  }
}

// MARK: As the control calls have them

extension ProviderFaults {
  fileprivate func check(of provider: Delivery.Provider) throws(ControlError) {
    // The text becomes a header field, where a line break would begin another one.
    guard location?.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) ?? true else {
      throw ControlError(message: "\(provider.rawValue).location must be a URL")
    }
    guard status != nil || html || (reason == nil && retryAfter == nil && location == nil && every == 1)
    else {
      throw ControlError(
        message:
          "\(provider.rawValue).status is missing: reason, every, retry_after and location belong to it")
    }
  }
}

extension Faults: Codable {
  private enum CodingKeys: String, CodingKey, CaseIterable {
    case apns, fcm, record
    case webPush = "webpush"
    case oauthLatencyMilliseconds = "oauth_latency_ms"
    case oauthStatus = "oauth_status"
  }

  private static let ranges = [
    "latency_ms": 0...600_000, "status": 300...599, "every": 1...Int.max, "oauth_latency_ms": 0...600_000,
    "oauth_status": 400...599,
  ]

  init(_ body: ByteBuffer) throws(ControlError) {
    let given = try JSON.Object(control: body)
    let names = ProviderFaults.CodingKeys.allCases.map(\.rawValue)
    try given.check(CodingKeys.allCases.map(\.rawValue) + names, Self.ranges)
    var all = JSON.Object(encoding: Faults())
    for key in [CodingKeys.record, .oauthLatencyMilliseconds, .oauthStatus] {
      all.add([.init(key.rawValue, given[key.rawValue] ?? .null)])
    }
    // Top-level members apply to all providers; those under a provider's name are added to them.
    for provider in Delivery.Provider.allCases {
      var faults = JSON.Object(encoding: ProviderFaults())
      faults.add(given.members.filter { names.contains($0.name.text) })
      if let own = given[provider.rawValue] {
        guard case .object(let own) = own else {
          throw ControlError(message: "\(provider.rawValue) must be an object")
        }
        try own.check(names, Self.ranges, at: provider.rawValue + ".")
        faults.add(own.members)
      }
      all[provider.rawValue] = .object(faults)
    }
    self = try all.decode()
    for provider in Delivery.Provider.allCases { try self[provider].check(of: provider) }
  }

  /// As `GET /_control/faults` shows them: what is off is left out.
  var json: JSON {
    func difference(_ value: some Encodable, from off: some Encodable) -> JSON.Object {
      let off = JSON.Object(encoding: off)
      return JSON.Object(JSON.Object(encoding: value).members.filter { off[$0.name.text] != $0.value })
    }
    var shown = difference(self, from: Faults())
    shown["record"] = .bool(record)
    for provider in Delivery.Provider.allCases {
      shown[provider.rawValue] = .object(difference(self[provider], from: ProviderFaults()))
    }
    return .object(shown)
  }
}

extension TokenRule {
  private struct Body: Decodable {
    var status: Int?
    var reason: String?
    var timestamp: Int?
    var retry_after: String?
    var delay_ms: Int?
    var times: Int?
    var environment: APNsCredential.Environment?
  }

  init(_ body: ByteBuffer) throws(ControlError) {
    let given = try JSON.Object(control: body)
    try given.check(
      ["status", "reason", "timestamp", "retry_after", "delay_ms", "times", "environment"],
      ["status": 200...599, "delay_ms": 0...600_000, "times": 1...Int.max])
    var known = JSON.Object()
    known.add(given.members)
    let rule: Body = try known.decode()
    self.init(
      status: rule.status ?? 200, reason: rule.reason,
      timestamp: rule.timestamp.map(Timestamp.at) ?? (given["timestamp"] == nil ? .now : .none),
      retryAfter: rule.retry_after, delayMilliseconds: rule.delay_ms ?? 0, times: rule.times,
      environment: rule.environment)
  }
}
