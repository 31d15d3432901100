public import Foundation
public import Providers

/// Decides, per route, whether an answer ends a registration (`spec/decisions.md` 7).
///
/// A provider says of some tokens that they are dead; of others only that it refuses them, which a
/// wrong topic or the wrong environment brings about as well, for every token at once. The guard
/// believes such answers only on a route that has worked, and only while they are the exception.
public struct DeletionGuard: Sendable {
  /// What an answer means for the registration.
  public enum Verdict: String, Sendable, Hashable {
    /// It stays.
    case keep
    /// It ends, unless it was made again meanwhile.
    case end
    /// It stays, because the route itself is in doubt.
    case doubtRoute
  }

  /// How many answers are looked back on.
  static let window = 50

  private var hasDelivered = false
  /// Whether each of the latest answers was a suspect one; the oldest is overwritten.
  private var answers: [Bool] = []
  private var next = 0
  private var suspects = 0

  /// A route that has not been used yet.
  public init() {}

  /// Takes an answer into account and judges it.
  ///
  /// - Parameter registeredAt: when the registration was last made.
  public mutating func judge(_ outcome: Outcome, registeredAt: Date) -> Verdict {
    switch outcome {
    case .delivered:
      hasDelivered = true
      record(isSuspect: false)
      return .keep
    case .dead(_, let since):
      record(isSuspect: false)
      return since.map { registeredAt < $0 } ?? true ? .end : .keep
    case .suspect:
      record(isSuspect: true)
      return hasDelivered && suspects * 2 <= answers.count ? .end : .doubtRoute
    case .rejected:
      record(isSuspect: false)
      return .keep
    case .retry, .misconfigured:
      // No answer about a token.
      return .keep
    }
  }

  private mutating func record(isSuspect: Bool) {
    if answers.count < Self.window {
      answers.append(isSuspect)
    } else {
      if answers[next] { suspects -= 1 }
      answers[next] = isSuspect
      next = (next + 1) % Self.window
    }
    if isSuspect { suspects += 1 }
  }
}
