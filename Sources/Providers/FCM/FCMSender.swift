import Foundation
import NIOCore
import NIOHPACK

/// Sends what one service account serves.
struct FCMSender: Sendable {
  let origin: FCMOrigin
  let project: String
  let authorized: AuthorizedTransport
  let now: @Sendable () -> Date

  func send(_ message: FCMMessage, deadline: NIODeadline) async -> Attempt<RouteAnswer> {
    guard let body = try? FCMRequest.body(message) else {
      return .ended(.notAsked(.rejected(.fcmInvalidArgument)))
    }
    return await authorized.send(deadline: deadline) { authorization in
      .success(
        ProviderRequest(
          headers: FCMRequest.headers(project: project, origin: origin, authorization: authorization),
          body: body))
    } meaning: { [now] response in
      let answer = FCMAnswer(
        status: response.status, retryAfter: response.headers.first(name: "retry-after"), body: response.body)
      let outcome = Outcome(answer, now: now())
      return (outcome, .afterFCM(outcome))
    }
  }
}
