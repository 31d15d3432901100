import Foundation
import NIOCore
import NIOFoundationCompat

/// The JSON of the control calls; an unknown field or a value of the wrong type is an error that names it.
enum ControlDecoding {
  static func rule(_ body: ByteBuffer) throws -> TokenRule {
    try JSONDecoder().decode(RuleBody.self, from: body).rule
  }

  static func faults(_ body: ByteBuffer) throws -> Faults {
    try JSONDecoder().decode(FaultsBody.self, from: body).faults
  }

  static func topics(_ body: ByteBuffer) throws -> Set<String> {
    try JSONDecoder().decode(TopicsBody.self, from: body).topics
  }

  /// Faults as `GET /_control/faults` shows them: what is off is left out.
  static func encode(_ faults: Faults) throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return try encoder.encode(FaultsBody(faults: faults))
  }
}

private struct RuleBody: Decodable {
  let rule: TokenRule

  init(from decoder: any Decoder) throws {
    let fields = try Fields(
      decoder, at: "", allowed: ["status", "reason", "timestamp", "retry_after", "delay_ms", "times"])
    var rule = TokenRule(status: try fields.number("status", 200...599) ?? 200)
    rule.reason = try fields.text("reason")
    if fields.isNull("timestamp") {
      rule.timestamp = .none
    } else if let timestamp = try fields.number("timestamp", 0...Int.max) {
      rule.timestamp = .at(timestamp)
    }
    rule.retryAfter = try fields.numberOrText("retry_after")
    rule.delayMilliseconds = try fields.number("delay_ms", 0...600_000) ?? 0
    rule.times = try fields.number("times", 1...Int.max)
    self.rule = rule
  }
}

private struct TopicsBody: Decodable {
  let topics: Set<String>

  init(from decoder: any Decoder) throws {
    guard let topics = try Fields(decoder, at: "", allowed: ["topics"]).texts("topics") else {
      throw ControlError(message: "topics is missing")
    }
    self.topics = Set(topics)
  }
}

private struct FaultsBody: Codable {
  var faults = Faults()

  private static let common: Set<String> = ["oauth_latency_ms", "oauth_status", "record"]

  init(faults: Faults) {
    self.faults = faults
  }

  init(from decoder: any Decoder) throws {
    let fields = try Fields(
      decoder, at: "",
      allowed: ProviderFaults.fields.union(Self.common).union(Delivery.Provider.allCases.map(\.rawValue)))
    // Flat fields are for all providers; those under a provider's name are added to them.
    let all = try ProviderFaults(fields, over: ProviderFaults())
    for provider in Delivery.Provider.allCases {
      faults[provider] =
        try fields.nested(provider.rawValue, allowed: ProviderFaults.fields).map {
          try ProviderFaults($0, over: all)
        } ?? all
    }
    faults.oauthLatencyMilliseconds = try fields.number("oauth_latency_ms", 0...600_000) ?? 0
    faults.oauthStatus = try fields.number("oauth_status", 400...599)
    faults.record = try fields.flag("record") ?? true
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: FieldName.self)
    try container.encode(faults.record, forKey: "record")
    if faults.oauthLatencyMilliseconds > 0 {
      try container.encode(faults.oauthLatencyMilliseconds, forKey: "oauth_latency_ms")
    }
    try container.encodeIfPresent(faults.oauthStatus, forKey: "oauth_status")
    for provider in Delivery.Provider.allCases {
      var nested = container.nestedContainer(keyedBy: FieldName.self, forKey: FieldName(provider.rawValue))
      try faults[provider].write(to: &nested)
    }
  }
}

extension ProviderFaults {
  fileprivate static let fields: Set<String> = [
    "outage", "latency_ms", "goaway_every", "rst_every", "rst_code", "drop_every", "lose_answer_every",
    "never_answer_every", "freeze_every", "status", "reason", "every", "retry_after", "location",
    "endless", "html",
  ]

  fileprivate init(_ fields: Fields, over base: ProviderFaults) throws {
    self = base
    outage = try fields.flag("outage") ?? outage
    latencyMilliseconds = try fields.number("latency_ms", 0...600_000) ?? latencyMilliseconds
    goAwayEvery = try fields.every("goaway_every") ?? goAwayEvery
    resetEvery = try fields.every("rst_every") ?? resetEvery
    if let code = try fields.text("rst_code") {
      guard let known = ResetCode(rawValue: code) else {
        throw ControlError(
          message: "\(fields.name("rst_code")) must be one of "
            + ResetCode.allCases.map(\.rawValue).joined(separator: ", "))
      }
      resetCode = known
    }
    dropEvery = try fields.every("drop_every") ?? dropEvery
    loseAnswerEvery = try fields.every("lose_answer_every") ?? loseAnswerEvery
    neverAnswerEvery = try fields.every("never_answer_every") ?? neverAnswerEvery
    freezeEvery = try fields.every("freeze_every") ?? freezeEvery
    status = try fields.number("status", 300...599) ?? status
    reason = try fields.text("reason") ?? reason
    every = try fields.number("every", 1...Int.max) ?? every
    retryAfter = try fields.numberOrText("retry_after") ?? retryAfter
    location = try fields.text("location") ?? location
    // The text becomes a header field, where a line break would begin another one.
    guard location?.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) ?? true else {
      throw ControlError(message: "\(fields.name("location")) must be a URL")
    }
    endless = try fields.flag("endless") ?? endless
    html = try fields.flag("html") ?? html
    guard status != nil || html || (reason == nil && retryAfter == nil && location == nil && every == 1)
    else {
      throw ControlError(
        message: "\(fields.name("status")) is missing: reason, every, retry_after and location belong to it")
    }
  }

  fileprivate func write(to container: inout KeyedEncodingContainer<FieldName>) throws {
    if outage { try container.encode(true, forKey: "outage") }
    if latencyMilliseconds > 0 { try container.encode(latencyMilliseconds, forKey: "latency_ms") }
    try container.encodeIfPresent(goAwayEvery, forKey: "goaway_every")
    try container.encodeIfPresent(resetEvery, forKey: "rst_every")
    if resetEvery != nil { try container.encode(resetCode.rawValue, forKey: "rst_code") }
    try container.encodeIfPresent(dropEvery, forKey: "drop_every")
    try container.encodeIfPresent(loseAnswerEvery, forKey: "lose_answer_every")
    try container.encodeIfPresent(neverAnswerEvery, forKey: "never_answer_every")
    try container.encodeIfPresent(freezeEvery, forKey: "freeze_every")
    try container.encodeIfPresent(status, forKey: "status")
    try container.encodeIfPresent(reason, forKey: "reason")
    if every > 1 { try container.encode(every, forKey: "every") }
    try container.encodeIfPresent(retryAfter, forKey: "retry_after")
    try container.encodeIfPresent(location, forKey: "location")
    if endless { try container.encode(true, forKey: "endless") }
    if html { try container.encode(true, forKey: "html") }
  }
}

/// Any field's name.
private struct FieldName: CodingKey, ExpressibleByStringLiteral {
  let stringValue: String
  var intValue: Int? { nil }

  init(_ name: String) { stringValue = name }
  init(stringLiteral name: String) { stringValue = name }
  init?(stringValue: String) { self.stringValue = stringValue }
  init?(intValue: Int) { nil }
}

/// An object whose fields are read with errors that name them.
private struct Fields {
  private let container: KeyedDecodingContainer<FieldName>
  private let prefix: String

  init(_ decoder: any Decoder, at prefix: String, allowed: Set<String>) throws {
    try self.init(decoder.container(keyedBy: FieldName.self), at: prefix, allowed: allowed)
  }

  private init(_ container: KeyedDecodingContainer<FieldName>, at prefix: String, allowed: Set<String>) throws
  {
    self.container = container
    self.prefix = prefix
    let unknown = container.allKeys.map(\.stringValue).filter { !allowed.contains($0) }.sorted()
    guard unknown.isEmpty else {
      throw ControlError(
        message: "unknown: \(unknown.map(name).joined(separator: ", ")); known are "
          + allowed.sorted().joined(separator: ", "))
    }
  }

  func name(_ field: String) -> String { prefix.isEmpty ? field : "\(prefix).\(field)" }

  func isNull(_ field: String) -> Bool {
    let key = FieldName(field)
    return container.contains(key) && (try? container.decodeNil(forKey: key)) == true
  }

  private func value<Value: Decodable>(_ field: String, _ wanted: String) throws -> Value? {
    do {
      return try container.decodeIfPresent(Value.self, forKey: FieldName(field))
    } catch {
      throw ControlError(message: "\(name(field)) must be \(wanted)")
    }
  }

  func flag(_ field: String) throws -> Bool? { try value(field, "true or false") }

  func text(_ field: String) throws -> String? { try value(field, "a string") }

  func texts(_ field: String) throws -> [String]? { try value(field, "an array of strings") }

  func number(_ field: String, _ range: ClosedRange<Int>) throws -> Int? {
    let wanted =
      range.upperBound == .max
      ? "a whole number from \(range.lowerBound) on"
      : "a whole number from \(range.lowerBound) to \(range.upperBound)"
    guard let number: Int = try value(field, wanted) else { return nil }
    guard range.contains(number) else { throw ControlError(message: "\(name(field)) must be \(wanted)") }
    return number
  }

  /// 0 is off, like leaving it out.
  func every(_ field: String) throws -> Int? {
    try number(field, 0...Int.max).flatMap { $0 == 0 ? nil : $0 }
  }

  func numberOrText(_ field: String) throws -> String? {
    if let number = try? container.decodeIfPresent(Int.self, forKey: FieldName(field)) {
      return String(number)
    }
    return try value(field, "seconds or an HTTP-date")
  }

  func nested(_ field: String, allowed: Set<String>) throws -> Fields? {
    guard container.contains(FieldName(field)) else { return nil }
    guard let nested = try? container.nestedContainer(keyedBy: FieldName.self, forKey: FieldName(field))
    else {
      throw ControlError(message: "\(name(field)) must be an object")
    }
    return try Fields(nested, at: name(field), allowed: allowed)
  }
}
