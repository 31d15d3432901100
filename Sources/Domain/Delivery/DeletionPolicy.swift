import Basics
import Foundation
import HTTPClient
import Providers
import Registrations

/// Decides what a provider's answer means for a token and its registrations. Nothing else decides that: an ``Outcome`` is
/// what the provider said, and whether a route can be used is decided before anything is sent (`RouteHealth`).
///
/// The table lists everything that holds something back, in the order in which it is asked. The first that does wins.
///
/// | who | holds back | because | until |
/// |---|---|---|---|
/// | `Slowness` | pushes that somebody waits for, of a route | three callers in turn got no answer in time | an answer comes sooner, or nothing is under way |
/// | `TokenPauses` | pushes to a token | the provider refuses it for the time being, or leaves four unanswered | the provider's time, or a pause that grows from 4 seconds to 15 minutes; given up after a day |
/// | `Blame` | pushes of the owners whose tokens were refused | three owners were refused while nothing was accepted for a minute, or, where fewer send, all for 10 seconds | one push is accepted; probes find that out |
/// | `Breaker` | all pushes of a route | 20 failures of the route in a row, or a wrong credential | a probe succeeds; pauses grow from 1 to 15 seconds |
/// | `Breaker.Failures` | nothing; says when failures show that the route does not work | they last for 3 seconds, or the breaker opens | a success |
/// | ``DeletionGuard`` | that a refused token ends its registrations | the route has never worked, or most answers are refusals, to three owners or to all | fewer are |
/// | ``DeletionGuard`` | that a dead token ends its registrations | more than 20 and most have died within 10 minutes, of this owner or of three | see ``HeldDeletions`` |
/// | ``HeldDeletions`` | what the guard holds | it is not believed yet | the provider says the same an hour later, the operator trusts the route, or a push is accepted |
/// | installation ids | that an unknown one ends its registration | FCM learns of it later than the app | FCM says the same an hour later, or a push is accepted |
///
/// Of all answers only these end a registration, if it was not made or renewed since:
///
/// - a dead token, unless the guard holds it back or it is a new installation id;
/// - a suspect token, if the guard believes it;
/// - a refused VAPID token, if the push service accepted others' pushes between two refusals of this subscription, and the
///   guard believes it.
struct DeletionPolicy: Sendable {
  /// The decision about a token.
  enum Verdict: Sendable, Hashable {
    /// The answer says nothing against the token.
    case keep
    /// All registrations that were made with the token by this time end.
    case end(Reason, by: Date)
    /// They end once the provider has said the same again, or the operator confirms it.
    case hold(Reason, by: Date)
    /// The token is refused, but perhaps because of the route: the registration stays.
    case doubtRoute(Reason)
    /// The token was dead before its registration was made or renewed: the registration stays.
    case renewed(Reason)
    /// The token's pushes wait.
    case pause(Reason, until: Date)
    /// The notification is given up, and the registration stays.
    case giveUp(Reason)
  }

  /// Seconds until FCM is asked again for an installation id.
  private static let installationIDPause: TimeInterval = 60

  let registration: RegistrationReference
  let owner: Owner
  /// The time at which the notification was requested or, from the outbox, the try began. For FCM and push services a dead
  /// token is dead as of this time; APNs names a time itself.
  let requestedAt: Date
  /// The time before which a registration must have been made for a dead token to be believed whatever time the answer
  /// carries. A provider may take a while to notice that a token is valid again; but a time before the registration may
  /// also come from a slow call or from a clock that was ahead, and would then never change. It is the distant past while
  /// the clock is in doubt: then no times are compared, because a clock that is behind dates the registration before the
  /// end of the token's earlier life.
  let believedSince: Date
  /// Whether a mismatch moves the registration (``RegisteredPush/movesOnMismatch``).
  var movesOnMismatch = false
  /// Whether the token is a Firebase installation id that FCM does not know yet.
  var isUnknownYet = false

  /// Decides, and records the answer as evidence for others.
  ///
  /// - Parameters:
  ///   - pause: what is known of earlier refusals of the token, if it is refused for the time being.
  ///   - evidence: what the route's answers say about tokens of this kind.
  func verdict(
    on outcome: Outcome, _ pause: TokenPause? = nil, evidence: inout DeletionGuard, now: Date
  ) -> Verdict {
    switch outcome {
    case .delivered, .passedOn:
      evidence.accepted(of: owner, now: now)
      return .keep
    case .rejected:
      evidence.rejected(of: owner, now: now)
      return .keep
    case .dead where isUnknownYet:
      return .pause(.installationIDUnknown, until: now + Self.installationIDPause)
    case .dead(let reason, let since):
      let isBelieved = evidence.calledDead(of: owner, now: now)
      let registeredAt = registration.registeredAt
      if let since, registeredAt > believedSince, registeredAt >= since || believedSince == .distantPast {
        return .renewed(reason)
      }
      let end = since.map { min(requestedAt, max($0, believedSince)) } ?? requestedAt
      return isBelieved ? .end(reason, by: end) : .hold(reason, by: end)
    case .suspect(.fcmSenderIDMismatch) where movesOnMismatch:
      // The token is another project's: this says nothing about the credential, and ends nothing.
      return .giveUp(.fcmSenderIDMismatch)
    case .suspect(let reason):
      return refused(reason, &evidence, now)
    case .retry(.vapidRefused, _, _) where pause?.isRefusedAlone == true:
      // This subscription was made with another VAPID key.
      return refused(.vapidRefused, &evidence, now)
    case .retry(let reason, _, _):
      guard let pause else { return .keep }
      guard pause.isTooLong else { return .pause(reason, until: pause.until) }
      evidence.rejected(of: owner, now: now)
      return .giveUp(reason)
    case .misconfigured:
      return .keep
    }
  }

  private func refused(_ reason: Reason, _ evidence: inout DeletionGuard, _ now: Date) -> Verdict {
    evidence.refused(of: owner, because: reason, now: now)
      ? .end(reason, by: requestedAt) : .doubtRoute(reason)
  }
}

extension DeletionPolicy.Verdict {
  /// The decision about a dead or refused token, and its reason, as labels of a metric; nil if the token was neither.
  var labels: (verdict: String, reason: Reason)? {
    switch self {
    case .end(let reason, _): ("end", reason)
    case .hold(let reason, _): ("hold", reason)
    case .doubtRoute(let reason): ("doubt_route", reason)
    case .renewed(let reason): ("keep", reason)
    case .keep, .pause, .giveUp: nil
    }
  }
}
