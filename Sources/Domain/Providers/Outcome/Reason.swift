/// The reason for an outcome: the provider's name for it (`BadDeviceToken`, `UNREGISTERED`) or one of ours
/// (`timeout`, `connectionLost`). A closed list, because it labels metrics; names that are not in it become
/// ``unknown``.
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

  // Ours, from here to the end.
  /// This program ended before the answer came.
  case abandoned
  /// The device has as many waiting pushes as are allowed.
  case backlogged
  /// Nothing was sent, because the route does not work or is too slow at present.
  case breakerOpen
  /// The caller was cancelled before the answer came.
  case cancelled
  /// The connection was closed while the request was under way, so the provider may have taken the push.
  case connectionLost
  /// The push service's name has an address that must not be called.
  case forbiddenAddress
  /// The device gets more notifications than its pace at the push proxy allows.
  case deviceOverPace
  /// FCM does not know a Firebase installation id that it has never accepted anything for.
  case installationIDUnknown
  /// FCM calls the registration token malformed (it says `INVALID_ARGUMENT` for that too).
  case invalidRegistrationToken
  /// Too many requests wait for a connection.
  case overloaded
  /// The data of an FCM message has a name that Google reserves, so it was not sent.
  case reservedDataName
  /// The provider refused the stream unprocessed (REFUSED_STREAM), each time.
  case refused
  /// A push service refused the request (400 or another 4xx without a meaning of its own).
  case requestRefused
  /// A 5xx status without a reason.
  case serverError
  /// The chat server sends more notifications than its pace allows.
  case serverOverPace
  /// This program is shutting down, or the credential is being replaced.
  case shuttingDown
  /// The provider reset the stream while the request was under way.
  case streamReset
  /// No answer within the deadline.
  case timeout
  /// A push service answered that the subscription is gone (410).
  case subscriptionGone
  /// A push service answered that it does not know the subscription (404).
  case subscriptionUnknown
  /// Google's sign-in gave no access token: it answered that it is out of order, or what answered is not Google.
  case tokenUnavailable
  /// No credential serves the topic or project.
  case unconfigured
  /// A provider's reason that is not in this list.
  case unknown
  /// An answer that is not the provider's: HTML, empty or cut; from a push service, a redirect.
  case unreadableAnswer
  /// The operator has ended what was registered with the other bouncer.
  case upstreamDisabled
  /// The other bouncer does not let this chat server have notifications sent, as by its plan.
  case upstreamDisallows
  /// The other bouncer does not have the registration (any more).
  case upstreamForgot
  /// This chat server's key for the other bouncer is not known yet, or not any more.
  case upstreamKeyMissing
  /// The other bouncer refused the chat server's key (401).
  case upstreamKeyRefused
  /// The other bouncer does not know the realm, or as another server's (403).
  case upstreamRealmRefused
  /// A push service refused our VAPID token (401, 403).
  case vapidRefused

  // No connection to the provider: see ``ConnectionFailure``.
  case nameNotResolved, connectionRefused, connectTimeout, networkUnreachable, connectFailed
  case descriptorsExhausted
  case handshakeTimeout, handshakeClosed, notTLS, http2NotOffered, tlsFailed
  case certificateExpired, certificateNotYetValid, certificateUntrusted, certificateNameMismatch
  case proxyNameNotResolved, proxyConnectionRefused, proxyConnectTimeout, proxyUnreachable, proxyTimeout
  case proxyUnauthorized, proxyForbidden, proxyCannotConnect, proxyRefused

  // No connection to Google's sign-in, where it differs from one to the provider.
  case signInNameNotResolved, signInConnectionRefused, signInConnectTimeout, signInNetworkUnreachable
  case signInConnectFailed
  case signInHandshakeTimeout, signInHandshakeClosed, signInNotTLS, signInTlsFailed
  case signInCertificateExpired, signInCertificateNotYetValid, signInCertificateUntrusted
  case signInCertificateNameMismatch
  case signInProxyTimeout, signInProxyForbidden, signInProxyCannotConnect, signInProxyRefused
  /// Google's sign-in took the request and did not answer in time.
  case signInTimeout

  /// Reasons that mean an outage of the provider.
  static let outages: Set<Reason> = [.internalServerError, .serviceUnavailable, .shutdown, .serverError]

  package var description: String { rawValue }

  /// The reason of a provider's name. Names that are unknown, or our own, become ``unknown``.
  init(providerName: String) {
    let reason = Reason(rawValue: providerName) ?? .unknown
    self = reason.isOurs ? .unknown : reason
  }

  /// Whether it concerns getting an access token from Google.
  var concernsSignIn: Bool {
    switch self {
    case .tokenUnavailable, .signInTimeout, .invalidClient, .invalidGrant, .invalidRequest, .invalidScope,
      .unauthorizedClient:
      true
    default: connectionFailure?.isOfSignIn == true
    }
  }

  /// Whether the other bouncer lets nothing of one chat server in, until its key or its realms are in order there.
  package var concernsUpstreamAccess: Bool {
    [.upstreamKeyMissing, .upstreamKeyRefused, .upstreamRealmRefused].contains(self)
  }

  private static let ours = Set(allCases.drop { $0 != .abandoned })

  /// Whether it is this program's reason, not a provider's: ``abandoned`` and all after it.
  var isOurs: Bool { Self.ours.contains(self) }
}
