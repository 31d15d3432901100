extension Outcome {
  /// Those that a provider's route meets in the course of time, besides ``delivered``.
  static func usual(_ provider: Route.Provider) -> [Outcome] {
    let missing = [
      TransportFailure.timeout, .connectFailed, .tlsFailed, .connectionLost, .streamReset, .refused,
    ].map(Outcome.init)
    let own: [Outcome] = [.retry(.breakerOpen, notBefore: nil, scope: .route)]
    return missing + own
      + (provider == .apns
        ? [
          .dead(.unregistered, since: nil), .dead(.expiredToken, since: nil), .suspect(.badDeviceToken),
          .suspect(.deviceTokenNotForTopic), .rejected(.payloadTooLarge),
          .misconfigured(.invalidProviderToken),
          .misconfigured(.topicDisallowed), .retry(.expiredProviderToken, notBefore: nil, scope: .route),
          .retry(.tooManyRequests, notBefore: nil, scope: .token),
          .retry(.internalServerError, notBefore: nil, scope: .provider),
          .retry(.serviceUnavailable, notBefore: nil, scope: .provider),
        ]
        : [
          .dead(.fcmUnregistered, since: nil), .suspect(.fcmSenderIDMismatch),
          .suspect(.invalidRegistrationToken), .rejected(.fcmInvalidArgument),
          .misconfigured(.fcmPermissionDenied), .misconfigured(.fcmUnauthenticated),
          .misconfigured(.invalidGrant), .misconfigured(.fcmThirdPartyAuthError),
          .retry(.tokenUnavailable, notBefore: nil, scope: .route),
          .retry(.fcmQuotaExceeded, notBefore: nil, scope: .tokenOrRoute),
          .retry(.fcmInternal, notBefore: nil, scope: .provider),
          .retry(.fcmUnavailable, notBefore: nil, scope: .provider),
        ])
  }
}
