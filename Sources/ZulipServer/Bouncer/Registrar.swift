package import Foundation
internal import HTTP
package import Logging
internal import Registrations
internal import SQL
internal import Timing

/// Brings the tokens of devices to the bouncer: durably, again and again for a day, and never stuck
/// (`Documentation/Decisions` 0010).
package final class Registrar: Sendable {
  /// A sender that is silent for so long has died: its jobs may be taken over. Longer than a call takes.
  private static let lease: TimeInterval = 20
  private static let atOnce = 64

  private let devices: Devices
  private let bouncer: any Bouncer
  private let realms: RealmUpload
  private let now: @Sendable () -> Date
  private let mayExpire: @Sendable () -> Bool
  private let logger: Logger
  private let worker = Worker()

  /// Registers the tokens of `devices`.
  ///
  /// - Parameter mayExpire: whether anything may be taken as expired now: not while the clock is doubted.
  package init(
    devices: Devices, bouncer: any Bouncer, realms: RealmUpload, now: @escaping @Sendable () -> Date,
    mayExpire: @escaping @Sendable () -> Bool = { true }, logger: Logger
  ) {
    self.devices = devices
    self.bouncer = bouncer
    self.realms = realms
    self.now = now
    self.mayExpire = mayExpire
    self.logger = logger
  }

  /// There is something new: need not wait for the next look.
  func wake() { worker.wake() }

  /// Works until the task is cancelled; what is under way is then given back.
  package func run() async {
    await worker.run {
      let jobs = try await devices.leaseJobs(limit: Self.atOnce, for: Self.lease)
      await withTaskGroup { group in
        for job in jobs { group.addTask { await self.work(on: job) } }
      }
      return jobs.count == Self.atOnce
    } onError: { error in
      logger.error(
        "registrations could not be processed", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  private func work(on job: RegistrationJob) async {
    do {
      let end = job.requestedAt + Zulip.registrationLifetime
      if now() >= end, mayExpire() { return try await fail(job, .requestExpired) }
      do {
        try await realms.providing {
          try await bouncer.register(
            job.sealed, tokenID: job.tokenID, publicKey: job.bouncerPublicKey, realm: job.realm)
        }
        try await devices.finish(job)
      } catch let error as BouncerError {
        if let failure = error.registrationError { return try await fail(job, failure) }
        logger.warning(
          "push device registration failed and is tried again",
          metadata: ["device_id": "\(job.device)", "reason": "\(error)", "attempts": "\(job.lease.attempts)"])
        let next = now() + error.pause(after: job.lease.attempts, .bouncer, now: now())
        try await devices.postpone(job, until: now() < end ? min(next, end) : next)
      } catch is CancellationError {
        try await devices.postpone(job, until: now())
      }
    } catch {
      // The lease runs out, and somebody tries again.
      logger.error(
        "the result of a push device registration could not be stored",
        metadata: ["device_id": "\(job.device)", "error": "\(DatabaseError.name(of: error))"])
    }
  }

  private func fail(_ job: RegistrationJob, _ failure: Device.RegistrationError) async throws {
    logger.error(
      "push device registration refused",
      metadata: ["device_id": "\(job.device)", "code": "\(failure.rawValue)"])
    try await devices.finish(job, with: failure)
  }
}

extension Backoff {
  /// Of what the bouncer is to be told, which goes on for a day.
  static let bouncer = Backoff(first: 2, longest: 900)
}
