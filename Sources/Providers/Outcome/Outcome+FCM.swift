import Foundation
import NIOCore
import NIOFoundationCompat

/// What FCM HTTP v1 answered to one message.
struct FCMAnswer: Sendable {
  var status: Int
  /// The `retry-after` header.
  var retryAfter: String?
  var body: ByteBuffer

  /// The body of a success.
  private struct Accepted: Decodable {
    var name: String
  }

  /// The body of an error: `google.rpc.Status` in an envelope.
  private struct Envelope: Decodable {
    var error: Status
  }

  /// `google.rpc.Status` as JSON.
  struct Status: Decodable {
    var message: String?
    var status: String?
    var details: [Detail]?
  }

  /// One of `details`: an `FcmError`, a `google.rpc.BadRequest` or something else.
  struct Detail: Decodable {
    struct Violation: Decodable {
      var field: String?
    }

    var type: String?
    var errorCode: String?
    var fieldViolations: [Violation]?

    enum CodingKeys: String, CodingKey {
      case type = "@type"
      case errorCode, fieldViolations
    }
  }

  /// `projects/*/messages/*`, where the message was accepted.
  var name: String? { (try? JSONDecoder().decode(Accepted.self, from: body))?.name }

  /// The error; nil where the body is not Google's.
  var error: Status? { (try? JSONDecoder().decode(Envelope.self, from: body))?.error }
}

extension FCMAnswer.Status {
  /// The code that `FcmError` carries.
  var fcmCode: Reason? {
    let type = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
    guard let code = details?.first(where: { $0.type == type })?.errorCode else { return nil }
    return code == "APNS_AUTH_ERROR" ? .fcmThirdPartyAuthError : Reason(providerName: code)
  }

  /// Whether `INVALID_ARGUMENT` is about the registration token rather than about our payload:
  /// the only field complained of is the token, or none is named and the message says so.
  var blamesToken: Bool {
    let fields = details?.compactMap(\.fieldViolations).joined().map(\.field) ?? []
    guard fields.isEmpty else { return fields.allSatisfy { $0 == "message.token" } }
    return fcmCode == .fcmInvalidArgument
      && (message ?? "").lowercased().contains("not a valid fcm registration token")
  }
}

extension Outcome {
  /// How long Google wants us to keep away where a 429 names no time (Firebase, "Best practices
  /// when sending FCM messages at scale").
  private static let quotaPause: TimeInterval = 60

  /// What FCM's answer means (`Documentation/Providers.md`, FCM).
  ///
  /// Only `UNREGISTERED` in an `FcmError` kills a token; a bare 404 is a wrong project or path.
  init(_ answer: FCMAnswer, now: Date) {
    let notBefore = RetryAfter.date(answer.retryAfter, now: now)
    if answer.status == 200, let name = answer.name {
      self = .delivered(id: name)
      return
    }
    guard let error = answer.error, answer.status >= 400 else {
      self =
        answer.status >= 500
        ? .retry(.serverError, notBefore: notBefore, scope: .provider)
        : .retry(.unreadableAnswer, notBefore: notBefore, scope: .route)
      return
    }
    let reason = error.fcmCode ?? Reason(providerName: error.status ?? "")
    switch answer.status {
    case 429:
      // The quota may be the device's: its minute is not the whole project's.
      self = .retry(.fcmQuotaExceeded, notBefore: notBefore ?? now + Self.quotaPause, scope: .tokenOrRoute)
    case 500...:
      self = .retry(reason, notBefore: notBefore, scope: .provider)
    case 400 where reason == .fcmInvalidArgument:
      self = error.blamesToken ? .suspect(.invalidRegistrationToken) : .rejected(reason)
    case _ where reason == .fcmUnspecifiedError:
      self = .retry(reason, notBefore: notBefore, scope: .route)
    case _ where reason == .fcmUnregistered:
      self = answer.status == 404 && error.fcmCode != nil ? .dead(reason, since: nil) : .suspect(reason)
    case 403 where reason == .fcmSenderIDMismatch:
      self = .suspect(reason)
    case 401, 403, 404:
      self = .misconfigured(reason)
    default:
      self = .rejected(reason)
    }
  }
}
