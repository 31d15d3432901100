import Foundation
import NIOCore
import NIOHPACK

/// Sends what one service account serves.
struct FCMSender: Sendable {
  let origin: FCMOrigin
  let authorized: AuthorizedTransport
  let now: @Sendable () -> Date
  private let path: String

  init(
    origin: FCMOrigin, project: String, authorized: AuthorizedTransport, now: @escaping @Sendable () -> Date
  ) {
    (self.origin, self.authorized, self.now) = (origin, authorized, now)
    path = "\(origin.basePath)/v1/projects/\(project)/messages:send"
  }

  func send(_ message: FCMMessage, deadline: NIODeadline) async -> Attempt<RouteAnswer> {
    let body = FCMRequest.body(message)
    return await authorized.send(deadline: deadline) { authorization in
      .success(
        ProviderRequest(
          headers: FCMRequest.headers(path: path, origin: origin, authorization: authorization), body: body))
    } meaning: { [now] response in
      let outcome = Outcome(fcm: response, now: now)
      return (outcome, .afterFCM(outcome))
    }
  }
}
