/// What an answer asks for beyond what it means for its notification: which connections still serve, and whether
/// another try at once may do better. Its outcome is what remains when that did not help.
struct Remedy: Sendable, Hashable {
  /// Which connections are used no more.
  enum Connections: Sendable, Hashable {
    case none
    /// The one that it came over.
    case this
    /// That one, and any that was begun before.
    case untilNow
    /// All that there are.
    case all
  }

  enum Again: Sendable, Hashable {
    case no
    /// Once, at once, over another connection.
    case atOnce
    /// The same if there is another token.
    case withAnotherToken
  }

  var retired = Connections.none
  var again = Again.no

  /// After APNs' answer (Apple, "Establishing a token-based connection to APNs" and "Handling notification responses
  /// from APNs").
  static func afterAPNs(_ outcome: Outcome) -> Remedy {
    switch outcome.reason {
    case .expiredProviderToken: Remedy(retired: .untilNow, again: .withAnotherToken)
    // The first token on a connection fixes its key.
    case .unrelatedKeyIDInToken: Remedy(retired: .untilNow, again: .atOnce)
    // The connection is unusable for a while; the token is as good as ever.
    case .tooManyProviderTokenUpdates, .idleTimeout: Remedy(retired: .this, again: .atOnce)
    // The key is revoked, or was never good.
    case .invalidProviderToken: Remedy(retired: .all)
    case .internalServerError, .serviceUnavailable, .shutdown, .serverError: Remedy(retired: .this)
    // The key may have got the topic since the connection was opened.
    case .topicDisallowed: Remedy(retired: .this)
    default: Remedy()
    }
  }

  /// After FCM's answer: the access token may have run out, or been revoked.
  static func afterFCM(_ outcome: Outcome) -> Remedy {
    outcome.reason == .fcmUnauthenticated ? Remedy(again: .withAnotherToken) : Remedy()
  }

  /// After a push service's answer: the VAPID token may have been made by a wrong clock.
  static func afterWebPush(_ outcome: Outcome) -> Remedy {
    outcome.reason == .vapidRefused ? Remedy(again: .withAnotherToken) : Remedy()
  }
}
