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

  func send(_ message: FCMMessage, deadline: NIODeadline) async -> Outcome {
    guard let body = try? FCMRequest.body(message) else { return .rejected(.fcmInvalidArgument) }
    var isSecondTry = false
    while true {
      let authorization: String
      switch await tokens.token(deadline: deadline) {
      case .success(let token): authorization = token.authorization
      case .failure(let failure): return Outcome(failure)
      }
      let headers = FCMRequest.headers(project: project, origin: origin, authorization: authorization)
      switch await transport.execute(ProviderRequest(headers: headers, body: body), deadline: deadline) {
      case .failure(let failure):
        return Outcome(failure)
      case .success(let response):
        let answer = FCMAnswer(
          status: response.status, retryAfter: response.headers.first(name: "retry-after"),
          body: response.body)
        let outcome = Outcome(answer, now: now())
        guard outcome.reason == .fcmUnauthenticated, !isSecondTry, tokens.refused(authorization) else {
          return outcome
        }
        isSecondTry = true
      }
    }
  }
}
