package import Foundation
package import Logging
package import Metrics
package import Registrations
internal import SQL
internal import Sealing
internal import Timing

/// Regular work: removes expired registrations (`retention.expired_days`) and other rows whose time is over, legacy
/// registrations of devices that have an encrypted one, and deletions held back of registrations that no longer exist. Counts
/// registrations for the metrics and for `migrate status`, and seals anew what earlier versions have sealed.
package struct Housekeeping: Sendable {
  /// How many stretches of legacy registrations are swept at a time: a hundred thousand rows in all.
  private static let stretches = 50
  /// After this time without a sign of life a process counts as dead.
  private static let silence = Duration.seconds(600)
  /// Seconds between two entries in the history of the migration, each of which reads every registration.
  private static let historyInterval: TimeInterval = 3600

  private let registrations: RegistrationStore
  private let removals: [Removal]
  private let status: MigrationStatus
  private let resealing: Resealing
  private let holders: StorageKeyHolders
  private let lease: MaintenanceLease
  private let retention: TimeInterval
  private let now: @Sendable () -> Date
  private let mayExpire: @Sendable () -> Bool
  private let logger: Logger
  private let metrics: any MetricsFactory

  /// Rows of one table that are no longer needed.
  package struct Removal: Sendable {
    let message: String?
    let remove: @Sendable (_ limit: Int) async throws -> Int

    /// - Parameters:
    ///   - message: what the log says if any were removed.
    ///   - remove: removes a bounded number; returns how many, fewer than `limit` if none are left.
    package init(
      _ message: String? = nil, remove: @escaping @Sendable (_ limit: Int) async throws -> Int
    ) {
      self.message = message
      self.remove = remove
    }
  }

  /// - Parameters:
  ///   - removals: what to remove besides registrations.
  ///   - mayExpire: whether anything may be taken as expired now: not while the clock is doubted.
  package init(
    registrations: RegistrationStore, removals: [Removal], status: MigrationStatus,
    resealing: Resealing, holders: StorageKeyHolders, lease: MaintenanceLease,
    _ configuration: Configuration, now: @escaping @Sendable () -> Date,
    mayExpire: @escaping @Sendable () -> Bool = { true }, logger: Logger,
    metrics: any MetricsFactory = MetricsSystem.factory
  ) {
    self.registrations = registrations
    self.removals = removals
    self.status = status
    self.resealing = resealing
    self.holders = holders
    self.lease = lease
    retention = configuration.retention.expired
    self.now = now
    self.mayExpire = mayExpire
    self.logger = logger
    self.metrics = metrics
  }

  /// Works once a minute until its task is cancelled.
  package func run() async {
    var round = Round()
    await every(.seconds(60)) {
      try await work(&round)
    } onError: { error in
      // The type names the fault; the text could hold a value.
      logger.warning("housekeeping failed", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  /// Does all of it once. What changes the database is done on one node at a time.
  func work(_ round: inout Round) async throws {
    if try await lease.claim(for: 150) {
      if mayExpire() { try await removeWhatIsOver() }
      try await removeSuperseded(&round)
      try await sealAnew(&round)
      _ = try await holders.living(within: Self.silence, &round.holders)
      if mayExpire(), now().timeIntervalSince(round.recordedAt) >= Self.historyInterval {
        try await status.record()
        round.recordedAt = now()
      }
    }
    reportUnopened(&round)
    for count in try await registrations.counts() {
      gauge(count, "live").record(count.live)
      if count.registrations == .e2ee { gauge(count, "expired").record(count.ended) }
    }
  }

  /// What one round leaves to the next.
  struct Round {
    /// How far the legacy registrations have been looked through. After the last one it begins anew.
    var last: Int64 = 0
    /// How many of them were removed on the way there.
    var removed = 0
    /// When the history of the migration was written last.
    var recordedAt = Date.distantPast
    /// How far the sealed values have been looked through.
    var resealing: Resealing.Pass?
    /// The processes that use the database.
    var holders: StorageKeyHolders.Sightings = [:]
    /// Columns with values that do not open, which the log has named already.
    var unopened: Set<String> = []
  }

  private func sealAnew(_ round: inout Round) async throws {
    guard try await !resealing.isComplete else { return }
    var pass = round.resealing ?? resealing.pass()
    for _ in 0..<Self.stretches where !pass.isAtEnd && !Task.isCancelled { try await resealing.step(&pass) }
    round.resealing = pass.isAtEnd ? nil : pass
    // Else something changed meanwhile, and it begins anew the next time.
    guard pass.isAtEnd, try await resealing.finish(pass) else { return }
    if pass.count.resealed > 0 {
      logger.info(
        "secrets sealed anew under the present storage.key",
        metadata: ["count": .stringConvertible(pass.count.resealed)])
    }
  }

  private func reportUnopened(_ round: inout Round) {
    let columns = resealing.unopened
    for (column, count) in columns where !round.unopened.contains(column) {
      logger.error(
        "values do not open: moved from other rows, damaged, or sealed with another storage.key",
        metadata: ["column": "\(column)", "count": .stringConvertible(count)])
    }
    round.unopened.formUnion(columns.keys)
  }

  private func removeSuperseded(_ round: inout Round) async throws {
    for _ in 0..<Self.stretches where !Task.isCancelled {
      let (removed, last) = try await registrations.sweep(after: round.last)
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
      Removal("expired registrations removed") { [registrations, now, retention] limit in
        try await registrations.removeEnded(before: now() - retention, limit: limit)
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
        ("kind", "\(count.registrations)"), ("provider", count.kind.rawValue), ("state", state),
      ], factory: metrics)
  }
}
