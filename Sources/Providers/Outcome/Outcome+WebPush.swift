import Foundation
import NIOHPACK

extension Outcome {
  /// How long a push service that gets too many is left alone where it names no time.
  private static let busyPause: TimeInterval = 15

  /// What a push service's answer means (RFC 8030, `Documentation/Providers.md`, Web Push). Its body is for people.
  ///
  /// Only 404 and 410 kill a subscription. A redirect is not followed: it is no push service's.
  init(webPush answer: ProviderResponse, now: () -> Date) {
    switch answer.status {
    case 200...299: self = .delivered
    case 404: self = .dead(.subscriptionUnknown, since: nil)
    case 410: self = .dead(.subscriptionGone, since: nil)
    case 413: self = .rejected(.payloadTooLarge)
    // The subscription may have been made with another key.
    case 401, 403: self = .retry(.vapidRefused, notBefore: nil, scope: .tokenOrRoute)
    case 429:
      let now = now()
      let notBefore = RetryAfter.date(answer.headers.first(name: "retry-after"), now: now)
      self = .retry(.tooManyRequests, notBefore: notBefore ?? now + Self.busyPause, scope: .tokenOrRoute)
    case 408:
      self = .retry(.timeout, notBefore: nil, scope: .route)
    case 400...499: self = .rejected(.requestRefused)
    // What an ntfy says of a topic that nobody has listened to of late.
    case 507: self = .retry(.serverError, notBefore: nil, scope: .token)
    case 500...599:
      let notBefore = RetryAfter.date(answer.headers.first(name: "retry-after"), now: now())
      self = .retry(.serverError, notBefore: notBefore, scope: .provider)
    default: self = .retry(.unreadableAnswer, notBefore: nil, scope: .route)
    }
  }
}
