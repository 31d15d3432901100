import Synchronization

/// The faults and token rules in force, and whose turn it is.
final class FaultPlan: Sendable {
  /// What is to become of one request before anything is looked at.
  struct Fate: Sendable {
    var drops = false
    var resets = false
    var isNeverAnswered = false
    var goesAway = false
    var isRecorded = true
    var latencyMilliseconds = 0
    var failure: Failure?
  }

  /// An answer that replaces the right one.
  struct Failure: Sendable {
    var status: Int
    var reason: String?
    var retryAfter: String?
    var isHTML: Bool
  }

  private struct State {
    var faults = SimulatorFaults()
    /// No fault is set: the common case, which is to cost nothing.
    var isQuiet = true
    var requests = 0
    var rules: [String: TokenRule] = [:]
  }

  private let state = Mutex(State())

  var faults: SimulatorFaults {
    get { state.withLock { $0.faults } }
    set {
      state.withLock { state in
        state.faults = newValue
        state.isQuiet = newValue == SimulatorFaults()
        state.requests = 0
      }
    }
  }

  /// The next request's fate.
  func next() -> Fate {
    state.withLock { state in
      guard !state.isQuiet else { return Fate() }
      state.requests += 1
      let faults = state.faults
      let number = state.requests
      func isDue(_ every: Int?) -> Bool {
        every.map { number.isMultiple(of: $0) } ?? false
      }
      var fate = Fate(
        drops: faults.outage || isDue(faults.dropEvery), resets: isDue(faults.resetEvery),
        isNeverAnswered: isDue(faults.neverAnswerEvery), goesAway: isDue(faults.goawayEvery),
        isRecorded: faults.record, latencyMilliseconds: faults.latencyMilliseconds)
      if faults.status != nil || faults.html, isDue(faults.every ?? 1) {
        fate.failure = Failure(
          status: faults.status ?? 502, reason: faults.reason, retryAfter: faults.retryAfter,
          isHTML: faults.html)
      }
      return fate
    }
  }

  /// The rule for a token, used up by one.
  func rule(for token: String) -> TokenRule? {
    state.withLock { state in
      guard !state.rules.isEmpty, let rule = state.rules[token] else { return nil }
      if let times = rule.times {
        if times > 1 {
          state.rules[token]?.times = times - 1
        } else {
          state.rules[token] = nil
        }
      }
      return rule
    }
  }

  func set(_ rule: TokenRule?, for token: String) {
    state.withLock { $0.rules[token] = rule }
  }

  /// As new.
  func reset() {
    state.withLock { $0 = State() }
  }
}
