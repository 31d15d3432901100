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
    Row(
      .signInTimeout, .retry(.route), "\(Explanation.signIn) does not answer in time.", .reach),
    Row(
      .tokenUnavailable, .retry(.route),
      "\(Explanation.signIn) is out of order, or what answers is not Google.",
      .ifItLasts("see whether a firewall or proxy in between answers.")),
  ]

  static let googleSignInNames = Set(googleSignIn.map(\.reason))
  static let fcmNames = Set(fcm.map(\.reason))
}
