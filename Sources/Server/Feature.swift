import Delivery
import Foundation
import HTTP
import Hummingbird
import Logging
import NextcloudProxy
import NextcloudServer
import Operations
import Providers
import Registrations
import SQL
import Sealing
import ServiceLifecycle
import ZulipBouncer
import ZulipServer

/// A part of the service: what it hands over to be joined with the others.
struct Feature {
  /// Adds what strangers may call.
  var routes: (Router<WireContext>) -> Void = { _ in }
  /// Adds what is read when somebody looks at the metrics.
  var gauges: (PrometheusRegistry) -> Void = { _ in }
  /// Work on which other features depend: it ends after they have closed.
  var foundation: [@Sendable () async -> Void] = []
  /// Closes what it holds, when all background work has ended.
  var close: (@Sendable () async -> Void)?
  /// Work in the background, until the shutdown.
  var work: [@Sendable () async -> Void] = []
  /// Told when the shutdown begins.
  var drain: @Sendable () -> Void = {}
  var removals: [Housekeeping.Removal] = []
  /// Queues in which a wrong clock may have put work off.
  var queues: [@Sendable (_ isTimeSetBack: Bool) async throws -> Void] = []
}

extension [Feature] {
  /// The services of all of them in the order in which they start; they stop in the reverse order.
  var services: [any ServiceLifecycle.Service] {
    flatMap(\.foundation).map(Repeating.init) + compactMap(\.close).map(Closing.init)
      + flatMap(\.work).map(Repeating.init)
  }
}

extension Feature {
  /// The database, which nodes serve on it, and under which key its secrets are.
  static func database(_ core: Core) -> Feature {
    let store = core.store
    return Feature(
      gauges: { metrics in
        metrics.gauges("push_bouncer_sealed_values_not_opened") {
          store.storageKey.failures.map { .init(Double($0.value), labels: [("column", $0.key)]) }
        }
      },
      foundation: [
        { await store.follower.run() },
        { [core] in await Nodes(database: store.database, now: core.now).serve(logger: core.logger) },
      ])
  }

  /// Sending, the outbox, and what is counted of both.
  static func delivery(_ core: Core) -> Feature {
    let (deliverer, outbox, logger) = (core.deliverer, core.outbox, core.logger)
    let sender = OutboxSender(outbox: outbox, deliverer: deliverer, now: core.now, logger: logger)
    let watch = RouteWatch(
      providers: core.providers, outbox: outbox, pushServices: core.pushServices, now: core.now,
      logger: logger)
    return Feature(
      gauges: { $0.watch(deliverer, outbox, core.pushServices, now: core.now) },
      foundation: [
        { [history = core.history] in
          await history.run { _ in logger.warning("the history could not be written") }
        }
      ],
      close: { [providers = core.providers] in
        // What has no answer by then stays in the outbox, under a lease that outlives every answer.
        await providers.shutdown(within: .seconds(3))
        await deliverer.settled()
      },
      work: [
        { await sender.run() }, { await deliverer.followHeldDeletions() }, { await watch.run() },
      ],
      removals: [
        .init { [counts = core.store.hourlyCounts] in try await counts.removeOld(limit: $0) },
        .init { try await outbox.removeUnusedRoutes(limit: $0) },
      ],
      queues: [outbox.bringForward])
  }

  static func keys(_ core: Core) -> Feature {
    let (folder, certificate) = (core.keyFolder, core.certificate)
    folder.tellChanges { [providers = core.providers] in providers.use($0.credentials) }
    return Feature(
      gauges: { metrics in
        guard let certificate else { return }
        metrics.gauge("push_bouncer_certificate_expires_seconds") { certificate.end.timeIntervalSince1970 }
      },
      work: [
        { await KeyAnnouncer(folder, keys: core.bouncerKeys, logger: core.logger).run() },
        { await folder.watch() },
        { await certificate?.run() },
      ])
  }

  /// The bouncer that other chat servers call.
  static func bouncer(_ bouncer: ZulipBouncerRoutes, _ core: Core) -> Feature {
    Feature(
      routes: { bouncer.addRoutes(to: $0) },
      work: [
        {
          await core.requestTimes.run { _ in core.logger.warning("times of requests could not be written") }
        }
      ])
  }

  /// What Nextcloud's apps and users leave behind, also where the adapter has been switched off since.
  static func nextcloudLeftovers(_ core: Core) -> Feature {
    let (devices, notifications) = (core.store.nextcloudDevices, core.store.nextcloudNotifications)
    let (retention, now) = (core.configuration.retention, core.now)
    return Feature(removals: [
      .init("unused Nextcloud devices removed") {
        try await devices.removeUnused(since: now() - retention.nextcloud, limit: $0)
      },
      .init {
        try await notifications.removeOld(before: now() - retention.notifications, limit: $0)
      },
    ])
  }
}
