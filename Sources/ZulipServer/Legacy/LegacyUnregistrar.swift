package import Foundation
package import Logging
internal import Registrations
internal import SQL
internal import Timing

/// Tells the bouncer of tokens that are no longer used: durably, and again and again until it knows
/// (`Documentation/Decisions` 0009).
package final class LegacyUnregistrar: Sendable {
  /// A sender that is silent for so long has died: its jobs may be taken over. Longer than a call takes.
  private static let lease: TimeInterval = 20
  private static let atOnce = 32

  private let tokens: LegacyTokens
  private let bouncer: any Bouncer
  private let now: @Sendable () -> Date
  private let logger: Logger
  private let worker = Worker()

  /// Works on what `tokens` has for the bouncer.
  package init(
    tokens: LegacyTokens, bouncer: any Bouncer, now: @escaping @Sendable () -> Date, logger: Logger
  ) {
    self.tokens = tokens
    self.bouncer = bouncer
    self.now = now
    self.logger = logger
  }

  /// There is something new: need not wait for the next look.
  func wake() { worker.wake() }

  /// Works until the task is cancelled.
  package func run() async {
    await worker.run {
      let jobs = try await tokens.leaseJobs(limit: Self.atOnce, for: Self.lease)
      await withTaskGroup { group in
        for job in jobs { group.addTask { await self.work(on: job) } }
      }
      return jobs.count == Self.atOnce
    } onError: { error in
      logger.error(
        "unregistrations could not be processed", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  private func work(on job: Unregistration) async {
    do {
      do {
        try await tell(job)
        try await tokens.finish(job)
        logger.info("old token unregistered at the bouncer", metadata: ["unregistration": "\(job.lease.id)"])
      } catch let error as BouncerError {
        logger.warning(
          "the bouncer did not unregister an old token, which is tried again",
          metadata: [
            "unregistration": "\(job.lease.id)", "reason": "\(error)", "attempts": "\(job.lease.attempts)",
          ])
        let next = now() + error.pause(after: job.lease.attempts, .bouncer, now: now())
        try await tokens.postpone(job, until: next, failure: "\(error)")
      }
    } catch {
      // The lease runs out, and somebody tries again.
      logger.warning(
        "the result of an unregistration could not be stored",
        metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  /// Has the bouncer forget the token, and register it again if it was registered here again meanwhile.
  private func tell(_ job: Unregistration) async throws {
    do {
      try await bouncer.unregisterLegacy(job.token, of: job.user, realm: job.realm)
    } catch let error as BouncerError where error.isMissingToken {
      // What it does not have it need not forget.
    }
    for token in try await tokens.returned(after: job) {
      try await bouncer.registerLegacy(
        token.token, iosAppID: token.iosAppID, of: job.user, realm: job.realm)
    }
  }
}
