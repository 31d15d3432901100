import Foundation
import NIOCore
import NIOHTTP2
import Synchronization

/// What the listeners share: credentials, faults, rules per token, what arrived.
final class Simulation: Sendable {
  let configuration: SimulatedProviders.Configuration
  let credentials: Credentials
  let log: DeliveryLog

  private struct State {
    var faults = Faults()
    var rules: [String: TokenRule] = [:]
    var counts = Counts()
    var requests: [Delivery.Provider: Int] = [:]
    var topics: Set<String>
  }

  private let state: Mutex<State>

  init(configuration: SimulatedProviders.Configuration, credentials: Credentials) {
    self.configuration = configuration
    self.credentials = credentials
    state = Mutex(State(topics: Set(configuration.topics)))
    log = DeliveryLog(limit: configuration.keptDeliveries)
  }

  var faults: Faults {
    get { state.withLock(\.faults) }
    set { state.withLock { $0.faults = newValue } }
  }

  var counts: Counts { state.withLock(\.counts) }

  func count(_ change: (inout Counts) -> Void) {
    state.withLock { change(&$0.counts) }
  }

  /// Counts a connection, once, as one that pushes.
  func countOnce(_ connection: Connection) {
    guard !connection.isCounted else { return }
    connection.isCounted = true
    count { $0.connections += 1 }
  }

  func reset() {
    state.withLock { $0 = State(topics: Set(configuration.topics)) }
    log.reset()
  }

  /// What the APNs key may push to, for connections that are opened from now on.
  var topics: Set<String> {
    get { state.withLock(\.topics) }
    set { state.withLock { $0.topics = newValue } }
  }

  // MARK: Tokens

  var rules: [String: TokenRule] { state.withLock(\.rules) }

  func setRule(_ rule: TokenRule?, for token: String) {
    state.withLock { $0.rules[Self.key(token)] = rule }
  }

  func hasRule(for token: String) -> Bool {
    state.withLock { $0.rules[Self.key(token)] != nil }
  }

  /// The rule for a token that is about to be answered; counts down its `times`.
  func takeRule(for token: String) -> TokenRule? {
    state.withLock { state in
      guard !state.rules.isEmpty else { return nil }
      let key = Self.key(token)
      guard let rule = state.rules[key] else { return nil }
      if let times = rule.times { state.rules[key]?.times = times - 1 }
      if rule.times == 1 { state.rules[key] = nil }
      return rule
    }
  }

  /// APNs tokens are hex in either case; both spellings are one device.
  private static func key(_ token: String) -> String {
    token.utf8.allSatisfy(\.isHexDigit) ? token.lowercased() : token
  }

  // MARK: Faults

  /// Which of a provider's faults hit one request.
  struct Fate {
    var faults: ProviderFaults
    var number: Int

    func hits(_ every: Int?) -> Bool { every.map { number % $0 == 0 } ?? false }

    /// What happens to a request that is not even looked at.
    var action: Action? {
      if faults.outage || hits(faults.dropEvery) { return .dropConnection }
      if hits(faults.freezeEvery) { return .freezeConnection }
      if hits(faults.neverAnswerEvery) { return .ignore }
      if hits(faults.resetEvery) { return .reset(faults.resetCode.http2) }
      return nil
    }

    /// The status to answer with instead of the true one.
    var status: Int? { hits(faults.every) ? faults.status ?? (faults.html ? 502 : nil) : nil }
  }

  /// Counts a request to a provider and says which faults hit it.
  func fate(of provider: Delivery.Provider) -> Fate {
    state.withLock { state in
      state.requests[provider, default: 0] += 1
      return Fate(faults: state.faults[provider], number: state.requests[provider, default: 0])
    }
  }

  /// Keeps and counts what has been answered. `kept` is told the sequence number before any reader hears of it.
  func record(_ delivery: Delivery, kept: (Int) -> Void = { _ in }) {
    let keep = state.withLock { state in
      switch (delivery.accepted, delivery.provider) {
      case (true, .apns): state.counts.apns += 1
      case (true, .fcm): state.counts.fcm += 1
      case (true, .webPush): state.counts.webPush += 1
      case (false, _): state.counts.refused += 1
      }
      return state.faults.record
    }
    if keep { log.record(delivery, kept: kept) }
  }
}

extension ProviderFaults.ResetCode {
  fileprivate var http2: HTTP2ErrorCode {
    switch self {
    case .refusedStream: .refusedStream
    case .internalError: .internalError
    case .cancel: .cancel
    }
  }
}

extension UInt8 {
  /// 0-9, a-f, A-F.
  var isHexDigit: Bool {
    switch self {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
      UInt8(ascii: "A")...UInt8(ascii: "F"):
      true
    default: false
    }
  }
}
