import HTTPClient

/// The reason for an outcome: the provider's name for it (`BadDeviceToken`, `UNREGISTERED`) or one of ours
/// (`timeout`, `connectionLost`). A closed list, because it labels metrics; names that are not in it become
/// ``unknown``.
///
/// Each reason has one row in one table (``apns``, ``fcm``, …): its name, the outcome that it stands for, what it means in
/// a sentence, and what to do. A new reason needs a constant below only if code names it. `Documentation/Reasons.md` is made
/// from these tables.
package struct Reason: RawRepresentable, Sendable, Hashable, CaseIterable, CustomStringConvertible {
  package let rawValue: String

  /// A reason of the list; nil for any other name.
  package init?(rawValue: String) {
    self.init(rawValue)
    guard row != nil else { return nil }
  }

  /// The name of a row.
  init(_ name: String) { rawValue = name }

  package var description: String { rawValue }
}

extension Reason {
  /// The outcome that a provider's reason stands for, unless the status of its answer says otherwise.
  package enum Statement: Sendable, Hashable {
    case dead, suspect, rejected, misconfigured
    case retry(Outcome.Scope)
  }

  /// A row of a table.
  package struct Row: Sendable {
    package let reason: Reason
    /// Nil if it depends on the provider.
    package let statement: Statement?
    package let explanation: Explanation

    /// Whether it usually ends registrations.
    var endsToken: Bool { statement == .dead || statement == .suspect }

    /// A reason that no code names.
    init(
      _ name: String, _ statement: Statement, _ meaning: String, _ advice: Advice, mayBeClock: Bool = false
    ) {
      self.init(Reason(name), statement, Explanation(meaning, advice, mayBeClock: mayBeClock))
    }

    /// - Parameter mayBeClock: whether a wrong clock of this machine would do that, too.
    init(
      _ reason: Reason, _ statement: Statement, _ meaning: String, _ advice: Advice, mayBeClock: Bool = false
    ) {
      self.init(reason, statement, Explanation(meaning, advice, mayBeClock: mayBeClock))
    }

    /// One of our own reasons, whose outcome depends on where it is used.
    init(_ reason: Reason, _ meaning: String, _ advice: Advice) {
      self.init(reason, nil, Explanation(meaning, advice))
    }

    init(_ reason: Reason, _ statement: Statement?, _ explanation: Explanation) {
      self.reason = reason
      self.statement = statement
      self.explanation = explanation
    }
  }

  /// The rows whose names are a provider's.
  private static let named = apns + fcm + googleSignIn
  private static let names = Set(named.map(\.reason))
  /// All rows, by what they are about.
  package static let tables: [(heading: String, rows: [Row])] = [
    ("Apple (APNs)", apns), ("Google (FCM)", fcm + fcmOwn.filter { !$0.reason.concernsSignIn }),
    ("Google's sign-in", googleSignIn + fcmOwn.filter(\.reason.concernsSignIn)),
    ("Push services (Web Push)", webPush), ("The upstream bouncer", upstream),
    ("No answer, and nothing sent", own + [unknownRow]), ("No connection", connection),
  ]

  private static let all = tables.flatMap(\.rows)
  private static let table = Dictionary(uniqueKeysWithValues: all.map { ($0.reason, $0) })

  package static let allCases = all.map(\.reason)

  var row: Row? { Self.table[self] }

  /// The rows about pushes of one provider alone.
  static func rows(of provider: Route.Provider) -> [Row] {
    switch provider {
    case .apns: apns
    case .fcm: fcm + fcmOwn
    case .webPush: webPush
    case .upstream: upstream
    }
  }

  /// The reason of a provider's name. Names that are unknown, or our own, become ``unknown``.
  init(providerName: String) {
    let reason = Reason(providerName)
    self = reason.isOurs ? .unknown : reason
  }

  /// Whether it is this program's reason, not a provider's.
  var isOurs: Bool { !Self.names.contains(self) }

  /// What it means, and what to do. Each reason has a sentence of its own.
  package var explanation: Explanation { (row ?? Self.unknownRow).explanation }

  /// What it means at a provider, and what to do.
  package func explanation(at provider: Route.Provider) -> Explanation {
    guard let (failure, isOfSignIn) = connectionFailure, !isOfSignIn else { return explanation }
    return switch provider {
    case .apns: failure.explanation(of: "Apple's push service")
    case .fcm: failure.explanation(of: "Google's push service")
    case .webPush: failure.explanation(of: "The push service")
    case .upstream: failure.explanation(of: "The upstream bouncer (upstream.url)")
    }
  }

  /// Whether it concerns getting an access token from Google.
  var concernsSignIn: Bool {
    self == .tokenUnavailable || self == .signInTimeout || Self.googleSignInNames.contains(self)
      || connectionFailure?.isOfSignIn == true
  }

  /// Whether a provider means by it that the token is dead.
  package var isOfDeadToken: Bool { row?.statement == .dead }

  /// Whether the upstream bouncer lets nothing of one chat server in, until its key or its realms are in order there.
  package var concernsAccess: Bool {
    [.upstreamKeyMissing, .upstreamKeyRefused, .upstreamRealmRefused].contains(self)
  }
}

// MARK: Names that the code uses

extension Reason {
  // APNs: about the token.
  package static let badDeviceToken = Reason("BadDeviceToken")
  package static let unregistered = Reason("Unregistered")

  // APNs: about the topic or the key.
  package static let badEnvironmentKeyIDInToken = Reason("BadEnvironmentKeyIdInToken")
  package static let badEnvironmentKeyInToken = Reason("BadEnvironmentKeyInToken")
  package static let expiredProviderToken = Reason("ExpiredProviderToken")
  package static let forbidden = Reason("Forbidden")
  package static let invalidProviderToken = Reason("InvalidProviderToken")
  package static let missingProviderToken = Reason("MissingProviderToken")
  package static let missingTopic = Reason("MissingTopic")
  package static let topicDisallowed = Reason("TopicDisallowed")
  package static let unrelatedKeyIDInToken = Reason("UnrelatedKeyIdInToken")

  // APNs: about the request.
  package static let badCollapseID = Reason("BadCollapseId")
  package static let badExpirationDate = Reason("BadExpirationDate")
  package static let badMessageID = Reason("BadMessageId")
  package static let badPath = Reason("BadPath")
  package static let badPriority = Reason("BadPriority")
  package static let duplicateHeaders = Reason("DuplicateHeaders")
  package static let invalidPushType = Reason("InvalidPushType")
  package static let methodNotAllowed = Reason("MethodNotAllowed")
  package static let missingDeviceToken = Reason("MissingDeviceToken")
  package static let payloadEmpty = Reason("PayloadEmpty")
  package static let payloadTooLarge = Reason("PayloadTooLarge")

  // APNs: may pass.
  package static let idleTimeout = Reason("IdleTimeout")
  package static let internalServerError = Reason("InternalServerError")
  package static let serviceUnavailable = Reason("ServiceUnavailable")
  package static let shutdown = Reason("Shutdown")
  package static let tooManyProviderTokenUpdates = Reason("TooManyProviderTokenUpdates")
  package static let tooManyRequests = Reason("TooManyRequests")

  // FCM.
  package static let fcmInternal = Reason("INTERNAL")
  package static let fcmInvalidArgument = Reason("INVALID_ARGUMENT")
  package static let fcmNotFound = Reason("NOT_FOUND")
  package static let fcmPermissionDenied = Reason("PERMISSION_DENIED")
  package static let fcmQuotaExceeded = Reason("QUOTA_EXCEEDED")
  package static let fcmSenderIDMismatch = Reason("SENDER_ID_MISMATCH")
  package static let fcmThirdPartyAuthError = Reason("THIRD_PARTY_AUTH_ERROR")
  package static let fcmUnauthenticated = Reason("UNAUTHENTICATED")
  package static let fcmUnavailable = Reason("UNAVAILABLE")
  package static let fcmUnregistered = Reason("UNREGISTERED")

  // Google's OAuth endpoint (RFC 6749 section 5.2).
  package static let invalidGrant = Reason("invalid_grant")

  // Ours.
  /// This program ended before the answer came.
  package static let abandoned = Reason("abandoned")
  /// The device has as many waiting pushes as are allowed.
  package static let backlogged = Reason("backlogged")
  /// Nothing was sent, because the route does not work or is too slow at present.
  package static let breakerOpen = Reason("breakerOpen")
  /// The caller was cancelled before the answer came.
  package static let cancelled = Reason("cancelled")
  /// The connection was closed while the request was under way, so the provider may have taken the push.
  package static let connectionLost = Reason("connectionLost")
  /// The push service's name has an address that must not be called.
  package static let nameReserved = Reason("nameReserved")
  package static let forbiddenAddress = Reason("forbiddenAddress")
  /// The device gets more notifications than its pace at the push proxy allows.
  package static let deletionsHeld = Reason("deletionsHeld")
  package static let deviceOverPace = Reason("deviceOverPace")
  /// The device's owner, or the push service, has as many waiting pushes as are allowed.
  package static let noRoom = Reason("noRoom")
  /// FCM does not know a Firebase installation id that it has never accepted anything for.
  package static let installationIDUnknown = Reason("installationIDUnknown")
  /// FCM calls the registration token malformed (it says `INVALID_ARGUMENT` for that too).
  package static let invalidRegistrationToken = Reason("invalidRegistrationToken")
  /// Too many requests wait for a connection.
  package static let overloaded = Reason("overloaded")
  /// The data of an FCM message has a name that Google reserves, so it was not sent.
  package static let reservedDataName = Reason("reservedDataName")
  /// The provider refused the stream unprocessed (REFUSED_STREAM), each time.
  package static let refused = Reason("refused")
  /// A push service refused the request (400 or another 4xx without a meaning of its own).
  package static let requestRefused = Reason("requestRefused")
  /// A 5xx status without a reason.
  package static let serverError = Reason("serverError")
  /// The chat server sends more notifications than its pace allows.
  package static let serverOverPace = Reason("serverOverPace")
  /// This program is shutting down, or the credential is being replaced.
  package static let shuttingDown = Reason("shuttingDown")
  /// The provider reset the stream while the request was under way.
  package static let streamReset = Reason("streamReset")
  /// No answer within the deadline.
  package static let timeout = Reason("timeout")
  /// A push service answered that the subscription is gone (410).
  package static let subscriptionGone = Reason("subscriptionGone")
  /// A push service answered that it does not know the subscription (404).
  package static let subscriptionUnknown = Reason("subscriptionUnknown")
  /// Google's sign-in gave no access token: it answered that it is out of order, or what answered is not Google.
  package static let tokenUnavailable = Reason("tokenUnavailable")
  /// No credential serves the topic or project.
  package static let unconfigured = Reason("unconfigured")
  /// A provider's reason that is not in this list.
  package static let unknown = Reason("unknown")
  /// An answer that is not the provider's: HTML, empty or cut; from a push service, a redirect.
  package static let unreadableAnswer = Reason("unreadableAnswer")
  /// The upstream bouncer has taken the notifications, and what it says of them is cut or of another form.
  package static let unreadableReceipt = Reason("unreadableReceipt")
  /// The operator has ended what was registered with the upstream bouncer.
  package static let upstreamDisabled = Reason("upstreamDisabled")
  /// The upstream bouncer does not send for this chat server, for example because of its plan.
  package static let upstreamDisallows = Reason("upstreamDisallows")
  /// The upstream bouncer does not have the registration (any more).
  package static let upstreamForgot = Reason("upstreamForgot")
  /// This chat server's key for the upstream bouncer is not known yet, or not any more.
  package static let upstreamKeyMissing = Reason("upstreamKeyMissing")
  /// The upstream bouncer refused the chat server's key (401).
  package static let upstreamKeyRefused = Reason("upstreamKeyRefused")
  /// The upstream bouncer does not know the realm, or as another server's (403).
  package static let upstreamRealmRefused = Reason("upstreamRealmRefused")
  /// A push service refused our VAPID token (401, 403).
  package static let vapidRefused = Reason("vapidRefused")

  // No connection to the provider: see ``ConnectionFailure``.
  package static let nameNotResolved = ConnectionFailure.nameNotResolved.reason
  package static let connectionRefused = ConnectionFailure.connectionRefused.reason
  package static let connectTimeout = ConnectionFailure.connectTimeout.reason
  package static let networkUnreachable = ConnectionFailure.networkUnreachable.reason
  package static let connectFailed = ConnectionFailure.connectFailed.reason
  package static let descriptorsExhausted = ConnectionFailure.descriptorsExhausted.reason
  package static let handshakeTimeout = ConnectionFailure.handshakeTimeout.reason
  package static let handshakeClosed = ConnectionFailure.handshakeClosed.reason
  package static let notTLS = ConnectionFailure.notTLS.reason
  package static let http2NotOffered = ConnectionFailure.http2NotOffered.reason
  package static let tlsFailed = ConnectionFailure.tlsFailed.reason
  package static let certificateExpired = ConnectionFailure.certificateExpired.reason
  package static let certificateNotYetValid = ConnectionFailure.certificateNotYetValid.reason
  package static let certificateUntrusted = ConnectionFailure.certificateUntrusted.reason
  package static let certificateNameMismatch = ConnectionFailure.certificateNameMismatch.reason
  package static let proxyNameNotResolved = ConnectionFailure.proxyNameNotResolved.reason
  package static let proxyConnectionRefused = ConnectionFailure.proxyConnectionRefused.reason
  package static let proxyConnectTimeout = ConnectionFailure.proxyConnectTimeout.reason
  package static let proxyUnreachable = ConnectionFailure.proxyUnreachable.reason
  package static let proxyTimeout = ConnectionFailure.proxyTimeout.reason
  package static let proxyUnauthorized = ConnectionFailure.proxyUnauthorized.reason
  package static let proxyForbidden = ConnectionFailure.proxyForbidden.reason
  package static let proxyCannotConnect = ConnectionFailure.proxyCannotConnect.reason
  package static let proxyRefused = ConnectionFailure.proxyRefused.reason

  /// Google's sign-in took the request and did not answer in time.
  package static let signInTimeout = Reason("signInTimeout")
}
