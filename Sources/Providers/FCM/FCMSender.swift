import Foundation
import NIOCore
import NIOHPACK

/// Sends what one service account serves.
struct FCMSender: Sendable {
  let origin: FCMOrigin
  let authorized: AuthorizedTransport
  let now: @Sendable () -> Date
  /// Who gives the access tokens.
  let tokenHost: String
  private let path: String

  init(
    origin: FCMOrigin, credential: FCMCredential, authorized: AuthorizedTransport,
    now: @escaping @Sendable () -> Date
  ) {
    (self.origin, self.authorized, self.now) = (origin, authorized, now)
    tokenHost = FCMOrigin(credential.tokenURI)?.authority ?? ""
    path = "\(origin.basePath)/v1/projects/\(credential.projectID)/messages:send"
  }

  func request(_ message: FCMMessage, authorization: String) -> ProviderRequest {
    let body = FCMRequest.body(message)
    return ProviderRequest(
      headers: FCMRequest.headers(path: path, origin: origin, authorization: authorization),
      body: body)
  }

  func meaning(of answer: ProviderResponse) -> (outcome: Outcome, remedy: Remedy) {
    let outcome = Outcome(fcm: answer, now: now)
    return (outcome, .afterFCM(outcome))
  }
}
