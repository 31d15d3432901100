package import HTTP
package import Registrations

extension ZulipBouncerRoutes {
  /// What the operator decides.
  package struct Configuration: Sendable {
    /// Which strangers may register.
    package enum Registration: Sendable, Hashable {
      /// Those whose hostname the operator allows.
      case closed
      /// All.
      case open
    }

    /// `bouncer.registration`
    package var registration: Registration
    /// `bouncer.allowed_hostnames`
    package var allowedHostnames: [HostnamePattern]
    /// `bouncer.verify_hostnames`
    package var verifyHostnames: Bool
    /// `bouncer.verify_ca_file`
    package var verifyCAFile: String?
    /// `bouncer.verify_allow_private_addresses`
    package var verifyAllowPrivateAddresses: Bool
    /// `bouncer.rate_limit.per_server`
    package var rateLimitPerServer: RateLimit?
    /// Registrations of devices per server, which it does not count: far away, for a refused one waits for
    /// its phone's next attempt.
    package var rateLimitOfRegistrations: RateLimit?
    /// `bouncer.notifications_per_server`
    package var notificationsPerServer: RateLimit?
    /// How long a call that must not be lost waits for the database. Stock servers wait 15 s for an answer.
    package var patience: Duration
    /// `http.rate_limit.per_address`
    package var rateLimitPerAddress: RateLimit?
    /// `http.max_body_bytes`
    package var maximumBodyBytes: Int
    /// The same for `server/analytics`.
    package var maximumAnalyticsBytes: Int
    /// `operator.email`
    package var operatorEmail: String?
    /// `http.public_url`, without a slash at its end; asked for at each call, as the port may be
    /// known only when the service listens.
    package var publicURL: @Sendable () -> String

    /// The defaults, with this service's own address.
    package init(publicURL: @escaping @Sendable () -> String) {
      registration = .closed
      allowedHostnames = []
      verifyHostnames = false
      verifyAllowPrivateAddresses = false
      rateLimitPerServer = RateLimit(calls: 1000, seconds: 60)
      rateLimitOfRegistrations = RateLimit(calls: 60_000, seconds: 60)
      notificationsPerServer = RateLimit(calls: 60_000, seconds: 60)
      patience = .seconds(12)
      rateLimitPerAddress = RateLimit(calls: 100, seconds: 60)
      maximumBodyBytes = 1 << 20
      maximumAnalyticsBytes = 16 << 20
      self.publicURL = publicURL
    }
  }
}
