internal import Delivery
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Providers

/// What apps and senders are told: `{"code": ..., "message": ...}`. Each code that an app or a sender may act on stands here.
extension APIError {
  var gatewayResponse: Response {
    Envelope.response(
      status, [.init("code", .string(gatewayCode)), .init("message", .string(message))], headers: headers)
  }

  /// In snake case. Errors that other parts of the program throw may have a code that only says "bad request".
  private var gatewayCode: String {
    switch status {
    case .tooManyRequests where code == Self.generic: "too_many_requests"
    case .notFound where code == Self.generic: "not_found"
    default: code.lowercased()
    }
  }

  private static let generic = "BAD_REQUEST"
}

/// For apps.
extension APIError {
  static var noSecret: APIError {
    APIError(
      .unauthorized, code: "unauthorized",
      "Authorization must be Bearer, with the secret of the subscription.",
      headers: [.wwwAuthenticate: "Bearer"])
  }

  static var noSubscription: APIError {
    APIError(
      .notFound, code: "no_subscription",
      "The subscription has ended. A PUT that names application_server_key makes it again.")
  }

  static var noMessage: APIError {
    APIError(
      .notFound, code: "no_message", "There is no such message for this subscription (any more).")
  }

  static var unknownApp: APIError {
    APIError(
      .forbidden, code: "unknown_app",
      "This app is not known here: the operator of this service has to add its key.")
  }

  static var unknownBouncerKey: APIError {
    APIError(code: "unknown_bouncer_key", "bouncer_public_key is no key of this service.")
  }

  static var sealedTooLongAgo: APIError {
    APIError(
      code: "sealed_too_long_ago",
      "encrypted_push_registration was sealed more than a day ago: seal it again.")
  }

  static var senderKeyMissing: APIError {
    APIError(
      code: "application_server_key_missing",
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
    APIError(.notFound, code: "no_endpoint", "There is no such endpoint.")
  }

  static var subscriptionEnded: APIError {
    APIError(.gone, code: "subscription_ended", "The subscription has ended: send nothing more to it.")
  }

  static var unsupportedEncoding: APIError {
    APIError(
      .unsupportedMediaType, code: "unsupported_encoding",
      "Content-Encoding must be aes128gcm (RFC 8291), or aesgcm of its draft.")
  }

  static func unauthorizedSender(_ message: String) -> APIError {
    APIError(.unauthorized, code: "unauthorized", message, headers: [.wwwAuthenticate: "vapid"])
  }

  static func forbiddenSender(_ message: String) -> APIError {
    APIError(.forbidden, code: "forbidden_sender", message)
  }

  static var tooManyMessages: APIError {
    APIError(
      .tooManyRequests, code: "too_many_messages", "Too many messages wait for this subscription already.",
      headers: [.retryAfter: "60"])
  }

  /// Why nothing is promised; nil if the message is on its way.
  init?(_ result: DeliveryResult) {
    switch result {
    case .delivered, .passedOn, .queued: return nil
    case .ended: self = .subscriptionEnded
    case .refused(.payloadTooLarge):
      self.init(
        .contentTooLarge, code: "payload_too_large", "The message is too long for the app's provider.")
    case .refused(.backlogged): self = .tooManyMessages
    case .refused(.noRoom): self = .tryAgainLater
    case .refused:
      self = .unavailable("The app's provider does not take this message now.", retryAfter: 300)
    }
  }
}
