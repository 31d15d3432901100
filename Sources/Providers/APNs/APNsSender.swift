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

  func send(_ notification: APNsNotification, topic: String, deadline: NIODeadline) async -> Outcome {
    var isSecondTry = false
    while true {
      let authorization: String
      switch await tokens.token(deadline: deadline) {
      case .success(let token): authorization = token.authorization
      case .failure(let failure): return Outcome(failure)
      }
      let request: ProviderRequest
      switch APNsRequest.make(notification, topic: topic, authority: authority, authorization: authorization)
      {
      case .success(let made): request = made
      case .failure(let refusal): return refusal.outcome
      }
      switch await transport.execute(request, deadline: deadline) {
      case .failure(let failure):
        return Outcome(failure)
      case .success(let response):
        let outcome = Outcome(response.apnsAnswer, sentID: notification.id, now: now())
        if outcome.reason.map(Self.endConnection.contains) == true, let connection = response.connection {
          transport.retire(connection)
        }
        guard outcome.reason == .expiredProviderToken, !isSecondTry, tokens.refused(authorization) else {
          return outcome
        }
        isSecondTry = true
      }
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
