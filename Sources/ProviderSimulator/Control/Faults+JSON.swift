import HTTP
import NIOCore

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
