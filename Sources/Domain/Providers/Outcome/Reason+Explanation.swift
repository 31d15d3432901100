internal import Foundation

extension Reason {
  /// What it means at a provider, and what to do.
  package func explanation(at provider: Route.Provider) -> Explanation {
    guard let (failure, isOfSignIn) = connectionFailure, !isOfSignIn else { return explanation }
    return switch provider {
    case .apns: failure.explanation(of: "Apple's push service")
    case .fcm: failure.explanation(of: "Google's push service")
    case .webPush: failure.explanation(of: "The push service")
    case .upstream: failure.explanation(of: "The other bouncer (upstream.url)")
    }
  }

  /// What it means, and what to do. Each reason has a sentence of its own.
  package var explanation: Explanation {
    if let (failure, isOfSignIn) = connectionFailure {
      return failure.explanation(of: isOfSignIn ? Explanation.signIn : "The provider")
    }
    switch self {
    // Apple's reasons.
    case .badDeviceToken:
      return .init(
        "Apple does not know this device token, in any environment that a key lists the app for.",
        "If it is one phone, nothing: it registers again. If it is most phones: \(Explanation.compareEnvironment)"
      )
    case .deviceTokenNotForTopic:
      return .init(
        "The device token belongs to another app than the push is for.",
        "If it is one phone, nothing: it registers again. If it is most phones: \(Explanation.compareTopic)")
    case .unregistered:
      return .init(
        "Apple says that the app is no longer installed on this phone, or does not want pushes.",
        Explanation.registersAgain)
    case .expiredToken:
      return .init("Apple says that the device token has expired.", Explanation.registersAgain)
    case .badCertificate:
      return .init("Apple refuses a certificate, which push-bouncer does not use.", Explanation.bug)
    case .badCertificateEnvironment:
      return .init(
        "Apple says that a certificate is for another environment; push-bouncer uses none.", Explanation.bug)
    case .badEnvironmentKeyIDInToken:
      return .init("The key does not serve this environment of Apple's.", Explanation.compareEnvironment)
    case .badEnvironmentKeyInToken:
      return .init(
        "The key is restricted to another environment of Apple's, or to other apps.",
        "\(Explanation.compareEnvironment) \(Explanation.compareTopic)")
    case .topicDisallowed:
      return .init("Apple does not let this key push to this app.", Explanation.compareTopic)
    case .badTopic:
      return .init("Apple says that this is no bundle id of an app.", Explanation.compareTopic)
    case .missingTopic:
      return .init("Apple misses the app's bundle id.", Explanation.compareTopic)
    case .expiredProviderToken:
      return .init(
        "Apple finds the time in our provider token too old, also in a new one.",
        "See whether timedatectl says that the clock is synchronized.", mayBeClock: true)
    case .invalidProviderToken:
      return .init(
        """
        Apple does not accept what is signed with this key: the clock, key_id or team_id is wrong, or the key is revoked.
        """, Explanation.compareAPNsKey, mayBeClock: true)
    case .forbidden:
      return .init("Apple forbids this key to push at all.", Explanation.compareAPNsKey)
    case .unrelatedKeyIDInToken:
      return .init(
        "Apple met another key on this connection than the one that opened it.", Explanation.compareAPNsKey)
    case .missingProviderToken:
      return .init("Apple misses the provider token in the request.", Explanation.bug)
    case .badCollapseID:
      return .init("Apple does not accept the collapse id: it may have 64 bytes.", Explanation.bug)
    case .badExpirationDate:
      return .init("Apple does not accept the time at which the notification expires.", Explanation.bug)
    case .badMessageID:
      return .init("Apple does not accept the notification's id.", Explanation.bug)
    case .badPath:
      return .init("Apple does not know the path of the request.", Explanation.bug)
    case .badPriority:
      return .init(
        "Apple does not accept the priority: 10, 5 or 1, and not 10 in the background.",
        Explanation.senderOrBug)
    case .duplicateHeaders:
      return .init("Apple finds a header twice in the request.", Explanation.bug)
    case .invalidPushType:
      return .init("Apple does not know the push type.", Explanation.senderOrBug)
    case .methodNotAllowed:
      return .init("Apple does not accept the method of the request.", Explanation.bug)
    case .missingDeviceToken:
      return .init("Apple misses the device token in the request.", Explanation.bug)
    case .payloadEmpty:
      return .init("Apple finds nothing in the notification.", Explanation.senderOrBug)
    case .payloadTooLarge:
      return .init(
        "The notification is longer than the provider allows.",
        "Nothing here: the chat server has to send shorter ones.")
    case .idleTimeout:
      return .init("Apple closed a connection that had been idle.", Explanation.passes)
    case .internalServerError:
      return .init("Apple's push service has an error of its own.", Explanation.appleStatus)
    case .serviceUnavailable:
      return .init("Apple's push service is not available at present.", Explanation.appleStatus)
    case .shutdown:
      return .init("Apple's push service shuts the connection's server down.", Explanation.appleStatus)
    case .tooManyProviderTokenUpdates:
      return .init(
        "Apple finds that this key's provider token changes too often.",
        "See that no other program makes tokens with the same key again and again; each may have one for 20 minutes."
      )
    case .tooManyRequests:
      return .init("The provider wants fewer notifications for now.", Explanation.passes)
    // Google's reasons.
    case .fcmInternal:
      return .init("Google's push service has an error of its own.", Explanation.googleStatus)
    case .fcmUnavailable:
      return .init("Google's push service is not available at present.", Explanation.googleStatus)
    case .fcmUnspecifiedError:
      return .init("Google's push service has an error that it does not name.", Explanation.googleStatus)
    case .fcmInvalidArgument:
      return .init("Google refuses the message for what is in it.", Explanation.senderOrBug)
    case .fcmNotFound:
      return .init(
        "Google does not know the project.",
        "See that the project in Keys/fcm still exists and that its Firebase Cloud Messaging API (V1) is enabled."
      )
    case .fcmPermissionDenied:
      return .init(
        "The service account may not send pushes for this project.",
        """
        See in Google Cloud's IAM that it has the role Firebase Cloud Messaging API Admin, and that the project's \
        Firebase Cloud Messaging API (V1) is enabled.
        """)
    case .fcmQuotaExceeded:
      return .init(
        "Google takes no more messages for now, for this device or for the whole project.",
        "\(Explanation.passesAtFirst) ask for more quota in the Google Cloud console.")
    case .fcmSenderIDMismatch:
      return .init("The registration token belongs to another Firebase project.", Explanation.compareProject)
    case .fcmThirdPartyAuthError:
      return .init(
        "Google cannot push to Apple's devices for this project.",
        "Upload Apple's key in the Firebase console, or let phones of Apple's register through Keys/apns.")
    case .fcmUnauthenticated:
      return .init(
        "Google does not accept the access token of the service account.", Explanation.replaceServiceAccount)
    case .fcmUnregistered:
      return .init(
        "Google says that the app is no longer installed on this phone, or has a new token.",
        Explanation.registersAgain)
    case .invalidRegistrationToken:
      return .init(
        "Google says that this is no registration token.",
        "If it is one phone, nothing: it registers again. If it is most phones: \(Explanation.compareProject)"
      )
    case .invalidGrant:
      return .init(
        "Google does not accept the service account's key, or finds the time in what it signed wrong.",
        Explanation.replaceServiceAccount, mayBeClock: true)
    case .invalidClient:
      return .init(
        "Google's sign-in does not know the service account.", Explanation.replaceServiceAccount,
        mayBeClock: true)
    case .unauthorizedClient:
      return .init(
        "Google's sign-in gives this service account no access token for pushes.",
        Explanation.replaceServiceAccount, mayBeClock: true)
    case .invalidRequest:
      return .init("Google's sign-in does not understand how we ask for an access token.", Explanation.bug)
    case .invalidScope:
      return .init("Google's sign-in does not know the right (scope) that we ask for.", Explanation.bug)
    case .signInTimeout:
      return .init("\(Explanation.signIn) does not answer in time.", Explanation.reach)
    case .tokenUnavailable:
      return .init(
        "\(Explanation.signIn) is out of order, or what answers is not Google.",
        "\(Explanation.passesAtFirst) see whether a firewall or proxy in between answers.")
    // Reasons of Web Push alone.
    case .forbiddenAddress:
      return .init(
        "The push service's name stands for a private address, so nothing is sent there.",
        """
        If it is your own push service, name it in webpush.allow_private_hosts. If it is a stranger's, nothing: what \
        waits for it is given up in time.
        """)
    case .reservedDataName:
      return .init(
        "The message's data has a name that Google reserves: from, message_type, google.… or gcm.notification….",
        "Nothing here: the chat server or application has to name it otherwise.")
    case .requestRefused:
      return .init(
        "The push service does not take the message, and sending it again would not help.",
        """
        If it is one push service, nothing: see what its operator says of it. If it is most of them, see whether there \
        is a newer version of push-bouncer.
        """)
    case .subscriptionGone:
      return .init(
        "The push service says that this subscription is over: the app no longer wants it, or has another one.",
        Explanation.registersAgain)
    case .subscriptionUnknown:
      return .init("The push service does not know this subscription.", Explanation.registersAgain)
    case .vapidRefused:
      return .init(
        "The push service does not accept who we say we are (VAPID).",
        """
        If it is one subscription or push service, nothing: it was made for another server, and ends where others get \
        theirs. If it is most of them: \
        \(Explanation.setClock) See too that webpush.contact is an address that exists, and that the database is the one \
        that the phones subscribed with: its key pair is never replaced.
        """)
    // Reasons that come from this program, not from a provider.
    case .abandoned:
      return .init("The service ended before the provider's answer came.", Explanation.passes)
    case .cancelled:
      return .init(
        "Whoever asked for it stopped waiting before the provider's answer came.", Explanation.passes)
    case .shuttingDown:
      return .init("The service was being stopped, or its credential replaced.", Explanation.passes)
    case .backlogged:
      return .init(
        "As many notifications wait for this device as may (100), and further ones are refused.",
        "See why they wait: push-bouncer device show, at the bouncer. There is room again as soon as some are sent."
      )
    case .breakerOpen:
      return .init(
        "The route does not work at present, so nothing was sent.",
        "See why it does not: push-bouncer routes list.")
    case .deviceOverPace:
      return .init(
        "More notifications come for this device than its pace allows (240 a minute, 5,000 an hour, as at Google).",
        "Nothing: those beyond the pace are sent as it allows. See who or what sends its user so many."
      )
    case .installationIDUnknown:
      return .init(
        """
        Google does not know this phone's Firebase installation id yet: apps are given one before Google has it. What \
        is sent to it waits, for an hour at most.
        """,
        "No action needed: if Google still does not know it after an hour, the registration ends, and the app registers again."
      )
    case .serverOverPace:
      return .init(
        "Its chat server sends more notifications than its pace allows (bouncer.notifications_per_server).",
        "Nothing: those beyond the pace are sent as it allows. If the server may send so many, raise that setting."
      )
    case .connectionLost:
      return .init(
        "The provider, or a machine in between, takes connections and cuts them.", Explanation.cutConnections)
    case .streamReset:
      return .init(
        "The provider, or a machine in between, takes requests and breaks them off.",
        Explanation.cutConnections)
    case .refused:
      return .init(
        "Connections are open, but the provider turns requests on them away before it looks at them.",
        "\(Explanation.passesAtFirst) see what the provider says of outages.")
    case .overloaded:
      return .init(
        "More notifications wait for a connection than the service lets wait.",
        """
        \(Explanation.passesAtFirst) see whether the provider is slow, or whether far more is sent than usual.
        """)
    case .serverError:
      return .init(
        "The provider is out of order: it answers with a status of 500 or more.", Explanation.answersInBetween
      )
    case .unreadableAnswer:
      return .init(
        "What answers is not the provider, as of a machine in between.", Explanation.answersInBetween)
    case .timeout:
      return .init("The provider does not answer in time.", Explanation.reach)
    case .unconfigured:
      return .init(
        """
        No credential of the bouncer serves this app (in the environment of Apple's that has the token) or Firebase \
        project, or Web Push is switched off there.
        """,
        """
        Put its key into Keys/apns (with the bundle id in topics) or Keys/fcm; it is reloaded within seconds. For Web \
        Push see webpush.enabled, for a device of the other bouncer upstream.url.
        """
      )
    case .upstreamDisabled:
      return .init(
        "The chat server's notifications are not passed on to the other bouncer (upstream.url) any more.",
        "If that was a mistake: push-bouncer server upstream enable.")
    case .upstreamDisallows:
      return .init(
        "The other bouncer (upstream.url) does not send for this chat server, for example because of its plan there.",
        "Nothing here: it is between the chat server and the vendor of the other app.")
    case .upstreamForgot:
      return .init(
        "The other bouncer (upstream.url) does not have this device's registration any more.",
        Explanation.registersAgain)
    case .upstreamKeyMissing:
      return .init(
        "The chat server's key, with which it is known at the other bouncer (upstream.url), is not known here yet.",
        "Nothing: it is kept when the server calls next. See push-bouncer server upstream show.")
    case .upstreamKeyRefused:
      return .init(
        "The other bouncer (upstream.url) does not accept the chat server's id and key.",
        """
        See whether the server is registered there with the same zulip_org_id and zulip_org_key: push-bouncer doctor asks. \
        After it has been mended there, say push-bouncer server upstream enable again.
        """)
    case .upstreamRealmRefused:
      return .init(
        "The other bouncer (upstream.url) does not know the realm, or knows it as another server's.",
        """
        The server's realms are passed on with its next report: push-bouncer server upstream show says what came of the \
        last one.
        """)
    case .unknown:
      return .init(
        "The provider gave a reason that this version does not know.",
        "See what the provider says of it, and whether there is a newer version of push-bouncer.")
    // What is left are failures to connect, which are explained above.
    default:
      return .init("No connection to the provider can be opened.", Explanation.reach)
    }
  }
}
