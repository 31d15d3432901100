import Delivery
import Foundation
import HTTP
import Hummingbird
import Logging
import NextcloudProxy
import NextcloudServer
import Operator
import Platform
import Providers
import Registrations
import SQL
import Sealing
import ServiceLifecycle
import Timing
import Upstream
import ZulipBouncer
import ZulipServer

/// A part of the service, described by what it contributes.
struct Feature {
  /// Adds its routes to the public listener.
  var routes: (Router<WireContext>) -> Void = { _ in }
  /// Adds metrics that are read at each scrape.
  var gauges: (PrometheusRegistry) -> Void = { _ in }
  /// Background work that other features depend on. It ends after the features have closed.
  var foundation: [@Sendable () async -> Void] = []
  /// Releases its resources when all background work has ended.
  var close: (@Sendable () async -> Void)?
  /// Background work that runs until the shutdown.
  var work: [@Sendable () async -> Void] = []
  /// Called when the shutdown begins.
  var drain: @Sendable () -> Void = {}
  var removals: [Housekeeping.Removal] = []
  /// Queues in which a wrong clock may have postponed work too far.
  var queues: [@Sendable (_ isTimeSetBack: Bool) async throws -> Void] = []
}

extension [Feature] {
  /// The services of all features in starting order; they stop in reverse order.
  var services: [any ServiceLifecycle.Service] {
    flatMap(\.foundation).map(Repeating.init) + compactMap(\.close).map(Closing.init)
      + flatMap(\.work).map(Repeating.init)
  }
}

extension Feature {
  /// The database and the storage key.
  static func database(_ core: Core) -> Feature {
    let store = core.store
    return Feature(
      gauges: { metrics in
        metrics.gauges("push_bouncer_sealed_values_not_opened") {
          store.storageKey.failures.map { .init(Double($0.value), labels: [("column", $0.key)]) }
        }
      },
      work: [{ [lossDetector = core.lossDetector] in await lossDetector.run() }])
  }

  /// Delivery, the outbox, and their metrics and history.
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
        // An unanswered push stays in the outbox. Its lease is longer than any answer can take.
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
      queues: [outbox.queue.bringForward])
  }

  static func keys(_ core: Core, _ bouncerKeys: BouncerKeys) -> Feature {
    let (folder, certificate) = (core.keyFolder, core.certificate)
    let announcer = Worker(every: BouncerKeys.interval)
    folder.tellChanges { [providers = core.providers] in
      providers.use($0.credentials)
      announcer.wake()
    }
    return Feature(
      gauges: { metrics in
        guard let certificate else { return }
        metrics.gauge("push_bouncer_certificate_expires_seconds") { certificate.end.timeIntervalSince1970 }
      },
      work: [
        { [core] in
          await announcer.run {
            try await bouncerKeys.announce(folder.current.bouncer.all.map(\.pair.publicKeyBase64))
            return false
          } onError: { error in
            core.logger.warning(
              "the bouncer keys could not be announced to other nodes",
              metadata: ["error": "\(DatabaseError.name(of: error))"])
          }
        },
        { await folder.watch() },
        { await certificate?.run() },
      ])
  }

  /// The bouncer that other chat servers call.
  static func bouncer(_ bouncer: Bouncer, _ core: Core) -> Feature {
    var feature = Feature(
      routes: { ZulipBouncerRoutes(bouncer).addRoutes(to: $0) },
      work: [
        {
          await core.requestTimes.run { _ in core.logger.warning("times of requests could not be written") }
        }
      ],
      removals: [
        .init { [reports = Reports(database: core.store.database, mayGo: UpstreamLinks.hasTaken), core] in
          try await reports.remove(before: core.now() - core.configuration.bouncer.reportRetention, limit: $0)
        }
      ])
    if let upstream = core.upstream {
      let links = upstream.links
      feature.gauges = { metrics in
        metrics.gauge("push_bouncer_upstream_unregistrations_pending") {
          Double(try await links.unregistrations.count())
        }
      }
      feature.work.append { await upstream.run() }
      feature.queues = [links.reports.bringForward, links.unregistrations.bringForward]
    }
    return feature
  }

  /// Cleans up after Nextcloud's apps and users, even if the adapter has been switched off since.
  static func nextcloudLeftovers(_ core: Core) -> Feature {
    let (devices, notifications) = (core.store.nextcloudDevices, core.store.nextcloudNotifications)
    let configuration = core.configuration
    let now = core.now
    return Feature(removals: [
      .init("unused Nextcloud devices removed") {
        try await devices.removeUnused(since: now() - configuration.nextcloudProxy.deviceRetention, limit: $0)
      },
      .init {
        try await notifications.removeOld(
          before: now() - configuration.nextcloudServer.notificationRetention, limit: $0)
      },
    ])
  }
}
