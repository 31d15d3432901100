import Basics
import Foundation
import HTTP
package import Logging
package import Registrations
import SQL
import ZulipBouncer

/// A chat server's link to its bouncer. It makes calls, and repeats until they succeed those that must not be lost: uploads of
/// realms, at the start and when they change; registrations of devices' tokens, for a day (`Documentation/Decisions` 0010);
/// and unregistrations of old apps' tokens (0009).
package final class BouncerLink: Sendable {
  /// Seconds after which jobs of a sender that has died may be taken over. Longer than a call takes.
  private static let lease: TimeInterval = 20
  /// Pauses between uploads of the realms.
  private static let realmBackoff = Backoff(first: 1, longest: 300, shares: 1...1)
  /// Pauses between tries of jobs that are repeated for a day.
  private static let backoff = Backoff(first: 2, longest: 900)

  let calls: any BouncerCalls
  private let accounts: AccountStore
  private let devices: Devices
  private let now: @Sendable () -> Date
  private let isClockTrusted: @Sendable () -> Bool
  private let logger: Logger
  private let uploads = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
  private let registrations = Worker()
  private let unregistrations = Worker()

  /// - Parameter isClockTrusted: whether jobs may be treated as expired; false while the clock is in doubt.
  package init(
    _ calls: any BouncerCalls, accounts: AccountStore, devices: Devices,
    isClockTrusted: @escaping @Sendable () -> Bool, logger: Logger
  ) {
    self.calls = calls
    self.accounts = accounts
    self.devices = devices
    now = devices.now
    self.isClockTrusted = isClockTrusted
    self.logger = logger
  }

  /// Starts work on a new registration at once, and not only at the next poll of the queue.
  func wakeRegistrations() { registrations.wake() }

  /// Starts work on a new unregistration at once.
  func wakeUnregistrations() { unregistrations.wake() }

  /// Requests an upload of the realms.
  package func uploadRealms() { uploads.continuation.yield() }

  /// Works until the task is cancelled; jobs under way are then released.
  package func run() async {
    await withTaskGroup { group in
      group.addTask { await self.keepRealmsUploaded() }
      group.addTask {
        await self.work(self.registrations, atOnce: 64, self.devices.leaseJobs) {
          try await self.register($0)
        }
      }
      group.addTask {
        let tokens = self.devices.legacyTokens
        await self.work(self.unregistrations, atOnce: 32, tokens.leaseJobs) { try await self.unregister($0) }
      }
    }
  }

  private func work<Job: Sendable>(
    _ worker: Worker, atOnce: Int, _ lease: (Int, TimeInterval) async throws -> [Job],
    _ handle: @escaping @Sendable (Job) async throws -> Void
  ) async {
    await worker.run {
      let jobs = try await lease(atOnce, Self.lease)
      await withTaskGroup { group in
        for job in jobs {
          group.addTask {
            do {
              try await handle(job)
            } catch {
              // When the lease runs out, the job is tried again.
              self.logger.error(
                "the bouncer's answer could not be stored",
                metadata: ["error": "\(DatabaseError.name(of: error))"])
            }
          }
        }
      }
      return jobs.count == atOnce
    } onError: { error in
      logger.error(
        "jobs for the bouncer cannot be read",
        metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  private func register(_ job: RegistrationJob) async throws {
    let end = job.requestedAt + PushRegistration.lifetime
    if now() >= end, isClockTrusted() { return try await fail(job, .requestExpired) }
    do {
      try await providingRealms {
        try await calls.register(
          job.sealed, tokenID: job.tokenID, publicKey: job.bouncerPublicKey, realm: job.realm)
      }
      try await devices.finish(job)
    } catch let error as BouncerError {
      if let failure = error.registrationError { return try await fail(job, failure) }
      logger.warning(
        "push device registration failed; it is retried",
        metadata: [
          "device_id": "\(job.device)", "realm": "\(job.realm.canonical)", "reason": "\(error)",
          "attempts": "\(job.lease.attempts)",
        ])
      let next = now() + error.pause(after: job.lease.attempts, Self.backoff, now: now())
      try await devices.jobs.postpone([job.lease], until: now() < end ? min(next, end) : next)
    } catch is CancellationError {
      try await devices.jobs.postpone([job.lease], until: now())
    }
  }

  private func fail(_ job: RegistrationJob, _ failure: Device.RegistrationError) async throws {
    logger.error(
      "push device registration refused",
      metadata: [
        "device_id": "\(job.device)", "realm": "\(job.realm.canonical)", "code": "\(failure.rawValue)",
      ])
    try await devices.finish(job, with: failure)
  }

  /// Unregisters a token at the bouncer, and registers it again if it was added here again meanwhile.
  private func unregister(_ job: Unregistration) async throws {
    do {
      do {
        try await calls.unregisterLegacy(job.token, of: job.user, realm: job.realm)
      } catch let error as BouncerError where error.isMissingToken {
        // The bouncer does not have the token, so nothing is left to do.
      }
      for token in try await devices.legacyTokens.returned(after: job) {
        try await calls.registerLegacy(token, of: job.user, realm: job.realm)
      }
      try await devices.legacyTokens.jobs.finish([job.lease])
      logger.info("old token unregistered at the bouncer", metadata: job.metadata)
    } catch let error as BouncerError {
      logger.warning(
        "unregistering an old token at the bouncer failed; it is retried",
        metadata: job.metadata.merging(["reason": "\(error)", "attempts": "\(job.lease.attempts)"]) { $1 })
      let next = now() + error.pause(after: job.lease.attempts, Self.backoff, now: now())
      try await devices.legacyTokens.postpone(job, until: next, failure: "\(error)")
    }
  }

  /// Makes a call that may find the realm missing; the realms are then uploaded, and the call repeated. If
  /// the upload is refused, the realm stays missing, which the operator has to fix, and the call's own error
  /// is thrown. If the upload fails for now, its error is thrown.
  func providingRealms<Result>(_ call: () async throws -> Result) async throws -> Result {
    do {
      return try await call()
    } catch let missing as BouncerError where missing.isMissingRealm {
      do {
        try await upload()
      } catch let error as BouncerError {
        logger.warning("the bouncer did not accept the realms", metadata: ["reason": "\(error)"])
        guard case .refused = error else { throw error }
        throw missing
      }
      return try await call()
    }
  }

  private func upload() async throws {
    var realms: [(ChatRealm, String)] = []
    for realm in try await accounts.realms() {
      realms.append((realm, try await accounts.ownerSecret(of: realm)))
    }
    guard !realms.isEmpty else { return }
    try await calls.upload(realms)
  }

  private func keepRealmsUploaded() async {
    uploadRealms()
    for await _ in uploads.stream {
      var tries = 0
      while !Task.isCancelled {
        tries += 1
        var pause = Self.realmBackoff.pause(after: tries)
        do {
          try await upload()
          break
        } catch let error as BouncerError {
          logger.warning("the bouncer did not accept the realms", metadata: ["reason": "\(error)"])
          // A refusal is final until something changes; a call that finds a realm missing uploads again.
          if case .refused = error { break }
          pause = error.pause(after: tries, Self.realmBackoff, now: now())
        } catch {
          logger.warning(
            "realms could not be uploaded", metadata: ["error": "\(DatabaseError.name(of: error))"])
        }
        try? await Task.sleep(for: .seconds(pause))
      }
    }
  }
}
