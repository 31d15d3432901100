import Foundation
import HTTPClient
import NIOFoundationCompat
import NIOHPACK

/// The JSON body of all APNs answers except 200 (Apple, "Handling notification responses from APNs").
private struct ErrorBody: Decodable {
  var reason: String
  /// In milliseconds since 1970; with 410 only.
  var timestamp: Double?
}

extension ProviderResponse {
  /// The reason, and since when a token is invalid; nil if the body is not APNs' JSON.
  fileprivate var refusal: (reason: Reason, since: Date?)? {
    guard let refusal = try? JSONDecoder().decode(ErrorBody.self, from: body) else { return nil }
    let reason = Reason(refusal.reason)
    return (
      Reason.apnsNames.contains(reason) ? reason : .unknown,
      refusal.timestamp.map { Date(timeIntervalSince1970: $0 / 1000) }
    )
  }
}

extension Outcome {
  /// Pause for a device that gets too many notifications, if APNs names no time.
  private static let devicePause: TimeInterval = 5

  /// Maps APNs' answer to an outcome (Apple, "Handling notification responses from APNs").
  ///
  /// Only 410 with a reason ends a token. An answer with an unreadable body comes from some machine in
  /// between and counts as an outage, whatever its status.
  init(apns answer: ProviderResponse, now: () -> Date) {
    if answer.status == 200 {
      self = .delivered
      return
    }
    let now = now()
    let notBefore = RetryAfter.date(answer.headers.first(name: "retry-after"), now: now)
    guard let refusal = answer.refusal else {
      self =
        answer.status >= 500
        ? .retry(.serverError, notBefore: notBefore, scope: .provider)
        : .retry(.unreadableAnswer, notBefore: notBefore, scope: .route)
      return
    }
    let reason = refusal.reason
    let statement = reason.row?.statement
    guard answer.status < 500 else {
      self = .retry(
        statement == .retry(.provider) ? reason : .serverError, notBefore: notBefore, scope: .provider)
      return
    }
    switch statement {
    case .dead: self = answer.status == 410 ? .dead(reason, since: refusal.since) : .suspect(reason)
    case .suspect: self = .suspect(reason)
    case .misconfigured: self = .misconfigured(reason)
    case .rejected: self = .rejected(reason)
    case .retry(.token):
      // One device gets too many: another try at once would only add one.
      self = .retry(reason, notBefore: notBefore ?? now + Self.devicePause, scope: .token)
    // Another connection or provider token was already tried.
    case .retry(let scope): self = .retry(reason, notBefore: notBefore, scope: scope)
    case nil: self = Self.unknown(status: answer.status, notBefore: notBefore)
    }
  }

  /// Maps a reason that this program does not know, by the status.
  private static func unknown(status: Int, notBefore: Date?) -> Outcome {
    switch status {
    case 400, 404, 405, 413: .rejected(.unknown)
    case 401, 403: .misconfigured(.unknown)
    case 410: .suspect(.unknown)
    default: .retry(.unknown, notBefore: notBefore, scope: .route)
    }
  }
}
