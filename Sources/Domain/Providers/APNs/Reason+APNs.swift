extension Reason {
  /// The reasons that Apple names ("Handling notification responses from APNs"): the one place for a new one. `.dead` ends
  /// a token only where the status is 410.
  static let apns: [Row] = [
    Row(
      "ExpiredToken", .dead, "Apple says that the device token has expired.", .registersAgain),
    Row(
      .unregistered, .dead,
      "Apple says that the app is no longer installed on this phone, or has switched pushes off.",
      .registersAgain),
    Row(
      .badDeviceToken, .suspect,
      "Apple does not know this device token in any environment for which a key lists the app.",
      .forMostPhones(.compareEnvironment)
    ),
    Row(
      "DeviceTokenNotForTopic", .suspect, "The device token belongs to another app than the push is for.",
      .forMostPhones(.compareTopic)),
    Row(
      "BadCertificate", .misconfigured, "Apple refuses a certificate, which this service does not use.",
      .bug),
    Row(
      "BadCertificateEnvironment", .misconfigured,
      "Apple says that a certificate is for another environment; this service uses none.", .bug),
    Row(
      .badEnvironmentKeyIDInToken, .misconfigured, "The key does not serve this environment of Apple's.",
      .compareEnvironment),
    Row(
      .badEnvironmentKeyInToken, .misconfigured,
      "The key is restricted to another environment of Apple's, or to other apps.",
      "\(Advice.compareEnvironment.text) \(Advice.compareTopic.text)"),
    Row(
      "BadTopic", .misconfigured, "Apple says that this is no bundle id of an app.", .compareTopic),
    Row(
      .forbidden, .misconfigured, "Apple forbids this key to push at all.", .compareAPNsKey),
    Row(
      .invalidProviderToken, .misconfigured,
      """
      Apple does not accept what is signed with this key: the clock, the key id or the team id is wrong, or the key is revoked.
      """, .compareAPNsKey, mayBeClock: true),
    Row(
      .missingProviderToken, .misconfigured, "Apple finds no provider token in the request.",
      .bug),
    Row(
      .missingTopic, .misconfigured, "Apple finds no bundle id of an app in the request.",
      .compareTopic),
    Row(
      .topicDisallowed, .misconfigured, "Apple does not let this key push to this app.",
      .compareTopic),
    Row(
      .unrelatedKeyIDInToken, .misconfigured,
      "Apple got a token of another key than the one that this connection began with.",
      .compareAPNsKey),
    Row(
      .badCollapseID, .rejected, "Apple does not accept the collapse id, which may have at most 64 bytes.",
      .bug),
    Row(
      .badExpirationDate, .rejected, "Apple does not accept the time at which the notification expires.",
      .bug),
    Row(
      .badMessageID, .rejected, "Apple does not accept the notification's id.", .bug),
    Row(
      .badPath, .rejected, "Apple does not know the path of the request.", .bug),
    Row(
      .badPriority, .rejected,
      "Apple does not accept the priority: it must be 10, 5 or 1, and not 10 for a background push.",
      .senderOrBug),
    Row(
      .duplicateHeaders, .rejected, "Apple finds a header twice in the request.", .bug),
    Row(
      .invalidPushType, .rejected, "Apple does not know the push type.", .senderOrBug),
    Row(
      .methodNotAllowed, .rejected, "Apple does not accept the method of the request.", .bug),
    Row(
      .missingDeviceToken, .rejected, "Apple finds no device token in the request.", .bug),
    Row(
      .payloadEmpty, .rejected, "Apple finds nothing in the notification.", .senderOrBug),
    Row(
      .payloadTooLarge, .rejected, "The notification is longer than the provider allows.",
      Advice(
        "No action needed here: the chat server has to send shorter ones.",
        forServers: "The chat server has to send shorter ones.")),
    Row(
      .tooManyRequests, .retry(.token), "The provider asks for fewer notifications at present.",
      .passes),
    Row(
      .expiredProviderToken, .retry(.route),
      "Apple finds the time in our provider token too old, also in a new one.",
      "See whether timedatectl says that the clock is synchronized.", mayBeClock: true),
    Row(
      .idleTimeout, .retry(.route), "Apple closed a connection that had been idle.", .passes),
    Row(
      .tooManyProviderTokenUpdates, .retry(.route),
      "Apple finds that this key's provider token changes too often.",
      "See that no other program makes tokens with the same key again and again; each may have one for 20 minutes."
    ),
    Row(
      .internalServerError, .retry(.provider), "Apple's push service has an error of its own.",
      .appleStatus),
    Row(
      .serviceUnavailable, .retry(.provider), "Apple's push service is not available at present.",
      .appleStatus),
    Row(
      .shutdown, .retry(.provider), "Apple is shutting down the server at the other end of the connection.",
      .appleStatus),
  ]

  static let apnsNames = Set(apns.map(\.reason))
}

extension Advice {
  static let appleStatus = noAction(" Apple reports outages at developer.apple.com/system-status.")
  static let compareAPNsKey: Advice = """
    Compare key_id and team_id in Keys/apns, and the .p8 file, with \
    Apple's developer account: Certificates, Identifiers & Profiles, Keys. A key that is no longer listed there is \
    revoked: make a new one.
    """
  static let compareTopic: Advice = """
    Compare topics in Keys/apns with the bundle id of the app, and see that the key may be used for it in Apple's \
    developer account.
    """
  static let compareEnvironment: Advice = """
    Compare environment in Keys/apns with the app: builds from Xcode need sandbox, builds from TestFlight and the \
    App Store need production.
    """
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
}
