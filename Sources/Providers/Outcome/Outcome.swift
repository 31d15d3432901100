package import Foundation

/// What an answer of APNs or FCM, or the lack of one, means for a notification and its token.
///
/// Nothing else in the program looks at a provider's status code. The rules stand in
/// `Documentation/Providers.md`; the mapping is a pure function per provider.
package enum Outcome: Sendable, Hashable {
  /// The provider accepted it.
  case delivered
  /// The token is no longer valid; `since` is when APNs last confirmed that, where it says so.
  case dead(Reason, since: Date?)
  /// The token was refused in a way that may also be our own misconfiguration.
  case suspect(Reason)
  /// It may succeed later, not before the given time where the provider names one.
  case retry(Reason, notBefore: Date?, scope: Scope)
  /// The request itself is wrong; sending it again is pointless.
  case rejected(Reason)
  /// A credential, topic or project is wrong, and so is the whole route; the token may well be good.
  case misconfigured(Reason)

  /// What the failure concerns: which other notifications would fail the same way.
  package enum Scope: Sendable, Hashable {
    /// Its device alone. The route works.
    case token
    /// Its device or its route: the provider does not say which. Its route's health makes ``token`` of it, and keeps in
    /// mind whether others are answered so.
    case tokenOrRoute
    /// The connection that it went over, with all that was on it. Another one may be fine.
    case connection
    /// Its route: the next notification would fail the same way.
    case route
    /// The provider, which is out of order.
    case provider
    /// Whoever sent it: nothing was learned about the provider, which has not been handed it.
    case caller
    /// This process, which ends before the answer has come: nobody will know whether it was taken.
    case process
  }

  /// Who says so.
  package enum Source: Sendable {
    /// The provider, of the push that it was sent.
    case provider
    /// The way there: no answer came, or none that the provider gave to the push.
    case transport
    /// This program: the push cannot be sent, and nothing is learned about the route.
    case ourselves
  }

  /// Why; nil for what was delivered.
  package var reason: Reason? {
    switch self {
    case .delivered: nil
    case .dead(let reason, _), .retry(let reason, _, _): reason
    case .suspect(let reason), .rejected(let reason), .misconfigured(let reason): reason
    }
  }

  /// The name of the case, as metrics label it.
  package var label: String {
    switch self {
    case .delivered: "delivered"
    case .dead: "dead"
    case .suspect: "suspect"
    case .retry: "retry"
    case .rejected: "rejected"
    case .misconfigured: "misconfigured"
    }
  }
}

/// Why a request has no answer. ``Reason`` says what those mean that are called alike.
package enum TransportFailure: Error, Hashable, Sendable {
  case timeout, cancelled
  case connectFailed, tlsFailed, forbiddenAddress, proxyRefused
  case connectionLost, streamReset, refused
  case overloaded, shuttingDown, abandoned
  /// The peer has the request and lives, and has not answered it for long.
  case unanswered
  /// The peer answers nothing on the connection, not even a PING, with the request under way.
  case silent
}

extension Outcome {
  /// Nothing was learned about the notification or its token: later is another chance.
  init(_ failure: TransportFailure) {
    let (reason, scope): (Reason, Scope) =
      switch failure {
      case .timeout: (.timeout, .route)
      case .unanswered: (.timeout, .tokenOrRoute)
      case .cancelled: (.cancelled, .caller)
      case .connectFailed: (.connectFailed, .route)
      case .tlsFailed: (.tlsFailed, .route)
      case .forbiddenAddress: (.forbiddenAddress, .route)
      case .proxyRefused: (.proxyRefused, .route)
      case .connectionLost: (.connectionLost, .connection)
      case .silent: (.timeout, .connection)
      case .streamReset: (.streamReset, .connection)
      case .refused: (.refused, .connection)
      case .overloaded: (.overloaded, .caller)
      case .shuttingDown: (.shuttingDown, .caller)
      case .abandoned: (.abandoned, .process)
      }
    self = .retry(reason, notBefore: nil, scope: scope)
  }

  /// Without a token nothing was sent: an outage passes, a bad credential does not.
  init(_ failure: TokenFailure) {
    self =
      switch failure {
      case .unreachable: .retry(.tokenUnavailable, notBefore: nil, scope: .route)
      case .timeout: .retry(.timeout, notBefore: nil, scope: .route)
      case .refused(let reason): .misconfigured(reason)
      }
  }
}

extension Outcome {
  /// What a provider's route meets in the course of time besides ``delivered``: reasons by ``label``.
  static func usual(_ provider: Route.Provider) -> [String: [Reason]] {
    var usual = special(provider)
    usual["retry", default: []] += [
      .timeout, .connectFailed, .tlsFailed, .connectionLost, .streamReset, .refused, .breakerOpen,
    ]
    return usual
  }

  /// Why registrations usually end.
  package static let usuallyEnding = Set(
    Route.Provider.allCases.map(special).flatMap { ($0["dead"] ?? []) + ($0["suspect"] ?? []) })

  private static func special(_ provider: Route.Provider) -> [String: [Reason]] {
    switch provider {
    case .apns:
      [
        "dead": [.unregistered, .expiredToken], "suspect": [.badDeviceToken, .deviceTokenNotForTopic],
        "rejected": [.payloadTooLarge], "misconfigured": [.invalidProviderToken, .topicDisallowed],
        "retry": [.expiredProviderToken, .tooManyRequests, .internalServerError, .serviceUnavailable],
      ]
    case .fcm:
      [
        "dead": [.fcmUnregistered], "suspect": [.fcmSenderIDMismatch, .invalidRegistrationToken],
        "rejected": [.fcmInvalidArgument],
        "misconfigured": [.fcmPermissionDenied, .fcmUnauthenticated, .invalidGrant],
        "retry": [
          .fcmThirdPartyAuthError, .tokenUnavailable, .fcmQuotaExceeded, .fcmInternal, .fcmUnavailable,
        ],
      ]
    case .webPush:
      [
        "dead": [.subscriptionGone, .subscriptionUnknown], "suspect": [.vapidRefused],
        "rejected": [.payloadTooLarge, .requestRefused],
        "retry": [
          .vapidRefused, .tooManyRequests, .serverError, .unreadableAnswer, .forbiddenAddress, .overloaded,
        ],
      ]
    }
  }
}
