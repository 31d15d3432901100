import Foundation
import HTTPClient

/// The push services of browsers and of UnifiedPush distributors.
enum WebPush: PushProvider {
  static let service = "The push service"
  static let namelessTarget = "Web Push"

  static func lack(isSeveral: Bool, in environment: APNsCredential.Environment?) -> String {
    "webpush.enabled is false"
  }

  static func advice(forLackIn environment: APNsCredential.Environment?) -> String {
    "set webpush.enabled to true if these phones are to be reached"
  }

  static let tokenPrefix: String? = WebPushSubscription.tokenPrefix
  static let tables = [(heading: "Push services (Web Push)", rows: Reason.webPush)]
  static let usualOutcomes: [String: [Reason]] = [
    "rejected": [.payloadTooLarge, .requestRefused],
    "retry": [
      .vapidRefused, .tooManyRequests, .serverError, .unreadableAnswer, .forbiddenAddress, .overloaded,
    ],
  ]

  static func outcome(of answer: ProviderResponse, now: () -> Date) -> Outcome {
    Outcome(webPush: answer, now: now)
  }

  /// The VAPID token may have been made while the clock was wrong.
  static func remedy(after outcome: Outcome) -> Remedy {
    outcome.reason == .vapidRefused ? Remedy(again: .withAnotherToken) : Remedy()
  }

  static let hasHosts = true
}
