import Basics
import Foundation
package import Logging
package import Metrics
package import Platform
package import Registrations
import SQL
import Sealing

/// Periodic cleanup: removes expired registrations (`retention.expired_days`), other expired rows, legacy
/// registrations of devices that also have an encrypted one, and held-back deletions of registrations that no
/// longer exist. Also counts registrations for the metrics.
package struct Housekeeping: Sendable {
  /// How many batches of legacy registrations are checked in one round: a hundred thousand rows in all.
  private static let stretches = 50
  /// A process without a heartbeat for this long is forgotten.
  private static let silence = Duration.seconds(3600)

  private let registrations: RegistrationStore
  private let removals: [Removal]
  private let nodes: Nodes
  private let lease: MaintenanceLease
  private let retention: TimeInterval
  private let logger: Logger
  private let metrics: any MetricsFactory

  /// - Parameter removals: what to remove in addition to registrations.
  package init(
    _ configuration: Configuration, registrations: RegistrationStore, removals: [Removal], logger: Logger,
    metrics: any MetricsFactory = MetricsSystem.factory
  ) {
    let database = registrations.database
    let now = registrations.now
    self.registrations = registrations
    self.removals = removals
    nodes = Nodes(database: database)
    lease = MaintenanceLease("housekeeping", database: database, now: now)
    retention = configuration.registrations.expiredRetention
    self.logger = logger
    self.metrics = metrics
  }

  /// Runs once a minute until its task is cancelled.
  package func run() async {
    var round = Round()
    await every(.seconds(60)) {
      try await work(&round)
    } onError: { error in
      // Only the error's type is logged, because its text could contain a value.
      logger.warning("housekeeping failed", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  /// Runs one round. Only one node at a time changes the database.
  func work(_ round: inout Round) async throws {
    if try await lease.claim(for: 150) {
      if registrations.isClockTrusted() { try await removeWhatIsOver() }
      try await removeSuperseded(&round)
      _ = try await nodes.living(within: Self.silence, &round.nodes)
    }
    reportUnopened(&round)
    for count in try await registrations.counts() {
      gauge(count, "live").record(count.live)
      if count.registrations == .e2ee { gauge(count, "ended").record(count.ended) }
    }
  }

  /// State kept between rounds.
  struct Round {
    /// The last legacy registration that was checked. After the final one, the checks start again.
    var last: Int64 = 0
    /// How many legacy registrations were removed since the checks started.
    var removed = 0
    /// The processes that use the database.
    var nodes: Nodes.Sightings = [:]
    /// Columns with values that cannot be opened and that the log has already named.
    var unopened: Set<String> = []
  }

  private func reportUnopened(_ round: inout Round) {
    let columns = registrations.storageKey.failures
    for (column, count) in columns where !round.unopened.contains(column) {
      logger.error(
        "values do not open: moved from other rows, damaged, or sealed with another storage.key",
        metadata: ["column": "\(column)", "count": .stringConvertible(count)])
    }
    round.unopened.formUnion(columns.keys)
  }

  private func removeSuperseded(_ round: inout Round) async throws {
    for _ in 0..<Self.stretches where !Task.isCancelled {
      let (removed, last) = try await registrations.removeDuplicates(after: round.last)
      round.removed += removed
      round.last = last ?? 0
      guard last == nil else { continue }
      if round.removed > 0 {
        logger.info(
          "legacy registrations removed: their devices have end-to-end encrypted ones",
          metadata: ["count": .stringConvertible(round.removed)])
      }
      round.removed = 0
      return
    }
  }

  private func removeWhatIsOver() async throws {
    let limit = 1000
    let own = [
      Removal("expired registrations removed") { [registrations, retention] limit in
        try await registrations.removeEnded(before: registrations.now() - retention, limit: limit)
      },
      Removal("deletions held back forgotten") { [registrations] in
        try await registrations.forgetHeld(limit: $0)
      },
    ]
    for removal in own + removals {
      var removed = 0
      repeat {
        removed = try await removal.remove(limit)
        if removed > 0, let message = removal.message {
          logger.info("\(message)", metadata: ["count": .stringConvertible(removed)])
        }
      } while removed == limit && !Task.isCancelled
    }
  }

  private func gauge(_ count: RegistrationStore.Count, _ state: String) -> Gauge {
    Gauge(
      label: "push_bouncer_registrations",
      dimensions: [
        ("kind", "\(count.registrations)"), ("provider", count.provider), ("state", state),
      ], factory: metrics)
  }
}
