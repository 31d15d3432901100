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
    _ ending: Exchange.Ending, _ notification: APNsNotification, _ authorization: String
  ) -> (outcome: Outcome, isWorthAnother: Bool) {
    switch ending {
    case .failure(let failure):
      return (Outcome(failure), false)
    case .success(let response):
      let outcome = Outcome(response.apnsAnswer, sentID: notification.id, now: now())
      if outcome.reason.map(Self.endConnection.contains) == true, let connection = response.connection {
        transport.retire(connection)
      }
      return (outcome, outcome.reason == .expiredProviderToken && tokens.refused(authorization))
    }
  }

  /// After these the next request is better off on another connection.
  private static let endConnection: Set<Reason> = [
    .expiredProviderToken, .idleTimeout, .internalServerError, .serviceUnavailable, .shutdown,
  ]
}

extension ProviderResponse {
  fileprivate var apnsAnswer: APNsAnswer {
    APNsAnswer(
      status: status, id: headers.first(name: "apns-id"), retryAfter: headers.first(name: "retry-after"),
      body: body)
  }
}
