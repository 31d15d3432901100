package import Foundation

/// Decides, per route and token group, whether an answer ends a registration.
///
/// A provider says of some tokens that they are dead; of others only that it refuses them, which a
/// wrong topic or the wrong environment brings about as well, for every token at once. The guard
/// believes such answers only on a route that has worked, and only while they are the exception. Nor does it believe
/// that most of those who are asked for have died within minutes: a bad hour of the provider's must not end them all.
package struct DeletionGuard: Sendable {
  /// What an answer means for the registration.
  package enum Verdict: String, Sendable, Hashable {
    /// It stays.
    case keep
    /// It ends, unless it was made again meanwhile.
    case end
    /// It stays, because the route itself is in doubt.
    case doubtRoute
    /// It stays, until the provider has been of that mind for long enough or the operator is.
    case hold
  }

  /// Why the tokens that a route refuses are not believed to be bad.
  package struct Doubt: Sendable, Hashable {
    /// What the provider says of them.
    package let reason: Reason
    /// Since when.
    package let since: Date
  }

  /// How many answers are looked back on.
  static let window = 50

  /// More deaths than this, among those answers and in ``burstInterval``, are doubted if they are more than half.
  static let mostDeaths = 20
  static let burstInterval: TimeInterval = 600

  private enum Answer {
    case suspect, dead, other
  }

  /// What is said of tokens and not believed, while that is so.
  private(set) var doubt: Doubt?
  private var hasDelivered = false
  /// The latest answers; the oldest is overwritten.
  private var answers: [(answer: Answer, time: Date)] = []
  private var next = 0
  private var suspects = 0

  /// Takes an answer into account and judges it.
  ///
  /// - Parameters:
  ///   - registeredAt: when the registration was last made.
  ///   - believedSince: of one that was made by then a death is believed whatever time it names. A provider may take a
  ///     while to notice that a token lives again; but a time before the registration may also come from a call that
  ///     took long or from a clock that was ahead, and then it stays what it is for good.
  mutating func judge(
    _ outcome: Outcome, registeredAt: Date, believedSince: Date, now: Date
  ) -> Verdict {
    switch outcome {
    case .delivered:
      hasDelivered = true
      doubt = nil
      record(.other, now)
      return .keep
    case .dead(_, let since):
      record(.dead, now)
      if let since, registeredAt >= since, registeredAt > believedSince { return .keep }
      return isBurst(now: now) ? .hold : .end
    case .suspect(let reason):
      record(.suspect, now)
      if hasDelivered, suspects * 2 <= answers.count { return .end }
      doubt = doubt ?? Doubt(reason: reason, since: now)
      return .doubtRoute
    case .rejected:
      record(.other, now)
      return .keep
    case .retry, .misconfigured:
      // No answer about a token.
      return .keep
    }
  }

  /// Whether too many have died of late to be believed.
  private func isBurst(now: Date) -> Bool {
    let recent = answers.filter { now.timeIntervalSince($0.time) < Self.burstInterval }
    let deaths = recent.count { $0.answer == .dead }
    return deaths > Self.mostDeaths && deaths * 2 > recent.count
  }

  private mutating func record(_ answer: Answer, _ now: Date) {
    if answers.count < Self.window {
      answers.append((answer, now))
    } else {
      if answers[next].answer == .suspect { suspects -= 1 }
      answers[next] = (answer, now)
      next = (next + 1) % Self.window
    }
    if answer == .suspect { suspects += 1 }
  }
}

/// Tokens that are judged together, and apart from all others: what strangers register says nothing about the devices
/// of others.
package struct TokenGroup: Sendable, Hashable {
  private let id: Int64

  /// The group of this number.
  package init(_ id: Int64) { self.id = id }
}
