import Foundation
import NIOCore
import NIOHPACK

/// Sends what one key serves, to one of Apple's environments.
struct APNsSender: Sendable {
  let authority: String
  let authorized: AuthorizedTransport
  let now: @Sendable () -> Date

  func request(
    _ notification: APNsNotification, topic: String, authorization: String
  ) -> Result<ProviderRequest, Unsendable> {
    APNsRequest.make(notification, topic: topic, authority: authority, authorization: authorization)
  }

  func meaning(of answer: ProviderResponse) -> (outcome: Outcome, remedy: Remedy) {
    let outcome = Outcome(apns: answer, now: now)
    return (outcome, .afterAPNs(outcome))
  }
}
