/// What is known of a push service beyond the health of its route: whether it has proven itself.
struct WebPushHost: Sendable {
  let shares: WebPushShares
  let standing: WebPushShares.Standing

  init(shares: WebPushShares) {
    self.shares = shares
    standing = shares.standing()
  }

  /// It has answered, or has not.
  func note(_ outcome: Outcome, from source: Outcome.Source) {
    switch (source, outcome) {
    case (.provider, _): shares.note(standing, isProven: true)
    case (.transport, .retry(_, _, .caller)), (.ourselves, _): break
    case (.transport, _): shares.note(standing, isProven: false)
    }
  }
}
