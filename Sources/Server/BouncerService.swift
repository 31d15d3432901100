import Delivery
import Foundation
package import HTTP
import Hummingbird
package import Logging
import Migrations
import NIOCore
import NextcloudProxy
import NextcloudServer
package import Operations
package import Providers
import Registrations
import SQL
import Sealing
package import ServiceLifecycle
package import ZulipBouncer
package import ZulipServer

/// The whole service: every part is made here, once, and handed to the parts that use it.
package struct BouncerService {
  /// The services in the order in which they start; they stop in the reverse order.
  package let services: [any ServiceLifecycle.Service]
  /// The public listener's port, once it listens.
  package let publicPort: Port
  /// The operator's listener's port, once it listens.
  package let adminPort: Port
  /// What answers strangers, and on which paths.
  package let endpoints: Endpoints
  /// What answers the operator.
  let operatorEndpoints: Endpoints
  /// Its database.
  package let store: Store
  /// Apple and Google.
  package let providers: PushProviders
  /// The bouncer, as others call it.
  package let bouncer: ZulipBouncerRoutes
  let builtIn: BuiltInServer
  let nextcloud: NextcloudAdapter?
  let keyFolder: KeyFolder
  /// The public listener's, if it speaks TLS.
  let certificate: ServerCertificate?
  let logger: Logger

  /// Puts the parts together. Nothing listens yet.
  ///
  /// - Parameters:
  ///   - time: its clock.
  ///   - metrics: where its gauges are read.
  ///   - sockets: sockets that systemd has passed; without them it opens its own.
  ///   - manager: systemd, if it wants to hear of the service's state.
  ///   - descriptors: how many the process may have.
  ///   - bodies: how many bytes of bodies may be in memory, for tests; else the configuration says.
  ///   - remoteBouncer: another program's bouncer that is not reached through the network, for tests.
  ///   - adjust: changes what no setting of the bouncer can, for tests.
  package static func build(
    _ configuration: Configuration, time: ServiceTime = ServiceTime(),
    metrics: PrometheusRegistry = .shared, sockets: PassedSockets = PassedSockets(),
    manager: ServiceManager? = nil, descriptors: DescriptorLimit = .raised(),
    bodies: BodyBudget? = nil, remoteBouncer: (any Bouncer)? = nil,
    adjust: (inout ZulipBouncerRoutes.Configuration) -> Void = { _ in }, logger: Logger
  ) async throws -> BouncerService {
    let (now, mayExpire) = (time.now, time.mayExpire)

    let keyFolder = KeyFolder(
      directory: configuration.keys.directory, defaultProject: configuration.fcm.defaultProject,
      logger: logger)
    let keys = keyFolder.load()
    let isDelivering = if case .remote = configuration.server.bouncer { false } else { true }
    for shortage in keys.shortages(
      isDelivering: isDelivering || configuration.nextcloud.isEnabled,
      hasWebPush: configuration.webPush.isEnabled)
    {
      logger.log(
        level: shortage.isFault ? .warning : .notice, "\(shortage.problem)",
        metadata: ["advice": "\(shortage.advice)"])
    }
    let certificate = try configuration.http.tls.map { try ServerCertificate($0, logger: logger) }
    let store = try await Store.open(
      configuration, making: true, now: now, mayExpire: mayExpire, observer: DatabaseMetrics().observe,
      logger: logger)
    let storageKey = store.storageKey
    logger.notice(
      "database opened",
      metadata: [
        "url": "\(configuration.database.url)", "schema": .stringConvertible(Schema.version),
      ])

    let record = ClockRecord(database: store.database)
    // First, because everything else asks the clock whether something may expire.
    try await ClockWatch(time, record: record, queues: [], logger: logger).hear()

    let providers = try PushProviders(
      configuration: try await .init(configuration, store: store, descriptors: descriptors))
    providers.use(keys.credentials)
    let registrations = store.registrations
    let outbox = Outbox(
      database: store.database, storageKey: storageKey,
      maxAge: TimeInterval(configuration.delivery.maxAge.components.seconds),
      longestPause: configuration.longestPause, now: now, mayExpire: mayExpire)
    let history = History(database: store.database, now: now)
    let deliverer = Deliverer(
      providers: providers, registrations: store.recorder, outbox: outbox,
      deadline: configuration.delivery.deadline, history: history, now: now, logger: logger)
    let outboxSender = OutboxSender(outbox: outbox, deliverer: deliverer, now: now, logger: logger)
    let requestTimes = RequestTimes(database: store.database, now: now)
    let bouncerKeys = BouncerKeys(database: store.database, now: now)
    let publicPort = Port()
    let bouncerDependencies = ZulipBouncerRoutes.Dependencies(
      servers: store.servers, realms: store.realms,
      analytics: Analytics(database: store.database, storageKey: storageKey, now: now),
      registrations: registrations, legacy: store.legacy, bouncerKeys: bouncerKeys,
      requestTimes: requestTimes,
      deliverer: deliverer,
      keyring: { keyFolder.current.bouncer }, storageKey: storageKey, now: now, mayExpire: mayExpire,
      logger: logger)
    var bouncerConfiguration = ZulipBouncerRoutes.Configuration(configuration, port: publicPort)
    adjust(&bouncerConfiguration)
    let bouncer = ZulipBouncerRoutes(
      configuration: bouncerConfiguration, dependencies: bouncerDependencies)
    let builtIn = try await BuiltInServer.build(
      configuration, store: store,
      ownBouncer: ZulipBouncerRoutes(
        configuration: .unlimited(configuration, port: publicPort), dependencies: bouncerDependencies),
      remoteBouncer: remoteBouncer, logger: logger)
    let nextcloud =
      configuration.nextcloud.isEnabled
      ? try NextcloudAdapter.build(
        configuration, store: store, providers: providers, deliverer: deliverer,
        publicURL: configuration.http.publicAddress(listeningOn: publicPort), logger: logger) : nil
    let backend = BackendRoutes(
      accounts: builtIn.accounts, devices: builtIn.devices, loginFlows: store.nextcloudLoginFlows,
      token: configuration.backendToken,
      notify: BackendRoutes.ways(builtIn, nextcloud),
      realmsChanged: { builtIn.realms?.request() }, now: now)

    let pushServices: @Sendable () -> PushServices? = { [own = configuration.webPush.privateHosts] in
      guard providers.vapidPublicKey != nil else { return nil }
      return PushServices(providers, outbox, held: deliverer.held, own: own, now: now())
    }
    let readiness = Readiness(
      database: store.database, keyFolder: keyFolder, outbox: outbox, now: now,
      routeStates: { deliverer.routeStates() }, doubts: { deliverer.doubts() }, pushServices: pushServices,
      clockDoubt: { time.doubt }, certificate: certificate)
    metrics.watchProcess()
    metrics.gauges("push_bouncer_clock_trusted") { [.init(time.mayExpire() ? 1 : 0)] }
    metrics.watch(deliverer, outbox, pushServices, now: now)
    if let certificate {
      metrics.gauges("push_bouncer_certificate_expires_seconds") {
        [.init(certificate.end.timeIntervalSince1970)]
      }
    }
    metrics.gauges("push_bouncer_sealed_values_not_opened") {
      storageKey.failures.map { .init(Double($0.value), labels: [("column", $0.key)]) }
    }
    metrics.gauges("push_bouncer_event_waiters") { [.init(Double(builtIn.eventNotifier.waiters))] }
    metrics.gauges("push_bouncer_device_registrations_pending") {
      [.init(Double(try await builtIn.devices.jobCount()))]
    }
    if let nextcloud { metrics.watch(nextcloud) }
    metrics.gauges("push_bouncer_legacy_unregistrations_pending") {
      [.init(Double(try await builtIn.devices.legacyTokens.jobCount()))]
    }
    let adminPort = Port()
    let bodies =
      bodies
      ?? BodyBudget(
        limit: configuration.http.maxBytesInFlight, largest: configuration.http.largestBodyBytes)
    metrics.gauges("push_bouncer_http_body_bytes") { [.init(Double(bodies.bytes))] }
    let endpoints = Endpoints.forStrangers(
      trustedProxies: configuration.http.trustedProxies, bodies: bodies
    ) { router in
      bouncer.addRoutes(to: router)
      builtIn.server.addRoutes(to: router)
      backend.addRoutes(to: router)
      nextcloud?.addRoutes(to: router)
    }
    let operatorEndpoints = Endpoints.forOperator(
      OperatorRoutes(
        readiness: readiness, metrics: metrics, token: configuration.admin.token,
        heldAddress: sockets.public.map(PassedSockets.address),
        dashboard: Dashboard(
          .init(
            database: store.database, storageKey: storageKey, keyFolder: keyFolder,
            registrations: registrations,
            outbox: outbox, routeStates: { deliverer.routeStates() }, pushServices: pushServices,
            apps: nextcloud.map { $0.apps }, now: now),
          readiness: readiness)))
    return BouncerService(
      services: [
        Closing { await store.database.close() },
        Repeating { await store.follower.run() },
        Repeating { await readiness.watchDatabase(logger: logger) },
        Repeating { await Nodes(database: store.database, now: now).serve(logger: logger) },
        Repeating { await history.run { _ in logger.warning("the history could not be written") } },
        Closing {
          // What has no answer by then stays in the outbox, under a lease that outlives every answer.
          await providers.shutdown(within: .seconds(3))
          await deliverer.settled()
        },
        Closing { await builtIn.close() },
        Closing { await nextcloud?.close() },
        Repeating {
          await requestTimes.run { _ in logger.warning("times of requests could not be written") }
        },
        Repeating {
          await ClockWatch(
            time, record: record,
            queues: [
              outbox.bringForward, builtIn.devices.bringForward, builtIn.devices.legacyTokens.bringForward,
            ] + (nextcloud.map { [$0.pushes.bringForward] } ?? []), logger: logger
          ).run()
        },
        Repeating { await KeyAnnouncer(keyFolder, keys: bouncerKeys, logger: logger).run() },
        Repeating { await outboxSender.run() },
        Repeating { await deliverer.followHeldDeaths() },
        Repeating {
          await RouteWatch(
            providers: providers, outbox: outbox, pushServices: pushServices, now: now, logger: logger
          ).run()
        },
        Repeating { await builtIn.run(logger: logger) },
        Repeating { await nextcloud?.run() },
        keyFolder.watcher { snapshot in providers.use(snapshot.credentials) },
        Repeating { await certificate?.run() },
        Repeating {
          await Housekeeping(
            legacy: store.legacy, recorder: store.recorder,
            removals: [
              .init("unused Nextcloud devices removed") {
                try await store.nextcloudDevices.removeUnused(
                  since: now() - configuration.retention.nextcloud, limit: $0)
              },
              .init { try await builtIn.devices.removeOldEvents(limit: $0) },
              .init {
                try await store.nextcloudNotifications.removeOld(
                  before: now() - configuration.retention.notifications, limit: $0)
              },
              .init { try await store.nextcloudLoginFlows.removeOld(limit: $0) },
              .init { try await store.hourlyCounts.removeOld(limit: $0) },
              .init { try await outbox.removeUnusedRoutes(limit: $0) },
            ],
            status: MigrationStatus(database: store.database, now: now),
            resealing: Resealing(database: store.database, storageKey: storageKey),
            holders: StorageKeyHolders(store.database),
            lease: MaintenanceLease("housekeeping", database: store.database, now: now), configuration,
            now: now, mayExpire: mayExpire,
            logger: logger
          ).run()
        },
        Bounded(
          listener: adminListener(
            operatorEndpoints, at: configuration.adminAddress(sockets), port: adminPort, logger: logger),
          limit: .seconds(1)),
        Bounded(
          listener: publicListener(
            configuration, endpoints, certificate, at: configuration.publicAddress(sockets), port: publicPort,
            descriptors: descriptors,
            logger: logger),
          limit: max(drainLimit, configuration.delivery.deadline + .seconds(3))),
        Repeating {
          await manager?.follow(store.database, logger: logger) {
            publicPort.number != nil && adminPort.number != nil
          }
        },
        Draining {
          manager?.tell(.stopping)
          readiness.drain()
          builtIn.eventNotifier.close()
        },
      ],
      publicPort: publicPort, adminPort: adminPort, endpoints: endpoints,
      operatorEndpoints: operatorEndpoints, store: store, providers: providers, bouncer: bouncer,
      builtIn: builtIn, nextcloud: nextcloud, keyFolder: keyFolder, certificate: certificate, logger: logger)
  }

  /// Long enough for a request to wait for the database and the providers, and to be answered then.
  private static let drainLimit = Duration.seconds(15)

  /// Only the operator's programs call there.
  private static let adminConnections = 32

  private static func publicListener(
    _ configuration: Configuration, _ endpoints: Endpoints, _ certificate: ServerCertificate?,
    at address: ListenerAddress,
    port: Port, descriptors: DescriptorLimit, logger: Logger
  ) -> some ServiceLifecycle.Service {
    let http = configuration.http
    return Listener(
      name: "public", responder: endpoints.responder,
      socket: address.socket, tls: certificate?.forNewConnections,
      connections: descriptors.connections(http.maxConnections), perSource: http.maxConnectionsPerAddress,
      proxies: http.trustedProxies, logger: logger
    ) { channel in
      port.announce("public", scheme: http.tls == nil ? "http" : "https", channel, logger: logger)
    }
  }

  private static func adminListener(
    _ endpoints: Endpoints, at address: ListenerAddress, port: Port, logger: Logger
  ) -> some ServiceLifecycle.Service {
    Listener(
      name: "admin", responder: endpoints.responder,
      socket: address.socket,
      connections: adminConnections, perSource: adminConnections, logger: logger
    ) { channel in port.announce("admin", scheme: "http", channel, logger: logger) }
  }
}
