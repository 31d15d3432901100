import HTTPClient

extension Reason {
  /// The codes that `FcmError` or `google.rpc.Status` carry (Firebase, "ErrorCode").
  static let fcm: [Row] = [
    Row(
      .fcmUnregistered, .dead,
      "Google says that the app is no longer installed on this phone, or has a new token.",
      .registersAgain),
    Row(
      .fcmSenderIDMismatch, .suspect, "The registration token belongs to another Firebase project.",
      .compareProject),
    Row(
      .fcmNotFound, .misconfigured, "Google does not know the project.",
      "See that the project in Keys/fcm still exists and that its Firebase Cloud Messaging API (V1) is enabled."
    ),
    Row(
      .fcmPermissionDenied, .misconfigured, "The service account may not send pushes for this project.",
      """
      See in Google Cloud's IAM that it has the role Firebase Cloud Messaging API Admin, and that the project's \
      Firebase Cloud Messaging API (V1) is enabled.
      """),
    Row(
      .fcmUnauthenticated, .misconfigured, "Google does not accept the access token of the service account.",
      .replaceServiceAccount),
    Row(
      .fcmInvalidArgument, .rejected, "Google refuses the message for what is in it.", .senderOrBug
    ),
    Row(
      .fcmQuotaExceeded, .retry(.tokenOrRoute),
      "Google takes no more messages for now, for this device or for the whole project.",
      .ifItLasts("ask for more quota in the Google Cloud console.")),
    Row(
      .fcmThirdPartyAuthError, .retry(.tokenOrRoute),
      "Google cannot push to Apple's devices for this project.",
      "Upload Apple's key in the Firebase console, or serve iPhones by a key in Keys/apns."),
    Row(
      "UNSPECIFIED_ERROR", .retry(.route), "Google's push service has an error that it does not name.",
      .googleStatus),
    Row(
      .fcmInternal, .retry(.provider), "Google's push service has an error of its own.",
      .googleStatus),
    Row(
      .fcmUnavailable, .retry(.provider), "Google's push service is not available at present.",
      .googleStatus),
  ]

  /// The errors of Google's OAuth endpoint (RFC 6749 section 5.2).
  static let googleSignIn: [Row] = [
    Row(
      "invalid_client", .misconfigured, "Google's sign-in does not know the service account.",
      .replaceServiceAccount,
      mayBeClock: true),
    Row(
      .invalidGrant, .misconfigured,
      "Google does not accept the service account's key, or finds the time in what it signed wrong.",
      .replaceServiceAccount, mayBeClock: true),
    Row(
      "invalid_request", .misconfigured,
      "Google's sign-in does not understand how we ask for an access token.",
      .bug),
    Row(
      "invalid_scope", .misconfigured, "Google's sign-in does not know the scope that we ask for.",
      .bug),
    Row(
      "unauthorized_client", .misconfigured,
      "Google's sign-in gives this service account no access token for pushes.",
      .replaceServiceAccount, mayBeClock: true),
  ]

  /// Our own reasons for what Google says or does without naming it.
  static let fcmOwn: [Row] = [
    Row(
      .invalidRegistrationToken, .suspect, "Google says that this is no registration token.",
      .forMostPhones(.compareProject)
    ),
    Row(
      .reservedDataName, .rejected,
      "The message's data has a name that Google reserves: from, message_type, google.… or gcm.notification….",
      Advice(
        "No action needed here: the chat server or application has to name it otherwise.",
        forServers: "The chat server has to name it otherwise.")),
    Row(
      .installationIDUnknown, .retry(.token),
      """
      Google does not know this phone's Firebase installation id yet: apps get it before Google's servers do. What is \
      sent to it waits, for an hour at most.
      """,
      .same(
        "No action needed: if Google still does not know it after an hour, the registration ends, and the app registers again."
      )
    ),
  ]

  /// Our own reasons for what Google's sign-in says or does without naming it, and for not reaching it.
  static let ownOfSignIn: [Row] =
    [
      Row(
        .signInTimeout, .retry(.route), "\(FCM.signIn) does not answer in time.", .reach),
      Row(
        .tokenUnavailable, .retry(.route),
        "\(FCM.signIn) is out of order, or what answers is not Google.",
        .ifItLasts("see whether a firewall or proxy in between answers.")),
    ]
    + ConnectionFailure.allCases.filter { $0.signInReason != $0.reason }.map {
      Row($0.signInReason, .retry(.route), $0.explanation(of: FCM.signIn))
    }

  private static let googleSignInNames = Set(googleSignIn.map(\.reason))
  static let fcmNames = Set(fcm.map(\.reason))

  /// Whether it concerns getting an access token from Google.
  var concernsSignIn: Bool {
    self == .tokenUnavailable || self == .signInTimeout || Self.googleSignInNames.contains(self)
      || connectionFailure?.isOfSignIn == true
  }
}

extension Advice {
  static let googleStatus = noAction(" Google reports outages at status.firebase.google.com.")
  static let compareProject: Advice = """
    See that the file in Keys/fcm is of the Firebase project whose google-services.json the app was built with.
    """
  static let replaceServiceAccount: Advice = """
    See in Google Cloud's IAM that the service account exists and is enabled; if it does, make a new JSON key for it \
    and put it into Keys/fcm.
    """
}

// MARK: Names that the code uses

extension Reason {
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

  /// FCM does not know a Firebase installation id that it has never accepted anything for.
  package static let installationIDUnknown = Reason("installationIDUnknown")
  /// FCM calls the registration token malformed (it says `INVALID_ARGUMENT` for that too).
  package static let invalidRegistrationToken = Reason("invalidRegistrationToken")
  /// The data of an FCM message has a name that Google reserves, so it was not sent.
  package static let reservedDataName = Reason("reservedDataName")
  /// Google's sign-in gave no access token: it answered that it is out of order, or what answered is not Google.
  package static let tokenUnavailable = Reason("tokenUnavailable")
  /// Google's sign-in took the request and did not answer in time.
  package static let signInTimeout = Reason("signInTimeout")
}
