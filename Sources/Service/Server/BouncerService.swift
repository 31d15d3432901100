import Delivery
import Foundation
package import HTTP
import Hummingbird
package import Logging
import Migrations
import NIOCore
import NextcloudProxy
package import Operator
package import Platform
package import Providers
import Registrations
package import SQL
import Sealing
package import ServiceLifecycle
import UnixSignals
import WebPushGateway
package import ZulipBouncer
package import ZulipServer

/// The whole service. It creates every part once and connects them.
package struct BouncerService {
  /// The services in starting order; they stop in reverse order.
  package let services: [any ServiceLifecycle.Service]
  /// The operator's listener's port, known once it listens.
  package let adminPort: Port
  /// The handlers and routes of the public listener.
  package let endpoints: Endpoints
  let operatorEndpoints: Endpoints
  /// The bouncer that other programs call.
  package let bouncer: Bouncer
  let builtIn: BuiltInServer
  let nextcloudServer: NextcloudServerPart?
  private let core: Core

  /// The public listener's port, known once it listens.
  package var publicPort: Port { core.publicPort }
  package var store: Store { core.store }
  package var providers: PushProviders { core.providers }
  var logger: Logger { core.logger }

  /// Creates and connects all parts, without listening yet.
  ///
  /// - Parameters:
  ///   - sockets: listening sockets passed by systemd; without them the service opens its own.
  ///   - manager: systemd, if it wants to be notified of the service's state.
  ///   - descriptors: the process's limit on open files.
  ///   - bodies: a limit on the bytes of request bodies in memory, for tests; nil: the configured limit.
  ///   - migrations: this program's, or a newer one's, for tests.
  ///   - remoteBouncer: replaces the bouncer of another program that would be reached over the network, for
  ///     tests.
  ///   - adjust: changes values of the bouncer that have no setting, for tests.
  package static func build(
    _ configuration: Configuration, time: ServiceTime = ServiceTime(),
    metrics: PrometheusRegistry = .shared, sockets: PassedSockets = PassedSockets(),
    manager: ServiceManager? = nil, descriptors: DescriptorLimit = .raised(),
    bodies: BodyBudget? = nil, migrations: (DatabaseEngine) -> [Migration] = Schema.migrations,
    remoteBouncer: (any BouncerCalls)? = nil,
    adjust: (inout Bouncer) -> Void = { _ in }, logger: Logger
  ) async throws -> BouncerService {
    let core = try await Core.open(
      configuration, time: time, descriptors: descriptors, migrations: migrations, logger: logger)
    var bouncer = Bouncer(core)
    adjust(&bouncer)
    let builtIn = try await BuiltInServer.build(
      core, ownBouncer: bouncer, remoteBouncer: remoteBouncer)
    let nextcloudProxy = configuration.nextcloudProxy.isEnabled ? try NextcloudProxyPart(core) : nil
    let nextcloudServer = try nextcloudProxy.map { try NextcloudServerPart(core, own: $0) }
    let gateway = WebPushGateway(core)
    let features: [Feature] =
      [
        .database(core), .delivery(core), .keys(core, bouncer.bouncerKeys), core.room.feature,
        bouncer.feature(logger: logger),
        builtIn.feature(logger: logger), .backend(builtIn, nextcloudServer, core),
        NextcloudProxyPart.cleanup(core), NextcloudServerPart.cleanup(core),
        configuration.gateway.cleanup(gateway),
        core.store.upstreamLinks.feature(at: configuration.upstream.authority),
      ]
      + [
        core.upstream?.feature, nextcloudProxy?.feature, nextcloudServer?.feature,
        configuration.gateway.isEnabled ? gateway.feature : nil,
      ].compactMap(\.self)
    let http = configuration.http
    let bodies = bodies ?? BodyBudget(limit: http.maxBytesInFlight, largest: http.largestBodyBytes)
    metrics.watchProcess()
    metrics.add(.single("push_bouncer_clock_trusted") { core.isClockTrusted() ? 1 : 0 })
    metrics.add(.single("push_bouncer_log_lines_dropped_total") { Double(LogWriter.standardError.dropped) })
    metrics.add(.single("push_bouncer_http_body_bytes") { Double(bodies.bytes) })
    for gauge in features.flatMap(\.gauges) { metrics.add(gauge) }
    let forwarding = ForwardingFaults()
    let readiness = core.readiness(forwarding)
    metrics.gauges("push_bouncer_readiness", readiness.samples)
    let endpoints = Endpoints.forPublic(
      trustedProxies: http.trustedProxies, forwarding: forwarding, bodies: bodies
    ) { router in
      for feature in features { feature.routes(router) }
    }
    let operatorEndpoints = Endpoints.forOperator(
      OperatorRoutes(
        readiness: readiness, metrics: metrics, token: configuration.admin.token,
        heldAddress: sockets.public.map(PassedSockets.address),
        dashboard: Dashboard(core, features, readiness),
        deliveries: DeliveryReport(
          search: DeviceSearch(database: core.store.database, storageKey: core.store.storageKey),
          recent: core.deliverer.recent), storageKey: core.store.storageKey,
        settings: configuration.effective))
    let adminPort = Port()
    let listeners: [any ServiceLifecycle.Service] = [
      adminListener(
        operatorEndpoints, at: configuration.adminAddress(sockets), port: adminPort, logger: logger),
      publicListener(core, endpoints, at: configuration.publicAddress(sockets), descriptors),
    ]
    return BouncerService(
      services: [ShutdownHook { await core.store.database.close() }, Presence(store: core.store)]
        + features.services
        + maintenanceServices(core, features, readiness) + listeners
        + notifiers(manager, core, adminPort, readiness, features),
      adminPort: adminPort, endpoints: endpoints, operatorEndpoints: operatorEndpoints, bouncer: bouncer,
      builtIn: builtIn, nextcloudServer: nextcloudServer, core: core)
  }

  /// The services that all features share: clock, health and cleanup.
  private static func maintenanceServices(
    _ core: Core, _ features: [Feature], _ readiness: Readiness
  ) -> [any ServiceLifecycle.Service] {
    let logger = core.logger
    let clock = ClockWatch(
      core.time, record: core.clockRecord, queues: features.flatMap(\.queues), logger: logger)
    let housekeeping = Housekeeping(
      core.configuration, registrations: core.store.registrations, removals: features.flatMap(\.removals),
      logger: logger)
    return [
      BackgroundWork { [providers = core.providers] in
        await readiness.logProblems(of: providers, to: logger)
      },
      BackgroundWork { await clock.run() }, BackgroundWork { await housekeeping.run() },
    ]
  }

  /// Notify systemd and callers of the service's state. They start last, and therefore stop first in a
  /// shutdown.
  private static func notifiers(
    _ manager: ServiceManager?, _ core: Core, _ adminPort: Port, _ readiness: Readiness,
    _ features: [Feature]
  ) -> [any ServiceLifecycle.Service] {
    let drains = features.map(\.drain)
    return [
      BackgroundWork { [database = core.store.database, publicPort = core.publicPort, logger = core.logger] in
        await manager?.follow(database, logger: logger) {
          publicPort.number != nil && adminPort.number != nil
        }
      },
      ShutdownHook {
        manager?.notify(.stopping)
        readiness.drain()
        for drain in drains { drain() }
      },
    ]
  }

  /// Long enough for a running request to wait for the database and the providers and still be answered.
  private static let drainLimit = Duration.seconds(15)

  /// Only the operator's own programs call this listener.
  private static let adminConnections = 32

  private static func publicListener(
    _ core: Core, _ endpoints: Endpoints, at address: ListenerAddress, _ descriptors: DescriptorLimit
  ) -> some ServiceLifecycle.Service {
    let http = core.configuration.http
    let port = core.publicPort
    let logger = core.logger
    let listener = Listener(
      name: "public", responder: endpoints.responder, socket: address.socket,
      tls: core.certificate?.forNewConnections,
      connections: descriptors.connections(http.maxConnections), perSource: http.maxConnectionsPerAddress,
      proxies: http.trustedProxies, receiveMemory: http.maxBytesInFlight, logger: logger
    ) { channel in
      port.announce("public", scheme: http.tls == nil ? "http" : "https", channel, logger: logger)
    }
    return DeadlineService(
      listener: listener, limit: max(drainLimit, core.configuration.delivery.deadline + .seconds(3)))
  }

  private static func adminListener(
    _ endpoints: Endpoints, at address: ListenerAddress, port: Port, logger: Logger
  ) -> some ServiceLifecycle.Service {
    let listener = Listener(
      name: "admin", responder: endpoints.responder, socket: address.socket,
      connections: adminConnections, perSource: adminConnections, logger: logger
    ) { channel in port.announce("admin", scheme: "http", channel, logger: logger) }
    return DeadlineService(listener: listener, limit: .seconds(1))
  }
}

extension Dashboard {
  fileprivate init(_ core: Core, _ features: [Feature], _ readiness: Readiness) {
    self.init(
      database: core.store.database, storageKey: core.store.storageKey, keyFolder: core.keyFolder,
      registrations: core.store.registrations, outbox: core.outbox, features: features,
      configuration: core.configuration, readiness: readiness, now: core.now)
  }
}

extension BouncerService {
  /// Runs until SIGTERM or SIGINT, and then shuts down gracefully.
  package func run() async throws {
    let group = ServiceGroup(
      configuration: .init(services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { await obeySignals() }
      try await group.run()
      tasks.cancelAll()
    }
  }

  /// Closes everything that ``build`` has opened, if the service is not run.
  package func close() async {
    for case let resource as ShutdownHook in services.reversed() { await resource.close() }
  }

  /// Reloads keys and certificate on SIGHUP, and ends the process on the second SIGTERM or SIGINT. This is
  /// not part of the service group, which would stop it at the first of these signals.
  private func obeySignals() async {
    var isStopping = false
    for await signal in await UnixSignalsSequence(trapping: .sighup, .sigterm, .sigint) {
      if signal == .sighup {
        core.keyFolder.reload()
        core.certificate?.reload()
      } else if isStopping {
        _exit(1)
      } else {
        isStopping = true
      }
    }
  }
}
