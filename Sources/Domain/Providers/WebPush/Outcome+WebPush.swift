import Foundation
import HTTPClient
import NIOFoundationCompat
import NIOHPACK

extension Outcome {
  /// Pause for a push service that answers 429 without a time.
  private static let busyPause: TimeInterval = 15

  /// Maps a push service's answer to an outcome (RFC 8030, `Documentation/Providers.md`, Web Push). Ignores
  /// the body, which is for people, but for Apple's name of what others answer with 403.
  ///
  /// Only 404 and 410 end a subscription. A redirect is not followed, since it does not come from a push
  /// service.
  init(webPush answer: ProviderResponse, now: () -> Date) {
    switch answer.status {
    case 200...299: self = .delivered
    case 404: self = .dead(.subscriptionUnknown, since: nil)
    case 410: self = .dead(.subscriptionGone, since: nil)
    case 413: self = .rejected(.payloadTooLarge)
    // The subscription may be bound to another VAPID key.
    case 401, 403: self = .retry(.vapidRefused, notBefore: nil, scope: .tokenOrRoute)
    case 400 where answer.namesOtherKey: self = .retry(.vapidRefused, notBefore: nil, scope: .tokenOrRoute)
    // Windows throttles with 406.
    case 429,
      406 where answer.headers.contains(name: "retry-after"):
      let now = now()
      let notBefore = RetryAfter.date(answer.headers.first(name: "retry-after"), now: now)
      self = .retry(.tooManyRequests, notBefore: notBefore ?? now + Self.busyPause, scope: .tokenOrRoute)
    case 408:
      self = .retry(.timeout, notBefore: nil, scope: .route)
    case 400...499: self = .rejected(.requestRefused)
    // ntfy answers this for a topic without recent subscribers.
    case 507: self = .retry(.serverError, notBefore: nil, scope: .token)
    case 500...599:
      let notBefore = RetryAfter.date(answer.headers.first(name: "retry-after"), now: now())
      self = .retry(.serverError, notBefore: notBefore, scope: .provider)
    default: self = .retry(.unreadableAnswer, notBefore: nil, scope: .route)
    }
  }
}

extension ProviderResponse {
  /// Whether it is Apple's answer that a subscription was made with another VAPID key.
  fileprivate var namesOtherKey: Bool {
    struct ErrorBody: Decodable { let reason: String }
    return (try? JSONDecoder().decode(ErrorBody.self, from: body))?.reason == "VapidPkHashMismatch"
  }
}
