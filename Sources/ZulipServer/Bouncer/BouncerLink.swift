package import Foundation
internal import HTTP
package import Logging
package import Registrations
internal import SQL
internal import Timing

/// A chat server's link to its bouncer: makes calls, and brings what the bouncer has yet to be told, again and again
/// until it knows. That are the realms, at the start and when they change; tokens of devices, for a day
/// (`Documentation/Decisions` 0010); and tokens of old apps that are no longer used (0009).
package final class BouncerLink: Sendable {
  /// A sender that is silent for so long has died: its jobs may be taken over. Longer than a call takes.
  private static let lease: TimeInterval = 20
  private static let realmBackoff = Backoff(first: 1, longest: 300, shares: 1...1)
  /// Of what goes on for a day.
  private static let backoff = Backoff(first: 2, longest: 900)

  let calls: any BouncerCalls
  private let accounts: AccountStore
  private let devices: Devices
  private let now: @Sendable () -> Date
  private let mayExpire: @Sendable () -> Bool
  private let logger: Logger
  private let uploads = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
  private let registrations = Worker()
  private let unregistrations = Worker()

  /// - Parameter mayExpire: whether anything may be taken as expired now: not while the clock is doubted.
  package init(
    _ calls: any BouncerCalls, accounts: AccountStore, devices: Devices, now: @escaping @Sendable () -> Date,
    mayExpire: @escaping @Sendable () -> Bool, logger: Logger
  ) {
    (self.calls, self.accounts, self.devices) = (calls, accounts, devices)
    (self.now, self.mayExpire, self.logger) = (now, mayExpire, logger)
  }

  /// There is a token for the bouncer: need not wait for the next look.
  func wakeRegistrations() { registrations.wake() }

  /// There is a token that it may forget.
  func wakeUnregistrations() { unregistrations.wake() }

  /// Uploads the realms at the next opportunity.
  package func uploadRealms() { uploads.continuation.yield() }

  /// Works until the task is cancelled; what is under way is then given back.
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
    _ tell: @escaping @Sendable (Job) async throws -> Void
  ) async {
    await worker.run {
      let jobs = try await lease(atOnce, Self.lease)
      await withTaskGroup { group in
        for job in jobs {
          group.addTask {
            do {
              try await tell(job)
            } catch {
              // The lease runs out, and somebody tries again.
              self.logger.error(
                "what the bouncer said could not be stored",
                metadata: ["error": "\(DatabaseError.name(of: error))"])
            }
          }
        }
      }
      return jobs.count == atOnce
    } onError: { error in
      logger.error(
        "what the bouncer has to be told cannot be read",
        metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  private func register(_ job: RegistrationJob) async throws {
    let end = job.requestedAt + Zulip.registrationLifetime
    if now() >= end, mayExpire() { return try await fail(job, .requestExpired) }
    do {
      try await providingRealms {
        try await calls.register(
          job.sealed, tokenID: job.tokenID, publicKey: job.bouncerPublicKey, realm: job.realm)
      }
      try await devices.finish(job)
    } catch let error as BouncerError {
      if let failure = error.registrationError { return try await fail(job, failure) }
      logger.warning(
        "push device registration failed and is tried again",
        metadata: ["device_id": "\(job.device)", "reason": "\(error)", "attempts": "\(job.lease.attempts)"])
      let next = now() + error.pause(after: job.lease.attempts, Self.backoff, now: now())
      try await devices.postpone(job, until: now() < end ? min(next, end) : next)
    } catch is CancellationError {
      try await devices.postpone(job, until: now())
    }
  }

  private func fail(_ job: RegistrationJob, _ failure: Device.RegistrationError) async throws {
    logger.error(
      "push device registration refused",
      metadata: ["device_id": "\(job.device)", "code": "\(failure.rawValue)"])
    try await devices.finish(job, with: failure)
  }

  /// Has the bouncer forget a token, and register it again if it was registered here again meanwhile.
  private func unregister(_ job: Unregistration) async throws {
    do {
      do {
        try await calls.unregisterLegacy(job.token, of: job.user, realm: job.realm)
      } catch let error as BouncerError where error.isMissingToken {
        // What it does not have it need not forget.
      }
      for token in try await devices.legacyTokens.returned(after: job) {
        try await calls.registerLegacy(token, of: job.user, realm: job.realm)
      }
      try await devices.legacyTokens.finish(job)
      logger.info("old token unregistered at the bouncer", metadata: ["unregistration": "\(job.lease.id)"])
    } catch let error as BouncerError {
      logger.warning(
        "the bouncer did not unregister an old token, which is tried again",
        metadata: [
          "unregistration": "\(job.lease.id)", "reason": "\(error)", "attempts": "\(job.lease.attempts)",
        ])
      let next = now() + error.pause(after: job.lease.attempts, Self.backoff, now: now())
      try await devices.legacyTokens.postpone(job, until: next, failure: "\(error)")
    }
  }

  /// Makes a call that may find the realm missing; it is then uploaded, and the call made again. Where the upload is
  /// refused the realm stays missing: that is for the operator to mend, and no answer to the call. Where it fails in
  /// passing, so does the call.
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
          // Its word is final until something changes; a call that finds a realm missing asks again.
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
