/// Why an outcome is what it is: the provider's own name for it (`BadDeviceToken`,
/// `UNREGISTERED`) or one of ours (`timeout`, `connectionLost`). A closed list, so that it can
/// label a metric; a name nobody knows becomes ``unknown``.
package enum Reason: String, Sendable, Hashable, CaseIterable, CustomStringConvertible {
  // APNs: about the token.
  case badDeviceToken = "BadDeviceToken"
  case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
  case expiredToken = "ExpiredToken"
  case unregistered = "Unregistered"
  // APNs: about the topic or the key.
  case badCertificate = "BadCertificate"
  case badCertificateEnvironment = "BadCertificateEnvironment"
  case badEnvironmentKeyIDInToken = "BadEnvironmentKeyIdInToken"
  case badEnvironmentKeyInToken = "BadEnvironmentKeyInToken"
  case badTopic = "BadTopic"
  case expiredProviderToken = "ExpiredProviderToken"
  case forbidden = "Forbidden"
  case invalidProviderToken = "InvalidProviderToken"
  case missingProviderToken = "MissingProviderToken"
  case missingTopic = "MissingTopic"
  case topicDisallowed = "TopicDisallowed"
  case unrelatedKeyIDInToken = "UnrelatedKeyIdInToken"
  // APNs: about the request.
  case badCollapseID = "BadCollapseId"
  case badExpirationDate = "BadExpirationDate"
  case badMessageID = "BadMessageId"
  case badPath = "BadPath"
  case badPriority = "BadPriority"
  case duplicateHeaders = "DuplicateHeaders"
  case invalidPushType = "InvalidPushType"
  case methodNotAllowed = "MethodNotAllowed"
  case missingDeviceToken = "MissingDeviceToken"
  case payloadEmpty = "PayloadEmpty"
  case payloadTooLarge = "PayloadTooLarge"
  // APNs: may pass.
  case idleTimeout = "IdleTimeout"
  case internalServerError = "InternalServerError"
  case serviceUnavailable = "ServiceUnavailable"
  case shutdown = "Shutdown"
  case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
  case tooManyRequests = "TooManyRequests"

  // FCM.
  case fcmInternal = "INTERNAL"
  case fcmInvalidArgument = "INVALID_ARGUMENT"
  case fcmNotFound = "NOT_FOUND"
  case fcmPermissionDenied = "PERMISSION_DENIED"
  case fcmQuotaExceeded = "QUOTA_EXCEEDED"
  case fcmSenderIDMismatch = "SENDER_ID_MISMATCH"
  case fcmThirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR"
  case fcmUnauthenticated = "UNAUTHENTICATED"
  case fcmUnavailable = "UNAVAILABLE"
  case fcmUnregistered = "UNREGISTERED"
  case fcmUnspecifiedError = "UNSPECIFIED_ERROR"

  // Google's OAuth endpoint (RFC 6749 section 5.2).
  case invalidClient = "invalid_client"
  case invalidGrant = "invalid_grant"
  case invalidRequest = "invalid_request"
  case invalidScope = "invalid_scope"
  case unauthorizedClient = "unauthorized_client"

  // Ours: all that follow.
  /// This program ends before the answer has come.
  case abandoned
  /// As much waits for its device as may.
  case backlogged
  /// The route does not work at present, or is too slow to be waited for, so nothing was sent.
  case breakerOpen
  /// The caller gave up before there was an answer.
  case cancelled
  /// No connection to the provider could be opened.
  case connectFailed
  /// The connection ended with the request under way: nobody knows whether it was taken.
  case connectionLost
  /// The push service's name means an address that must not be called.
  case forbiddenAddress
  /// FCM calls the registration token malformed (it says `INVALID_ARGUMENT` for that too).
  case invalidRegistrationToken
  /// More requests wait for a connection than we let wait.
  case overloaded
  /// The HTTP CONNECT proxy did not let us through.
  case proxyRefused
  /// The provider closed the stream before it looked at the request, and did so each time.
  case refused
  /// A push service refuses the request (400, or another 4xx that says nothing more).
  case requestRefused
  /// A status of 5xx without a reason.
  case serverError
  /// This program is shutting down, or the credential is being replaced.
  case shuttingDown
  /// The provider reset the stream with the request under way.
  case streamReset
  /// No answer within the deadline.
  case timeout
  /// TLS failed: certificate, protocol version or no HTTP/2.
  case tlsFailed
  /// A push service says that the subscription is gone (410).
  case subscriptionGone
  /// A push service does not know the subscription (404).
  case subscriptionUnknown
  /// The access token could not be had.
  case tokenUnavailable
  /// No credential serves the topic or project.
  case unconfigured
  /// A reason that is not in this list.
  case unknown
  /// An answer that is not the provider's: HTML, empty or cut short; of a push service a redirect.
  case unreadableAnswer
  /// A push service refuses our VAPID token (401, 403).
  case vapidRefused

  /// A provider that is out of order.
  static let outages: Set<Reason> = [.internalServerError, .serviceUnavailable, .shutdown, .serverError]

  package var description: String { rawValue }

  /// The provider's name for it, or ``unknown``. Our own names are not for providers to use.
  init(providerName: String) {
    let reason = Reason(rawValue: providerName) ?? .unknown
    self = reason.isOurs ? .unknown : reason
  }

  /// Whether it is about getting an access token from Google.
  var concernsSignIn: Bool {
    switch self {
    case .tokenUnavailable, .invalidClient, .invalidGrant, .invalidRequest, .invalidScope,
      .unauthorizedClient:
      true
    default: false
    }
  }

  private static let ours = Set(allCases.drop { $0 != .abandoned })

  /// Whether no provider said so: those from ``abandoned`` on.
  var isOurs: Bool { Self.ours.contains(self) }
}
