import Crypto
import CryptoExtras
import Foundation
import HTTP
import NIOHTTP2
import Providers
import ServiceLifecycle
import Synchronization

extension SimulatedProviders {
  /// Sets the rule for a token's answers, in both environments or the one that it names; nil: the ordinary answer.
  package func setToken(_ token: String, _ rule: TokenRule?) {
    state.withLock { state in
      if let rule {
        state.rules[RuleKey(token, rule.environment)] = rule
      } else {
        for environment in RuleKey.environments { state.rules[RuleKey(token, environment)] = nil }
      }
    }
  }

  func hasRule(for token: String) -> Bool {
    state.withLock { state in RuleKey.environments.contains { state.rules[RuleKey(token, $0)] != nil } }
  }

  /// The rule for a token that is about to be answered; counts down its `times`.
  ///
  /// - Parameter environment: of APNs, nil for the other services.
  func takeRule(for token: String, in environment: APNsCredential.Environment?) -> TokenRule? {
    state.withLock { state in
      guard !state.rules.isEmpty else { return nil }
      let keys = [RuleKey(token, environment), RuleKey(token, nil)]
      guard let key = keys.first(where: { state.rules[$0] != nil }), let rule = state.rules[key] else {
        return nil
      }
      if let times = rule.times { state.rules[key]?.times = times - 1 }
      if rule.times == 1 { state.rules[key] = nil }
      return rule
    }
  }

  /// What a rule is for.
  struct RuleKey: Hashable {
    static let environments: [APNsCredential.Environment?] = [nil, .production, .sandbox]

    let token: String
    let environment: APNsCredential.Environment?

    init(_ token: String, _ environment: APNsCredential.Environment?) {
      // APNs tokens are hex in either case; both spellings are one device.
      self.token = token.utf8.allSatisfy { $0.hexadecimalValue != nil } ? token.lowercased() : token
      self.environment = environment
    }
  }

  /// Which of a provider's faults hit one request.
  struct Fate {
    var faults: ProviderFaults
    var number: Int

    func hits(_ every: Int?) -> Bool { every.map(number.isMultiple) ?? false }

    /// The action for a request that a fault hits before it is read.
    var action: Action? {
      if faults.outage || hits(faults.dropEvery) { return .dropConnection }
      if hits(faults.freezeEvery) { return .freezeConnection }
      if hits(faults.neverAnswerEvery) { return .ignore }
      guard hits(faults.resetEvery) else { return nil }
      return switch faults.resetCode {
      case .refusedStream: .reset(.refusedStream)
      case .internalError: .reset(.internalError)
      case .cancel: .reset(.cancel)
      }
    }

    /// The status of a fault's answer; nil: the ordinary one.
    var status: Int? { hits(faults.every) ? faults.status ?? (faults.html ? 502 : nil) : nil }
  }

  /// Counts a request to a provider and says which faults hit it.
  func fate(of provider: Delivery.Provider) -> Fate {
    state.withLock { state in
      state.requests[provider, default: 0] += 1
      return Fate(faults: state.faults[provider], number: state.requests[provider, default: 0])
    }
  }

  /// Records and counts an answered push. `kept` gets the sequence number before any reader sees the
  /// delivery.
  func record(_ delivery: Delivery, kept: (Int) -> Void) {
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
