import Basics
import Delivery
import Foundation
import HTTP
import Hummingbird
import Logging
import Operator
import Platform
import Providers
import Registrations
import SQL
import Sealing
import ServiceLifecycle
import ZulipBouncer

extension [Feature] {
  /// The services of all features in starting order; they stop in reverse order.
  var services: [any ServiceLifecycle.Service] {
    flatMap(\.sharedBackgroundWork).map(BackgroundWork.init) + compactMap(\.close).map(ShutdownHook.init)
      + flatMap(\.work).map(BackgroundWork.init)
  }
}

extension Feature {
  /// The database and the storage key.
  static func database(_ core: Core) -> Feature {
    let key = core.store.storageKey
    var feature = Feature()
    feature.gauges = [
      PolledGauge("push_bouncer_sealed_values_not_opened") {
        key.failures.map { .init(Double($0.value), labels: [("column", $0.key)]) }
      }
    ]
    feature.work = [{ [lossDetector = core.lossDetector] in await lossDetector.run() }]
    return feature
  }

  /// Delivery, the outbox, and their metrics and history.
  static func delivery(_ core: Core) -> Feature {
    let deliverer = core.deliverer
    let outbox = core.outbox
    let logger = core.logger
    let sender = OutboxSender(outbox: outbox, deliverer: deliverer, now: core.now, logger: logger)
    var feature = Feature()
    feature.gauges = .delivery(deliverer, outbox, core.pushServices, now: core.now)
    feature.sharedBackgroundWork = [
      { [history = core.history] in
        await history.run { error in
          logger.warning(
            "the history could not be written", metadata: ["error": "\(DatabaseError.name(of: error))"])
        }
      }
    ]
    feature.close = { [providers = core.providers] in
      // An unanswered push stays in the outbox. Its lease is longer than any answer can take.
      await providers.shutdown(within: .seconds(3))
      await deliverer.settled()
    }
    feature.work = [{ await sender.run() }, { await deliverer.followHeldDeletions() }]
    feature.removals = [
      Removal { [counts = core.store.hourlyCounts] in try await counts.removeOld(limit: $0) },
      Removal { try await outbox.removeUnusedRoutes(limit: $0) },
    ]
    feature.queues = [outbox.queue.bringForward]
    return feature
  }

  /// The key folder, the bouncer keys in it, and the certificate.
  static func keys(_ core: Core, _ bouncerKeys: BouncerKeys) -> Feature {
    let folder = core.keyFolder
    let certificate = core.certificate
    let announcer = Worker(every: BouncerKeys.interval)
    folder.tellChanges { [providers = core.providers] in
      providers.use($0.credentials)
      announcer.wake()
    }
    var feature = Feature()
    if let certificate {
      feature.gauges = [
        .single("push_bouncer_certificate_expiry_timestamp_seconds") {
          certificate.life.end.timeIntervalSince1970
        },
        .single("push_bouncer_certificate_renewal_timestamp_seconds") {
          certificate.life.renewal.timeIntervalSince1970
        },
      ]
    }
    feature.work = [
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
    ]
    return feature
  }
}
