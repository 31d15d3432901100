internal import Foundation

extension Reason {
  /// What it means, and what to do.
  package var explanation: Explanation {
    switch self {
    // Apple's reasons.
    case .badDeviceToken:
      .init(
        "Apple does not know this device token in the environment of the key.",
        "If it is one phone, nothing: it registers again. If it is most phones: \(Explanation.compareEnvironment)"
      )
    case .deviceTokenNotForTopic:
      .init(
        "The device token belongs to another app than the push is for.",
        "If it is one phone, nothing: it registers again. If it is most phones: \(Explanation.compareTopic)")
    case .expiredToken, .unregistered:
      .init(
        "Apple says that the app is no longer installed on this phone, or does not want pushes.",
        Explanation.registersAgain)
    case .badCertificate, .badCertificateEnvironment:
      .init("Apple refuses the certificate, which push-bouncer does not use.", Explanation.bug)
    case .badEnvironmentKeyIDInToken, .badEnvironmentKeyInToken:
      .init("The key does not serve this environment of Apple's.", Explanation.compareEnvironment)
    case .badTopic, .topicDisallowed:
      .init("Apple does not let this key push to this app.", Explanation.compareTopic)
    case .missingTopic:
      .init("Apple misses the app's bundle id.", Explanation.compareTopic)
    case .expiredProviderToken:
      .init(
        "Apple finds the time in our provider token too old, also in a new one.", Explanation.setClock)
    case .forbidden, .invalidProviderToken:
      .init(
        "Apple does not accept what is signed with this key: it is revoked, or key_id or team_id is wrong.",
        Explanation.compareAPNsKey)
    case .unrelatedKeyIDInToken:
      .init(
        "Apple met another key on this connection than the one that opened it.", Explanation.compareAPNsKey)
    case .missingProviderToken, .badCollapseID, .badExpirationDate, .badMessageID, .badPath, .badPriority,
      .duplicateHeaders, .invalidPushType, .methodNotAllowed, .missingDeviceToken, .payloadEmpty:
      .init("Apple does not understand the request.", Explanation.bug)
    case .payloadTooLarge:
      .init(
        "The notification is longer than the provider allows.",
        "Nothing here: the chat server has to send shorter ones.")
    case .idleTimeout:
      .init("Apple closed a connection that had been idle.", Explanation.passes)
    case .internalServerError, .serviceUnavailable, .shutdown:
      .init(
        "Apple's push service is out of order.",
        "\(Explanation.passes) Apple tells of outages at developer.apple.com/system-status.")
    case .tooManyProviderTokenUpdates:
      .init(
        "Apple finds that this key's provider token changes too often.",
        "See that no other program makes tokens with the same key again and again; each may have one for 20 minutes."
      )
    case .tooManyRequests:
      .init("The provider wants fewer notifications for now.", Explanation.passes)
    // Google's reasons.
    case .fcmInternal, .fcmUnavailable, .fcmUnspecifiedError:
      .init(
        "Google's push service is out of order.",
        "\(Explanation.passes) Google tells of outages at status.firebase.google.com.")
    case .fcmInvalidArgument:
      .init("Google does not understand the request.", Explanation.bug)
    case .fcmNotFound:
      .init(
        "Google does not know the project.",
        "See that the project in Keys/fcm still exists and that its Firebase Cloud Messaging API (V1) is enabled."
      )
    case .fcmPermissionDenied:
      .init(
        "The service account may not send pushes for this project.",
        """
        See in Google Cloud's IAM that it has the role Firebase Cloud Messaging API Admin, and that the project's \
        Firebase Cloud Messaging API (V1) is enabled.
        """)
    case .fcmQuotaExceeded:
      .init(
        "Google takes no more messages for now, for this device or for the whole project.",
        "\(Explanation.passesAtFirst) ask for more quota in the Google Cloud console.")
    case .fcmSenderIDMismatch:
      .init("The registration token belongs to another Firebase project.", Explanation.compareProject)
    case .fcmThirdPartyAuthError:
      .init(
        "Google cannot push to Apple's devices for this project.",
        "Upload Apple's key in the Firebase console, or let phones of Apple's register through Keys/apns.")
    case .fcmUnauthenticated:
      .init(
        "Google does not accept the access token of the service account.", Explanation.replaceServiceAccount)
    case .fcmUnregistered:
      .init(
        "Google says that the app is no longer installed on this phone, or has a new token.",
        Explanation.registersAgain)
    case .invalidRegistrationToken:
      .init(
        "Google says that this is no registration token.",
        "If it is one phone, nothing: it registers again. If it is most phones: \(Explanation.compareProject)"
      )
    case .invalidClient, .invalidGrant, .unauthorizedClient:
      .init(
        "Google does not accept the service account's key, or finds the time in what it signed wrong.",
        "\(Explanation.setClock) \(Explanation.replaceServiceAccount)")
    case .invalidRequest, .invalidScope:
      .init("Google does not understand how we ask for an access token.", Explanation.bug)
    // Reasons of Web Push alone.
    case .forbiddenAddress:
      .init(
        "The push service's name stands for a private address, so nothing is sent there.",
        """
        If it is your own push service, name it in webpush.allow_private_hosts. If it is a stranger's, nothing: what \
        waits for it is given up in time.
        """)
    case .requestRefused:
      .init(
        "The push service does not take the message, and sending it again would not help.",
        """
        If it is one push service, nothing: see what its operator says of it. If it is most of them, see whether there \
        is a newer version of push-bouncer.
        """)
    case .subscriptionGone, .subscriptionUnknown:
      .init(
        "The push service says that this subscription is over: the app no longer wants it, or has another one.",
        Explanation.registersAgain)
    case .vapidRefused:
      .init(
        "The push service does not accept who we say we are (VAPID).",
        """
        If it is one subscription or push service, nothing: it was made for another server, and ends where others get \
        theirs. If it is most of them: \
        \(Explanation.setClock) See too that webpush.contact is an address that exists, and that the database is the one \
        that the phones subscribed with: its key pair is never replaced.
        """)
    // Reasons that come from this program, not from a provider.
    case .abandoned, .cancelled, .shuttingDown:
      .init(
        "The service was stopped, or its credential replaced, before the answer came.", Explanation.passes)
    case .backlogged:
      .init(
        "As many notifications wait for this device as may (100), and further ones are refused.",
        "See why they wait: push-bouncer device show, at the bouncer. There is room again as soon as some are sent."
      )
    case .breakerOpen:
      .init(
        "The route does not work at present, so nothing was sent.",
        "See why it does not: push-bouncer routes list.")
    case .deviceOverPace:
      .init(
        "More notifications come for this device than its pace allows (240 a minute, 5,000 an hour).",
        "Nothing: those beyond the pace are sent as it allows. See which app of its Nextcloud server sends so many."
      )
    case .serverOverPace:
      .init(
        "Its chat server sends more notifications than its pace allows (bouncer.notifications_per_server).",
        "Nothing: those beyond the pace are sent as it allows. If the server may send so many, raise that setting."
      )
    case .connectFailed:
      .init("No connection to the provider can be opened.", Explanation.reach)
    case .connectionLost, .streamReset:
      .init(
        "The provider, or a machine in between, takes connections and cuts them.",
        """
        \(Explanation.passesAtFirst) see whether a firewall or proxy in between cuts connections, and what the \
        provider says of outages.
        """)
    case .refused:
      .init(
        "Connections are open, but the provider turns requests on them away before it looks at them.",
        "\(Explanation.passesAtFirst) see what the provider says of outages.")
    case .overloaded:
      .init(
        "More notifications wait for a connection than the service lets wait.",
        """
        \(Explanation.passesAtFirst) see whether the provider is slow, or whether far more is sent than usual.
        """)
    case .proxyRefused:
      .init(
        "The proxy does not let us through.",
        "See providers.proxy: address, name and password, and what it allows.")
    case .serverError, .unreadableAnswer:
      .init(
        "The provider is out of order, or what answers is not the provider, as of a machine in between.",
        """
        \(Explanation.passesAtFirst) see whether a firewall or proxy in between answers, and what the provider \
        says of outages.
        """)
    case .timeout:
      .init("The provider does not answer in time.", Explanation.reach)
    case .tlsFailed:
      .init(
        "The provider's certificate is not trusted, or no version of TLS and HTTP can be agreed on.",
        """
        See that ca-certificates is installed and up to date, that the clock is right, and that no machine in between \
        opens TLS; if one must, name its authority in providers.ca_file.
        """)
    case .tokenUnavailable:
      .init("Google's sign-in (oauth2.googleapis.com) cannot be reached.", Explanation.reach)
    case .unconfigured:
      .init(
        "No credential of the bouncer serves this app or Firebase project, or Web Push is switched off there.",
        """
        Put its key into Keys/apns (with the bundle id in topics) or Keys/fcm; it is reloaded within seconds. For Web \
        Push see webpush.enabled, for a device of the other bouncer upstream.url.
        """
      )
    case .upstreamDisabled:
      .init(
        "The chat server's notifications are not passed on to the other bouncer (upstream.url) any more.",
        "If that was a mistake: push-bouncer server upstream enable.")
    case .upstreamDisallows:
      .init(
        "The other bouncer (upstream.url) does not send for this chat server, for example because of its plan there.",
        "Nothing here: it is between the chat server and the vendor of the other app.")
    case .upstreamForgot:
      .init(
        "The other bouncer (upstream.url) does not have this device's registration any more.",
        Explanation.registersAgain)
    case .upstreamKeyMissing:
      .init(
        "The chat server's key, with which it is known at the other bouncer (upstream.url), is not known here yet.",
        "Nothing: it is kept when the server calls next. See push-bouncer server upstream show.")
    case .upstreamKeyRefused:
      .init(
        "The other bouncer (upstream.url) does not accept the chat server's id and key.",
        """
        See whether the server is registered there with the same zulip_org_id and zulip_org_key: push-bouncer doctor asks. \
        After it has been mended there, say push-bouncer server upstream enable again.
        """)
    case .upstreamRealmRefused:
      .init(
        "The other bouncer (upstream.url) does not know the realm, or knows it as another server's.",
        """
        The server's realms are passed on with its next report: push-bouncer server upstream show says what came of the \
        last one.
        """)
    case .unknown:
      .init(
        "The provider gave a reason that this version does not know.",
        "See what the provider says of it, and whether there is a newer version of push-bouncer.")
    }
  }
}

/// Explains a reason to the operator in plain sentences, for `/readyz`, the log, `doctor`, the pages and the
/// commands.
package struct Explanation: Sendable, Hashable {
  package let meaning: String
  package let advice: String

  package init(_ meaning: String, _ advice: String) {
    self.meaning = meaning
    self.advice = advice
  }

  /// The explanation of a stored reason. A name that is not known (any more) has a general one.
  package static func of(_ name: String) -> Explanation {
    (Reason(rawValue: name) ?? .unknown).explanation
  }
}

extension Explanation {
  private static let resent = "what waits is sent again until it is accepted or too old (delivery.max_age)."
  static let passes = "Nothing: \(resent)"
  /// Introduces the advice for a problem that usually passes by itself.
  static let passesAtFirst = "Nothing at first: \(resent) If it lasts:"
  static let reach = """
    See that the provider can be reached from this machine: name resolution, route, firewall, providers.proxy. \
    Waiting notifications are sent as soon as it can be.
    """
  static let bug = """
    This should not happen: see whether there is a newer version of push-bouncer, and report it with this reason.
    """
  static let compareAPNsKey = """
    Compare key_id and team_id in Keys/apns, and the .p8 file, with Apple's developer account: Certificates, \
    Identifiers & Profiles, Keys.
    """
  static let compareTopic = """
    Compare topics in Keys/apns with the bundle id of the app, and see that the key may be used for it in Apple's \
    developer account.
    """
  static let compareEnvironment = """
    Compare environment in Keys/apns with the app: builds from Xcode need sandbox, builds from TestFlight and the \
    App Store need production.
    """
  static let registersAgain = """
    Nothing: the registration ends, and the phone registers again when its app is opened.
    """
  static let compareProject = """
    See that the file in Keys/fcm is of the Firebase project whose google-services.json the app was built with.
    """
  static let replaceServiceAccount = """
    See in Google Cloud's IAM that the service account exists and is enabled; if it does, make a new JSON key for it \
    and put it into Keys/fcm.
    """
  static let setClock = "See that this machine's clock is right."
}
