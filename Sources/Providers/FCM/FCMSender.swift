import Foundation
import NIOCore
import NIOHPACK

/// Sends what one service account serves.
struct FCMSender: Sendable {
  let origin: FCMOrigin
  let project: String
  let transport: any Transport
  let tokens: TokenSource
  let now: @Sendable () -> Date

  func send(_ message: FCMMessage, deadline: NIODeadline) async -> Attempt<Outcome> {
    guard let body = try? FCMRequest.body(message) else { return .ended(.rejected(.fcmInvalidArgument)) }
    var isSecondTry = false
    while true {
      let authorization: String
      switch await tokens.token(deadline: deadline) {
      case .success(let token): authorization = token.authorization
      case .failure(let failure): return .ended(Outcome(failure))
      }
      let headers = FCMRequest.headers(project: project, origin: origin, authorization: authorization)
      switch await transport.send(ProviderRequest(headers: headers, body: body), deadline: deadline) {
      case .ended(let ending):
        let (outcome, isWorthAnother) = judge(ending, authorization)
        guard isWorthAnother, !isSecondTry else { return .ended(outcome) }
        isSecondTry = true
      case .underWay(let answer):
        return .underWay { judge(await answer(), authorization).outcome }
      }
    }
  }

  /// What the ending means, and whether another access token may do better.
  private func judge(_ ending: PendingRequest.Ending, _ authorization: String) -> (
    outcome: Outcome, isWorthAnother: Bool
  ) {
    switch ending {
    case .failure(let failure):
      return (Outcome(failure), false)
    case .success(let response):
      let answer = FCMAnswer(
        status: response.status, retryAfter: response.headers.first(name: "retry-after"),
        body: response.body)
      let outcome = Outcome(answer, now: now())
      return (outcome, outcome.reason == .fcmUnauthenticated && tokens.refused(authorization))
    }
  }
}
