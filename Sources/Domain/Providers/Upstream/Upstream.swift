import Foundation
import HTTPClient

/// The upstream bouncer.
enum Upstream: PushProvider {
  static let service = "The upstream bouncer (upstream.url)"
  static let namelessTarget = "the upstream bouncer"

  static func lack(isSeveral: Bool, in environment: APNsCredential.Environment?) -> String {
    "upstream.url is not set"
  }

  static func advice(forLackIn environment: APNsCredential.Environment?) -> String {
    "set upstream.url again, or run push-bouncer server upstream disable for each chat server there"
  }

  static let tables = [(heading: "The upstream bouncer", rows: Reason.upstream)]
  static let usualOutcomes: [String: [Reason]] = [
    "rejected": [.requestRefused, .upstreamDisallows],
    "retry": [
      .upstreamKeyRefused, .upstreamRealmRefused, .tooManyRequests, .serverError, .unreadableAnswer,
      .unreadableReceipt,
    ],
  ]

  static func outcome(of answer: ProviderResponse, now: () -> Date) -> Outcome {
    Outcome(upstream: answer, now: now)
  }
}
