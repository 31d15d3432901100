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

  func request(_ message: FCMMessage, authorization: String) -> ProviderRequest {
    ProviderRequest(
      headers: FCMRequest.headers(path: path, origin: origin, authorization: authorization),
      body: FCMRequest.body(message))
  }

  func meaning(of answer: ProviderResponse) -> (outcome: Outcome, remedy: Remedy) {
    let outcome = Outcome(fcm: answer, now: now)
    return (outcome, .afterFCM(outcome))
  }
}
