import Delivery
import HTTP
package import HTTPTypes
import Hummingbird
import Providers

/// What apps and senders are told: `{"code": ..., "message": ...}`. `Documentation/Errors.md` has a row for each code.
package enum GatewayCode: String, CaseIterable, Sendable {
  case badRequest = "bad_request"
  case keyMissing = "application_server_key_missing"
  case sealedTooLongAgo = "sealed_too_long_ago"
  case unknownBouncerKey = "unknown_bouncer_key"
  case unauthorized
  case unknownApp = "unknown_app"
  case forbiddenSender = "forbidden_sender"
  case notFound = "not_found"
  case noSubscription = "no_subscription"
  case noEndpoint = "no_endpoint"
  case noMessage = "no_message"
  case subscriptionEnded = "subscription_ended"
  case payloadTooLarge = "payload_too_large"
  case unsupportedEncoding = "unsupported_encoding"
  case tooManyRequests = "too_many_requests"
  case tooManyMessages = "too_many_messages"
  case internalServerError = "internal_server_error"
  case serviceUnavailable = "service_unavailable"

  package var status: HTTPResponse.Status {
    switch self {
    case .badRequest, .keyMissing, .sealedTooLongAgo, .unknownBouncerKey: .badRequest
    case .unauthorized: .unauthorized
    case .unknownApp, .forbiddenSender: .forbidden
    case .notFound, .noSubscription, .noEndpoint, .noMessage: .notFound
    case .subscriptionEnded: .gone
    case .payloadTooLarge: .contentTooLarge
    case .unsupportedEncoding: .unsupportedMediaType
    case .tooManyRequests, .tooManyMessages: .tooManyRequests
    case .internalServerError: .internalServerError
    case .serviceUnavailable: .serviceUnavailable
    }
  }

  /// In Markdown: what it means, whose fault it is, and whether the same request may succeed later.
  package var meaning: (text: String, fault: String, again: String) {
    switch self {
    case .badRequest: ("what was sent breaks RFC 8030 or RFC 8291, or is malformed", "the caller's", "no")
    case .keyMissing:
      (
        "a subscription for one sender has ended, and its app makes it again without saying for whom",
        "the app's: it names the key each time", "with it"
      )
    case .sealedTooLongAgo: ("the registration is more than a day old", "the app's", "sealed again")
    case .unknownBouncerKey:
      ("it was sealed to a key that this service does not have", "whoever built the app", "no")
    case .unauthorized:
      ("the secret of the subscription is wrong; or its sender must sign in by VAPID", "the caller's", "no")
    case .unknownApp:
      (
        "no key serves the app of a new subscription; the log names the app", "the operator's: `Keys`",
        "operator"
      )
    case .forbiddenSender: ("the VAPID token is wrong, or of another sender", "the sender's", "no")
    case .notFound: ("there is no such path", "the caller's", "no")
    case .noSubscription: ("the subscription has ended", "nobody's", "with `application_server_key`")
    case .noEndpoint: ("there is no such endpoint", "the sender's", "no")
    case .noMessage: ("there is no such message for this subscription, or no more", "the app's", "no")
    case .subscriptionEnded: ("the subscription has ended", "nobody's", "no: forget the endpoint")
    case .payloadTooLarge: ("the message is too long for the app's provider", "the sender's", "no")
    case .unsupportedEncoding: ("neither `aes128gcm` nor `aesgcm`", "the sender's", "no")
    case .tooManyRequests:
      (
        "too many calls or new subscriptions from this address",
        "the caller's; or the reverse proxy is not named in `http.trusted_proxies`", "later"
      )
    case .tooManyMessages: ("too many messages wait for this subscription", "the sender's", "later")
    case .internalServerError: ("a fault of this program, which the log has", "this program's", "later")
    case .serviceUnavailable:
      (
        "the provider does not take it now, or database, outbox or memory (`http.max_bytes_in_flight`) cannot",
        "the operator's; or the address sends too much at once", "later"
      )
    }
  }
}

extension APIError {
  fileprivate init(_ code: GatewayCode, _ message: String, headers: HTTPFields = [:]) {
    self.init(code.status, code: code.rawValue, message, headers: headers)
  }

  var gatewayResponse: Response {
    Envelope.response(
      status, [.init("code", .string(gatewayCode)), .init("message", .string(message))], headers: headers)
  }

  /// In snake case. Errors that other parts of the program throw may have a code that only says "bad request".
  private var gatewayCode: String {
    switch status {
    case .tooManyRequests where code == Self.generic: GatewayCode.tooManyRequests.rawValue
    case .notFound where code == Self.generic: GatewayCode.notFound.rawValue
    default: code.lowercased()
    }
  }

  private static let generic = "BAD_REQUEST"
}

/// For apps.
extension APIError {
  static var noSecret: APIError {
    APIError(
      .unauthorized,
      "Authorization must be Bearer, with the secret of the subscription.",
      headers: [.wwwAuthenticate: "Bearer"])
  }

  static var noSubscription: APIError {
    APIError(
      .noSubscription,
      "The subscription has ended. A PUT that names application_server_key makes it again.")
  }

  static var noMessage: APIError {
    APIError(
      .noMessage, "There is no such message for this subscription (any more).")
  }

  static var unknownApp: APIError {
    APIError(
      .unknownApp,
      "This app is not known here: the operator of this service has to add its key.")
  }

  static var unknownBouncerKey: APIError {
    APIError(.unknownBouncerKey, "bouncer_public_key is no key of this service.")
  }

  static var sealedTooLongAgo: APIError {
    APIError(
      .sealedTooLongAgo,
      "encrypted_push_registration was sealed more than a day ago: seal it again.")
  }

  static var senderKeyMissing: APIError {
    APIError(
      .keyMissing,
      "The subscription has ended, and was for one sender: name application_server_key, or null if anybody may send."
    )
  }

  static func tooManySubscriptions(retryAfter seconds: Double) -> APIError {
    .tooMany(
      "Too many new subscriptions from this address. Try again later.", retryAfter: seconds)
  }
}

/// For senders.
extension APIError {
  static var noEndpoint: APIError {
    APIError(.noEndpoint, "There is no such endpoint.")
  }

  static var subscriptionEnded: APIError {
    APIError(.subscriptionEnded, "The subscription has ended: send nothing more to it.")
  }

  static var unsupportedEncoding: APIError {
    APIError(
      .unsupportedEncoding,
      "Content-Encoding must be aes128gcm (RFC 8291), or aesgcm of its draft.")
  }

  static func unauthorizedSender(_ message: String) -> APIError {
    APIError(.unauthorized, message, headers: [.wwwAuthenticate: "vapid"])
  }

  static func forbiddenSender(_ message: String) -> APIError {
    APIError(.forbiddenSender, message)
  }

  static var tooManyMessages: APIError {
    APIError(
      .tooManyMessages, "Too many messages wait for this subscription already.",
      headers: [.retryAfter: "60"])
  }

  /// Why nothing is promised; nil if the message is on its way.
  init?(_ result: DeliveryResult) {
    switch result {
    case .delivered, .passedOn, .queued: return nil
    case .ended: self = .subscriptionEnded
    case .refused(.payloadTooLarge):
      self.init(
        .payloadTooLarge, "The message is too long for the app's provider.")
    case .refused(.backlogged): self = .tooManyMessages
    case .refused(.noRoom): self = .tryAgainLater
    case .refused:
      self = .unavailable("The app's provider does not take this message now.", retryAfter: 300)
    }
  }
}
