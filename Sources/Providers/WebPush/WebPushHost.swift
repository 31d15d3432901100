import Foundation
import Synchronization

/// What is known of a push service beyond the health of its route: whether it has proven itself, and whom it wants to
/// hear less of.
struct WebPushHost: Sendable {
  let shares: WebPushShares
  let standing: WebPushShares.Standing
  private let pauses = Pauses()

  /// A mutex cannot be copied.
  private final class Pauses: Sendable {
    let pauses = Mutex(WebPushPauses())
  }

  init(shares: WebPushShares) {
    self.shares = shares
    standing = shares.standing()
  }

  /// What an answer means in the light of others.
  func judge(_ answer: RouteAnswer, of push: Push, now: Date) -> RouteAnswer {
    switch answer {
    case .given(let outcome):
      shares.note(standing, isProven: true)
      guard case .webPush(let message) = push else { return answer }
      let subscription = message.subscription.endpoint.url.hashValue
      return .given(pauses.pauses.withLock { $0.judge(outcome, for: subscription, now: now) })
    case .missing(.retry(_, _, .caller)), .notAsked:
      return answer
    case .missing:
      shares.note(standing, isProven: false)
      return answer
    }
  }
}
