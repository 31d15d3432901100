import Foundation
import NIOCore
import NIOHPACK

/// Sends what one key serves, to one of Apple's environments.
struct APNsSender: Sendable {
  let authority: String
  let transport: any Transport
  /// Shared by all senders with the same key.
  let tokens: TokenSource
  let now: @Sendable () -> Date

  func send(_ notification: APNsNotification, topic: String, deadline: NIODeadline) async -> Attempt<
    Outcome
  > {
    var isSecondTry = false
    while true {
      let authorization: String
      switch await tokens.token(deadline: deadline) {
      case .success(let token): authorization = token.authorization
      case .failure(let failure): return .ended(Outcome(failure))
      }
      let request: ProviderRequest
      switch APNsRequest.make(notification, topic: topic, authority: authority, authorization: authorization)
      {
      case .success(let made): request = made
      case .failure(let refusal): return .ended(refusal.outcome)
      }
      switch await transport.send(request, deadline: deadline) {
      case .ended(let ending):
        let (outcome, isWorthAnother) = judge(ending, notification, authorization)
        guard isWorthAnother, !isSecondTry else { return .ended(outcome) }
        isSecondTry = true
      case .underWay(let answer):
        return .underWay { judge(await answer(), notification, authorization).outcome }
      }
    }
  }

  /// What the ending means, and whether it is worth another try at once.
  private func judge(
    _ ending: PendingRequest.Ending, _ notification: APNsNotification, _ authorization: String
  ) -> (outcome: Outcome, isWorthAnother: Bool) {
    switch ending {
    case .failure(let failure):
      return (Outcome(failure), false)
    case .success(let response):
      let outcome = Outcome(response.apnsAnswer, sentID: notification.id, now: now())
      guard let consequence = outcome.reason.flatMap(APNsConsequence.init) else { return (outcome, false) }
      if let connection = response.connection {
        switch consequence.connections {
        case .this: transport.retire(connection)
        case .untilNow: transport.renew(through: connection)
        case .all: transport.renew(through: nil)
        }
      }
      switch consequence.again {
      case .no: return (outcome, false)
      case .atOnce: return (outcome, true)
      case .withAnotherToken: return (outcome, tokens.refused(authorization))
      }
    }
  }
}

/// What a refusal means for connections and the next try, beyond what it means for the notification (Apple,
/// "Establishing a token-based connection to APNs" and "Handling notification responses from APNs").
struct APNsConsequence: Equatable {
  enum Connections {
    /// This one is used no more.
    case this
    /// Neither this one nor any that was begun before is.
    case untilNow
    /// None that there is.
    case all
  }

  enum Again {
    case no
    /// Once, at once, over another connection.
    case atOnce
    /// The same if there is another provider token.
    case withAnotherToken
  }

  let connections: Connections
  let again: Again

  /// Nil where there is none.
  init?(_ reason: Reason) {
    switch reason {
    case .expiredProviderToken: (connections, again) = (.untilNow, .withAnotherToken)
    // The first token on a connection fixes its key.
    case .unrelatedKeyIDInToken: (connections, again) = (.untilNow, .atOnce)
    // The connection is unusable for a while; the token is as good as ever.
    case .tooManyProviderTokenUpdates, .idleTimeout: (connections, again) = (.this, .atOnce)
    // The key is revoked, or was never good.
    case .invalidProviderToken: (connections, again) = (.all, .no)
    case .internalServerError, .serviceUnavailable, .shutdown, .serverError:
      (connections, again) = (.this, .no)
    // The key may have got the topic since the connection was opened.
    case .topicDisallowed: (connections, again) = (.this, .no)
    default: return nil
    }
  }
}

extension ProviderResponse {
  fileprivate var apnsAnswer: APNsAnswer {
    APNsAnswer(
      status: status, id: headers.first(name: "apns-id"), retryAfter: headers.first(name: "retry-after"),
      body: body)
  }
}
