package import Foundation
package import Logging
package import Registrations
internal import SQL
internal import Timing

/// Tells the bouncer of the realms: at the start, when they change, and when it says that it misses one.
package final class RealmUpload: Sendable {
  private static let backoff = Backoff(first: 1, longest: 300, shares: 1...1)

  private let accounts: AccountStore
  private let bouncer: any Bouncer
  private let now: @Sendable () -> Date
  private let logger: Logger
  private let wakeUp = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

  /// Uploads the realms of `accounts`.
  package init(
    accounts: AccountStore, bouncer: any Bouncer, now: @escaping @Sendable () -> Date, logger: Logger
  ) {
    self.accounts = accounts
    self.bouncer = bouncer
    self.now = now
    self.logger = logger
  }

  /// Uploads them at the next opportunity.
  package func request() {
    wakeUp.continuation.yield()
  }

  /// Uploads them now.
  func upload() async throws {
    var realms: [(ChatRealm, String)] = []
    for realm in try await accounts.realms() {
      realms.append((realm, try await accounts.ownerSecret(of: realm)))
    }
    guard !realms.isEmpty else { return }
    try await bouncer.upload(realms)
  }

  /// Makes a call that may find the realm missing; it is then uploaded, and the call made again. Where the upload is
  /// refused the realm stays missing: that is for the operator to mend, and no answer to the call. Where it fails in
  /// passing, so does the call.
  func providing<Result>(_ call: () async throws -> Result) async throws -> Result {
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

  /// Uploads whenever it is asked to, until the task is cancelled; tries again where the bouncer is away.
  package func run() async {
    request()
    for await _ in wakeUp.stream {
      var tries = 0
      while !Task.isCancelled {
        // The bouncer is away: longer each time, so that it is not pressed when it is back.
        tries += 1
        var pause = Self.backoff.pause(after: tries)
        do {
          try await upload()
          break
        } catch let error as BouncerError {
          logger.warning("the bouncer did not accept the realms", metadata: ["reason": "\(error)"])
          // Its word is final until something changes; a call that finds a realm missing asks again.
          if case .refused = error { break }
          pause = error.pause(after: tries, Self.backoff, now: now())
        } catch {
          logger.warning(
            "realms could not be uploaded", metadata: ["error": "\(DatabaseError.name(of: error))"])
        }
        try? await Task.sleep(for: .seconds(pause))
      }
    }
  }
}
