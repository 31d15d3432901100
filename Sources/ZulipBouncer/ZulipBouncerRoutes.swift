package import Delivery
package import Foundation
package import HTTP
internal import HTTPTypes
package import Hummingbird
package import Logging
package import Registrations
package import Sealing

/// The push notification service as Zulip's servers know it: `/api/v1/remotes/...`
/// (`Documentation/Protocols/Zulip.md` 2 to 7), and the key that apps without Google need.
package struct ZulipBouncerRoutes: Sendable {
  /// What it works with.
  package struct Dependencies: Sendable {
    /// The chat servers.
    package var servers: RemoteServers
    /// Their realms.
    package var realms: RemoteRealms
    /// What they report.
    package var analytics: Analytics
    package var registrations: RegistrationStore
    /// Which bouncer keys other nodes have.
    package var bouncerKeys: BouncerKeys
    /// When servers and realms last called.
    package var requestTimes: RequestTimes
    /// Sends notifications.
    package var deliverer: Deliverer
    /// The key pairs that open registrations, as they are at the moment of the call.
    package var keyring: @Sendable () -> BouncerKeyring
    /// Signs what only this service must be able to have said.
    package var storageKey: StorageKey
    /// The service's clock.
    package var now: @Sendable () -> Date
    /// Whether anything may be taken as expired now: not while the clock is doubted.
    package var mayExpire: @Sendable () -> Bool
    /// For what concerns no single request.
    package var logger: Logger

    /// What it works with.
    package init(
      servers: RemoteServers, realms: RemoteRealms, analytics: Analytics, registrations: RegistrationStore,
      bouncerKeys: BouncerKeys, requestTimes: RequestTimes, deliverer: Deliverer,
      keyring: @escaping @Sendable () -> BouncerKeyring,
      storageKey: StorageKey, now: @escaping @Sendable () -> Date,
      mayExpire: @escaping @Sendable () -> Bool = { true }, logger: Logger
    ) {
      self.servers = servers
      self.realms = realms
      self.analytics = analytics
      self.registrations = registrations
      self.bouncerKeys = bouncerKeys
      self.requestTimes = requestTimes
      self.deliverer = deliverer
      self.keyring = keyring
      self.storageKey = storageKey
      self.now = now
      self.mayExpire = mayExpire
      self.logger = logger
    }
  }

  let configuration: Configuration
  let dependencies: Dependencies
  let secrets: VerificationSecrets
  let hosts: HostVerifier
  let perServer: RateLimiter<Int64>
  let registrations: RateLimiter<Int64>
  let pace: NotificationPace
  let perAddress: RateLimiter<ClientAddress>
  let signIns: SignInGuard
  /// Calls to the hosts of servers that have lost their key: of each, and of all that are known or are not.
  let challenges: RateLimiter<String>
  let allChallenges: RateLimiter<Bool>

  /// A bouncer by its parts.
  package init(configuration: Configuration, dependencies: Dependencies) {
    self.configuration = configuration
    self.dependencies = dependencies
    ItemFaults.prepare()
    secrets = VerificationSecrets(storageKey: dependencies.storageKey, now: dependencies.now)
    hosts = HostVerifier(
      caFile: configuration.verifyCAFile, allowPrivateAddresses: configuration.verifyAllowPrivateAddresses)
    perServer = RateLimiter(configuration.rateLimitPerServer, now: dependencies.now)
    registrations = RateLimiter(configuration.rateLimitOfRegistrations, now: dependencies.now)
    pace = NotificationPace(configuration.notificationsPerServer, now: dependencies.now)
    perAddress = RateLimiter(configuration.rateLimitPerAddress, now: dependencies.now)
    signIns = SignInGuard(now: dependencies.now)
    challenges = RateLimiter(RateLimit(calls: 30, seconds: 3600), now: dependencies.now)
    allChallenges = RateLimiter(RateLimit(calls: 120, seconds: 60), now: dependencies.now)
  }

  /// Adds the routes.
  package func addRoutes(to router: Router<WireContext>) {
    func path(_ endpoint: String) -> RouterPath { RouterPath("/api/v1/remotes/\(endpoint)") }

    router.endpoint(path("server/register"), .post, use: unauthenticated(register))
    router.endpoint(path("server/register/transfer"), .post, use: unauthenticated(transfer))
    // Upstream does not restrict the method of this one.
    router.endpoint(
      path("server/register/verify_challenge"),
      [.post: unauthenticated(verifyChallenge), .get: unauthenticated(verifyChallenge)])

    router.endpoint(path("server/deactivate"), .post, use: authenticated(deactivate))
    router.endpoint(path("server/analytics/status"), .get, use: authenticated(analyticsStatus))
    router.endpoint(path("server/analytics"), .post, use: authenticated(uploadAnalytics))
    router.endpoint(path("server/billing"), .post, use: authenticated(billing))

    router.endpoint(
      path("push/e2ee/register"), .post,
      use: neverServerError(patient(authenticated(limit: registrations, registerE2EE))))
    router.endpoint(
      path("push/e2ee/notify"), .post, use: patient(authenticated(limit: nil, notifyE2EE)))

    router.endpoint(path("push/register"), .post, use: patient(authenticated(registerLegacy)))
    router.endpoint(path("push/unregister"), .post, use: patient(authenticated(unregisterLegacy)))
    router.endpoint(path("push/unregister/all"), .post, use: patient(authenticated(unregisterAllLegacy)))
    router.endpoint(path("push/notify"), .post, use: patient(authenticated(limit: nil, notifyLegacy)))
    router.endpoint(path("push/test_notification"), .post, use: patient(authenticated(testLegacy)))

    router.endpoint(RouterPath(Self.infoPath), .get, use: info)
    router.endpoint(RouterPath(Self.vapidPath), .get, use: unauthenticated(vapid))
  }
}

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
    package var databaseWait: Duration
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
      databaseWait = .seconds(12)
      rateLimitPerAddress = RateLimit(calls: 100, seconds: 60)
      maximumBodyBytes = 1 << 20
      maximumAnalyticsBytes = 16 << 20
      self.publicURL = publicURL
    }
  }
}
