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
