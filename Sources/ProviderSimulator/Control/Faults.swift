import Foundation
import HTTP
import NIOCore

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

extension TokenRule {
  init(_ body: ByteBuffer) throws(ControlError) {
    let object = try ControlObject(
      body, allowed: ["status", "reason", "timestamp", "retry_after", "delay_ms", "times"])
    self.init(
      status: try object.number("status", 200...599) ?? 200, reason: try object.text("reason"),
      retryAfter: try object.retryAfter(), delayMilliseconds: try object.number("delay_ms", 0...600_000) ?? 0,
      times: try object.number("times", 1...Int.max))
    if object.isNull("timestamp") {
      timestamp = .none
    } else if let milliseconds = try object.number("timestamp", 0...Int.max) {
      timestamp = .at(milliseconds)
    }
  }
}

extension Faults {
  init(_ body: ByteBuffer) throws(ControlError) {
    let providers = Delivery.Provider.allCases
    let object = try ControlObject(
      body,
      allowed: ProviderFaults.names + ["oauth_latency_ms", "oauth_status", "record"]
        + providers.map(\.rawValue))
    // Flat members are for all providers; those under a provider's name are added to them.
    let all = try ProviderFaults(object, over: ProviderFaults())
    for provider in providers {
      let own = try object.nested(provider.rawValue, allowed: ProviderFaults.names)
      self[provider] =
        try own.map { object throws(ControlError) in try ProviderFaults(object, over: all) } ?? all
    }
    oauthLatencyMilliseconds = try object.number("oauth_latency_ms", 0...600_000) ?? 0
    oauthStatus = try object.number("oauth_status", 400...599)
    record = try object.flag("record") ?? true
  }

  /// As `GET /_control/faults` shows them: what is off is left out.
  var json: JSON {
    var shown: JSON.Object = ["record": .bool(record)]
    if oauthLatencyMilliseconds > 0 {
      shown["oauth_latency_ms"] = .integer(Int64(oauthLatencyMilliseconds))
    }
    shown["oauth_status"] = oauthStatus.map { .integer(Int64($0)) }
    for provider in Delivery.Provider.allCases { shown[provider.rawValue] = self[provider].json }
    return .object(shown)
  }
}

extension ProviderFaults {
  private enum Member {
    case flag(WritableKeyPath<ProviderFaults, Bool>)
    case number(WritableKeyPath<ProviderFaults, Int>, ClosedRange<Int>)
    case status(WritableKeyPath<ProviderFaults, Int?>, ClosedRange<Int>)
    /// 0 is off, like leaving it out.
    case every(WritableKeyPath<ProviderFaults, Int?>)
    case text(WritableKeyPath<ProviderFaults, String?>)
    case retryAfter(WritableKeyPath<ProviderFaults, String?>)
    case resetCode
  }

  private static var members: [(name: String, member: Member)] {
    [
      ("outage", .flag(\.outage)), ("latency_ms", .number(\.latencyMilliseconds, 0...600_000)),
      ("goaway_every", .every(\.goAwayEvery)), ("rst_every", .every(\.resetEvery)),
      ("rst_code", .resetCode), ("drop_every", .every(\.dropEvery)),
      ("lose_answer_every", .every(\.loseAnswerEvery)),
      ("never_answer_every", .every(\.neverAnswerEvery)), ("freeze_every", .every(\.freezeEvery)),
      ("status", .status(\.status, 300...599)), ("reason", .text(\.reason)),
      ("every", .number(\.every, 1...Int.max)), ("retry_after", .retryAfter(\.retryAfter)),
      ("location", .text(\.location)), ("endless", .flag(\.endless)), ("html", .flag(\.html)),
    ]
  }

  fileprivate static let names = members.map(\.name)

  fileprivate init(_ object: ControlObject, over base: ProviderFaults) throws(ControlError) {
    self = base
    for (name, member) in Self.members {
      switch member {
      case .flag(let path): self[keyPath: path] = try object.flag(name) ?? self[keyPath: path]
      case .number(let path, let range):
        self[keyPath: path] = try object.number(name, range) ?? self[keyPath: path]
      case .status(let path, let range):
        self[keyPath: path] = try object.number(name, range) ?? self[keyPath: path]
      case .every(let path):
        let every = try object.number(name, 0...Int.max)
        self[keyPath: path] = every == 0 ? self[keyPath: path] : every ?? self[keyPath: path]
      case .text(let path): self[keyPath: path] = try object.text(name) ?? self[keyPath: path]
      case .retryAfter(let path): self[keyPath: path] = try object.retryAfter() ?? self[keyPath: path]
      case .resetCode:
        guard let code = try object.text(name) else { continue }
        guard let known = ResetCode(rawValue: code) else {
          let codes = ResetCode.allCases.map(\.rawValue).joined(separator: ", ")
          throw object.error(name, "must be one of \(codes)")
        }
        resetCode = known
      }
    }
    // The text becomes a header field, where a line break would begin another one.
    guard location?.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) ?? true else {
      throw object.error("location", "must be a URL")
    }
    guard status != nil || html || (reason == nil && retryAfter == nil && location == nil && every == 1)
    else {
      throw object.error("status", "is missing: reason, every, retry_after and location belong to it")
    }
  }

  fileprivate var json: JSON {
    let off = ProviderFaults()
    var shown = JSON.Object()
    for (name, member) in Self.members {
      switch member {
      case .flag(let path): if self[keyPath: path] { shown[name] = true }
      case .number(let path, _):
        if self[keyPath: path] != off[keyPath: path] { shown[name] = .integer(Int64(self[keyPath: path])) }
      case .status(let path, _), .every(let path):
        shown[name] = self[keyPath: path].map { .integer(Int64($0)) }
      case .text(let path), .retryAfter(let path): shown[name] = self[keyPath: path].map(JSON.string)
      case .resetCode: if resetEvery != nil { shown[name] = .string(resetCode.rawValue) }
      }
    }
    return .object(shown)
  }
}
