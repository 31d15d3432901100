import Foundation
import NIOCore
import NIOHPACK

/// Sends what one key serves, to one of Apple's environments.
struct APNsSender: Sendable {
  let authority: String
  let authorized: AuthorizedTransport
  let now: @Sendable () -> Date

  func send(
    _ notification: APNsNotification, topic: String, deadline: NIODeadline
  ) async -> Attempt<RouteAnswer> {
    await authorized.send(deadline: deadline) { authorization in
      APNsRequest.make(notification, topic: topic, authority: authority, authorization: authorization)
    } meaning: { [now] response in
      let outcome = Outcome(apns: response, now: now)
      return (outcome, .afterAPNs(outcome))
    }
  }
}
