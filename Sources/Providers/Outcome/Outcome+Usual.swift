extension Outcome {
  /// Those that a provider's route meets in the course of time, besides ``delivered``.
  static func usual(_ provider: Route.Provider) -> [Outcome] {
    let missing = [
      TransportFailure.timeout, .connectFailed, .tlsFailed, .connectionLost, .streamReset, .refused,
    ].map(Outcome.init)
    let own: [Outcome] = [.retry(.breakerOpen, notBefore: nil, scope: .route)]
    return missing + own + special(provider)
  }

  /// Why registrations usually end.
  package static let usuallyEnding = Set(
    Route.Provider.allCases.flatMap(special).compactMap { outcome -> Reason? in
      switch outcome {
      case .dead(let reason, _), .suspect(let reason): reason
      default: nil
      }
    })

  private static func special(_ provider: Route.Provider) -> [Outcome] {
    switch provider {
    case .apns:
      [
        .dead(.unregistered, since: nil), .dead(.expiredToken, since: nil), .suspect(.badDeviceToken),
        .suspect(.deviceTokenNotForTopic), .rejected(.payloadTooLarge),
        .misconfigured(.invalidProviderToken),
        .misconfigured(.topicDisallowed), .retry(.expiredProviderToken, notBefore: nil, scope: .route),
        .retry(.tooManyRequests, notBefore: nil, scope: .token),
        .retry(.internalServerError, notBefore: nil, scope: .provider),
        .retry(.serviceUnavailable, notBefore: nil, scope: .provider),
      ]
    case .fcm:
      [
        .dead(.fcmUnregistered, since: nil), .suspect(.fcmSenderIDMismatch),
        .suspect(.invalidRegistrationToken), .rejected(.fcmInvalidArgument),
        .misconfigured(.fcmPermissionDenied), .misconfigured(.fcmUnauthenticated),
        .misconfigured(.invalidGrant),
        .retry(.fcmThirdPartyAuthError, notBefore: nil, scope: .token),
        .retry(.tokenUnavailable, notBefore: nil, scope: .route),
        .retry(.fcmQuotaExceeded, notBefore: nil, scope: .token),
        .retry(.fcmInternal, notBefore: nil, scope: .provider),
        .retry(.fcmUnavailable, notBefore: nil, scope: .provider),
      ]
    case .webPush:
      [
        .dead(.subscriptionGone, since: nil), .dead(.subscriptionUnknown, since: nil),
        .rejected(.payloadTooLarge), .rejected(.requestRefused),
        .retry(.vapidRefused, notBefore: nil, scope: .token), .suspect(.vapidRefused),
        .retry(.tooManyRequests, notBefore: nil, scope: .token),
        .retry(.serverError, notBefore: nil, scope: .provider),
        .retry(.unreadableAnswer, notBefore: nil, scope: .route),
        .retry(.forbiddenAddress, notBefore: nil, scope: .route),
        .retry(.overloaded, notBefore: nil, scope: .caller),
      ]
    }
  }
}
