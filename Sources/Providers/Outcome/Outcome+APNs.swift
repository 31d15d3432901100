import Foundation
import NIOFoundationCompat
import NIOHPACK

/// The JSON body of every answer of APNs but 200 (Apple, "Handling notification responses from APNs").
private struct Refusal: Decodable {
  var reason: String
  /// In milliseconds since 1970; with 410 only.
  var timestamp: Double?
}

extension ProviderResponse {
  /// The reason, and since when a token is invalid; nil where the body is not Apple's.
  fileprivate var refusal: (reason: Reason, since: Date?)? {
    guard let refusal = try? JSONDecoder().decode(Refusal.self, from: body) else { return nil }
    return (
      Reason(providerName: refusal.reason),
      refusal.timestamp.map { Date(timeIntervalSince1970: $0 / 1000) }
    )
  }
}

extension Outcome {
  /// How long a device that gets too many is left alone where APNs names no time.
  private static let devicePause: TimeInterval = 5

  /// What APNs' answer means (Apple, "Handling notification responses from APNs").
  ///
  /// Only Apple's own word kills a token: 410 with a reason. A body that cannot be read is some
  /// machine's in between and counts as an outage, whatever the status.
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
    guard answer.status < 500 else {
      self = .retry(
        Reason.outages.contains(refusal.reason) ? refusal.reason : .serverError, notBefore: notBefore,
        scope: .provider)
      return
    }
    switch refusal.reason {
    case .unregistered, .expiredToken:
      self = answer.status == 410 ? .dead(refusal.reason, since: refusal.since) : .suspect(refusal.reason)
    case .badDeviceToken, .deviceTokenNotForTopic:
      self = .suspect(refusal.reason)
    case .topicDisallowed, .badTopic, .missingTopic, .invalidProviderToken, .missingProviderToken,
      .unrelatedKeyIDInToken, .badEnvironmentKeyIDInToken, .badEnvironmentKeyInToken, .badCertificate,
      .badCertificateEnvironment, .forbidden:
      self = .misconfigured(refusal.reason)
    case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .invalidPushType, .duplicateHeaders,
      .payloadEmpty, .missingDeviceToken, .badPath, .methodNotAllowed, .payloadTooLarge:
      self = .rejected(refusal.reason)
    case .tooManyRequests:
      // Too many to one device: at once it would be one more.
      self = .retry(refusal.reason, notBefore: notBefore ?? now + Self.devicePause, scope: .token)
    case .idleTimeout, .expiredProviderToken, .tooManyProviderTokenUpdates:
      // Another connection or provider token was tried already.
      self = .retry(refusal.reason, notBefore: notBefore, scope: .route)
    case .internalServerError, .serviceUnavailable, .shutdown:
      self = .retry(refusal.reason, notBefore: notBefore, scope: .provider)
    default:
      self = Self.unknown(status: answer.status, notBefore: notBefore)
    }
  }

  /// A reason that Apple has added since: the status says whose fault it is.
  private static func unknown(status: Int, notBefore: Date?) -> Outcome {
    switch status {
    case 400, 404, 405, 413: .rejected(.unknown)
    case 401, 403: .misconfigured(.unknown)
    case 410: .suspect(.unknown)
    default: .retry(.unknown, notBefore: notBefore, scope: .route)
    }
  }
}
