import Foundation
import HTTPClient
import NIOCore
import NIOFoundationCompat
import NIOHPACK

/// What FCM HTTP v1 answers to one message.
enum FCMAnswer {
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

  /// Whether the body names the message. The name is not used; it only shows that the 200 is Google's.
  static func isAccepted(_ body: ByteBuffer) -> Bool {
    body.withUnsafeReadableBytes(isPlainlyAccepted)
      || (try? JSONDecoder().decode(Accepted.self, from: body)) != nil
  }

  /// Recognizes the usual answer, `{"name": "projects/p/messages/1"}`, without the cost of a JSON parser.
  private static func isPlainlyAccepted(_ bytes: UnsafeRawBufferPointer) -> Bool {
    var rest = bytes[...]
    func skip(_ text: StaticString) -> Bool {
      rest = rest.drop(while: isSpace)
      let text = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
      guard rest.starts(with: text) else { return false }
      rest = rest.dropFirst(text.count)
      return true
    }
    guard skip("{"), skip(#""name""#), skip(":"), skip(#""projects/"#) else { return false }
    rest = rest.drop { (0x21...0x7e).contains($0) && $0 != UInt8(ascii: #"""#) && $0 != UInt8(ascii: #"\"#) }
    return skip(#"""#) && skip("}") && rest.allSatisfy(isSpace)
  }

  private static func isSpace(_ byte: UInt8) -> Bool {
    byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09
  }

  /// The error; nil if the body is not Google's JSON.
  static func error(in body: ByteBuffer) -> Status? {
    (try? JSONDecoder().decode(Envelope.self, from: body))?.error
  }
}

extension FCMAnswer.Status {
  /// The code that `FcmError` carries.
  var fcmCode: Reason? {
    let type = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
    guard let code = details?.first(where: { $0.type == type })?.errorCode else { return nil }
    return code == "APNS_AUTH_ERROR" ? .fcmThirdPartyAuthError : Reason(providerName: code)
  }

  /// Whether `INVALID_ARGUMENT` is about the registration token, not our payload: the only fields named are
  /// the token or the installation id, or no field is named and the message says so.
  var blamesToken: Bool {
    let fields = details?.compactMap(\.fieldViolations).joined().map(\.field) ?? []
    guard fields.isEmpty else { return fields.allSatisfy { $0 == "message.token" || $0 == "message.fid" } }
    return fcmCode == .fcmInvalidArgument
      && (message ?? "").lowercased().contains("not a valid fcm registration token")
  }
}

extension Outcome {
  /// Pause after a 429 that names no time (Firebase, "Best practices when sending FCM messages at scale").
  private static let quotaPause: TimeInterval = 60

  /// Maps FCM's answer to an outcome (`Documentation/Providers.md`, FCM).
  ///
  /// Only `UNREGISTERED` in an `FcmError` ends a token; a 404 without it means a wrong project or path.
  init(fcm answer: ProviderResponse, now: () -> Date) {
    if answer.status == 200, FCMAnswer.isAccepted(answer.body) {
      self = .delivered
      return
    }
    let now = now()
    let notBefore = RetryAfter.date(answer.headers.first(name: "retry-after"), now: now)
    if answer.status == 200, answer.isCut {
      // What it said of the message is in the part that is missing.
      self = Outcome(TransportFailure.connectionLost)
      return
    }
    guard let error = FCMAnswer.error(in: answer.body), answer.status >= 400 else {
      self =
        answer.status >= 500
        ? .retry(.serverError, notBefore: notBefore, scope: .provider)
        : .retry(.unreadableAnswer, notBefore: notBefore, scope: .route)
      return
    }
    let reason = error.fcmCode ?? Reason(providerName: error.status ?? "")
    switch answer.status {
    case 429:
      // It may be the device's quota, so the whole project does not pause for it.
      self = .retry(.fcmQuotaExceeded, notBefore: notBefore ?? now + Self.quotaPause, scope: .tokenOrRoute)
    case 500...:
      self = .retry(reason, notBefore: notBefore, scope: .provider)
    case 400 where reason == .fcmInvalidArgument && error.blamesToken:
      self = .suspect(.invalidRegistrationToken)
    default:
      switch Reason.fcmNames.contains(reason) ? reason.row?.statement : nil {
      case .dead where answer.status == 404 && error.fcmCode != nil: self = .dead(reason, since: nil)
      case .dead, .suspect: self = .suspect(reason)
      case .misconfigured: self = .misconfigured(reason)
      case .retry(let scope): self = .retry(reason, notBefore: notBefore, scope: scope)
      case .rejected where answer.status == 400: self = .rejected(reason)
      case .rejected, nil: self = Self.unknown(reason, error, status: answer.status, notBefore: notBefore)
      }
    }
  }

  /// Maps a code that this program does not know, or not with this status.
  private static func unknown(
    _ reason: Reason, _ error: FCMAnswer.Status, status: Int, notBefore: Date?
  ) -> Outcome {
    switch status {
    // The APNs key in the Firebase project is refused. Perhaps only this token's app uses it.
    case 401 where error.fcmCode != nil, 403 where error.fcmCode != nil:
      .retry(reason, notBefore: notBefore, scope: .tokenOrRoute)
    case 401, 403, 404: .misconfigured(reason)
    default: .rejected(reason)
    }
  }
}
