package import Foundation
import HTTPClient

/// The meaning of a provider's answer, or of a missing answer, for a notification and its token.
///
/// Only this type's initializers interpret a provider's status codes: one pure function per provider, with
/// the rules of `Documentation/Providers.md`.
package enum Outcome: Sendable, Hashable {
  /// The provider accepted it.
  case delivered
  /// The upstream bouncer accepted it and will deliver it as this service would; whether its provider has accepted it is
  /// not known.
  case passedOn(UpstreamReceipt)
  /// The token is no longer valid. `since` is when APNs last confirmed that, if it says so.
  case dead(Reason, since: Date?)
  /// The token was refused, perhaps because of our own configuration.
  case suspect(Reason)
  /// Sending may succeed later; not before `notBefore`, if the provider names a time.
  case retry(Reason, notBefore: Date?, scope: Scope)
  /// The request itself is wrong; sending it again is pointless.
  case rejected(Reason)
  /// A credential, topic or project is wrong, so the whole route fails. Says nothing about the token.
  case misconfigured(Reason)

  /// What the failure concerns, and so which other notifications would fail too.
  package enum Scope: Sendable, Hashable {
    /// Only this device. The route works.
    case token
    /// The device or the route; the provider does not say which. The answers to other owners show it.
    case tokenOrRoute
    /// The connection, with all requests on it. Another connection may work.
    case connection
    /// The whole route: the next notification would fail too.
    case route
    /// The provider has an outage.
    case provider
    /// The caller: the push was not handed to the provider, so this says nothing about the provider.
    case caller
    /// This process, which ends before the answer has come. Whether the provider took the push stays unknown.
    case process
  }

  /// Where an outcome comes from.
  package enum Source: Sendable {
    /// The provider's answer to this push.
    case provider
    /// The network: no answer came, or none that is about the push.
    case transport
    /// This program: the push cannot be sent. Says nothing about the route.
    case ourselves
  }

  /// The reason; nil if it was delivered or passed on.
  package var reason: Reason? {
    switch self {
    case .delivered, .passedOn: nil
    case .dead(let reason, _), .retry(let reason, _, _): reason
    case .suspect(let reason), .rejected(let reason), .misconfigured(let reason): reason
    }
  }

  /// Whether the provider may have taken the request: the connection broke while it was out, or what was said of it cannot
  /// be read. (What waits for that reason alone has the scope of the token, and was not sent.)
  package var isInDoubt: Bool {
    switch self {
    case .retry(.unreadableReceipt, _, .tokenOrRoute): true
    case .retry(let reason, _, .connection): reason != .refused
    case .delivered, .passedOn, .dead, .suspect, .retry, .rejected, .misconfigured: false
    }
  }

  /// Whether the provider, or the upstream bouncer, took it.
  var isTaken: Bool { reason == nil }

  /// The name of the case, used as a metric's label.
  package var label: String {
    switch self {
    case .delivered: "delivered"
    case .passedOn: "passed_on"
    case .dead: "dead"
    case .suspect: "suspect"
    case .retry: "retry"
    case .rejected: "rejected"
    case .misconfigured: "misconfigured"
    }
  }
}

extension Outcome {
  /// What a provider's answer means.
  init(_ answer: ProviderResponse, from provider: Route.Provider, now: () -> Date) {
    self = provider.definition.outcome(of: answer, now: now)
  }

  /// The outcome of a request without an answer: a later attempt may succeed.
  init(_ failure: TransportFailure) {
    let (reason, scope): (Reason, Scope) =
      switch failure {
      case .timeout: (.timeout, .route)
      case .unanswered: (.timeout, .tokenOrRoute)
      case .cancelled: (.cancelled, .caller)
      case .unconnected(let failure): (failure.reason, .route)
      case .forbiddenAddress: (.forbiddenAddress, .route)
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

  /// The outcome of a push that was not sent because there is no access token: an outage passes, a wrong
  /// credential does not.
  init(_ failure: TokenFailure) {
    self =
      switch failure {
      case .unavailable(let reason): .retry(reason, notBefore: nil, scope: .route)
      case .refused(let reason): .misconfigured(reason)
      }
  }
}

extension Outcome {
  /// The outcomes that a provider's route usually has besides ``delivered``: reasons by ``label``.
  static func usual(_ provider: Route.Provider) -> [String: [Reason]] {
    var usual = provider.definition.usualOutcomes
    for row in Reason.rows(of: provider) where row.endsToken {
      usual[row.statement == .dead ? "dead" : "suspect", default: []].append(row.reason)
    }
    usual["retry", default: []] += [
      .timeout, .nameNotResolved, .connectionRefused, .connectTimeout, .handshakeTimeout,
      .certificateUntrusted,
      .connectionLost, .streamReset, .refused, .breakerOpen,
    ]
    return usual
  }

  /// The reasons for which registrations usually end.
  package static let usuallyEnding = Set(
    Route.Provider.allCases.flatMap(Reason.rows).filter(\.endsToken).map(\.reason) + [.vapidRefused])
}
