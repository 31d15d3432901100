import Foundation

/// Whom a 429 of a push service concerns. It may mean the sender or the one subscription (RFC 8030 section 8.4), and does
/// not say which: the first one keeps away from the host. Where the host has taken messages for others since, the next
/// one is about the subscription alone, so that one phone's quota does not hold up everybody's.
struct WebPushPauses: Sendable {
  /// Subscriptions that are remembered.
  static let most = 100
  /// For so long, in seconds.
  static let memory: TimeInterval = 3600
  /// A host is not left alone for longer, in seconds: then one message shows whether it takes others again.
  static let longest: TimeInterval = 600

  /// When each was refused first.
  private var refused: [Int: Date] = [:]
  private var delivered = Date.distantPast

  /// The outcome of a message for a subscription, with the scope that it has in the light of others.
  mutating func judge(_ outcome: Outcome, for subscription: Int, now: Date) -> Outcome {
    switch outcome {
    case .delivered:
      refused[subscription] = nil
      delivered = now
      return outcome
    case .retry(.tooManyRequests, let notBefore, _):
      let first = refused[subscription]
      if let first, abs(now.timeIntervalSince(first)) < Self.memory {
        guard delivered <= first else { return .retry(.tooManyRequests, notBefore: notBefore, scope: .token) }
      } else {
        if refused.count >= Self.most { refused = [:] }
        refused[subscription] = now
      }
      let latest = now + Self.longest
      return .retry(.tooManyRequests, notBefore: min(notBefore ?? latest, latest), scope: .route)
    default:
      return outcome
    }
  }
}
