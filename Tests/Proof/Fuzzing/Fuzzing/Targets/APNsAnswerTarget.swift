import Foundation
import NIOCore

@testable import HTTPClient
@testable import Providers

/// Answers of APNs: only a 410 with a reason of Apple's ends a registration.
enum APNsAnswerTarget: FuzzTarget {
  static let name = "apns-answer"

  static func run(_ bytes: [UInt8]) throws {
    let text = HTTPText(bytes)
    let outcome = Outcome(apns: text.answer, now: { now })
    try outcome.checkTimes()
    switch outcome {
    case .delivered: try check(text.status == 200, "only 200 is a success")
    case .dead(let reason, _):
      try check(
        text.status == 410 && reason.row?.statement == .dead,
        "only 410 with its reason is an end")
    default: try check(text.status != 200, "200 is a success")
    }
  }

  /// 2023-11-14
  static let now = Date(timeIntervalSince1970: 1_700_000_000)
}

extension HTTPText {
  var answer: ProviderResponse {
    ProviderResponse(
      status: status, headers: hpackHeaders,
      body: ByteBuffer(bytes: body.prefix(ProviderResponse.maximumBody)), connection: nil)
  }
}

extension Outcome {
  /// Checks that a retry time from an answer is within `RetryAfter.limit`.
  func checkTimes() throws {
    guard case .retry(_, let notBefore?, _) = self else { return }
    let pause = notBefore.timeIntervalSince(APNsAnswerTarget.now)
    try check((0...RetryAfter.limit).contains(pause), "nobody makes us wait for \(pause) s")
  }
}
