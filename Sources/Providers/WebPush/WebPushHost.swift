/// What is known of a push service beyond the health of its route: whether it has proven itself.
struct WebPushHost: Sendable {
  let shares: WebPushShares
  let standing: WebPushShares.Standing

  init(shares: WebPushShares) {
    self.shares = shares
    standing = shares.standing()
  }

  /// It has answered, or has not.
  func note(_ answer: RouteAnswer) {
    switch answer {
    case .given: shares.note(standing, isProven: true)
    case .missing(.retry(_, _, .caller)), .notAsked: break
    case .missing: shares.note(standing, isProven: false)
    }
  }
}
