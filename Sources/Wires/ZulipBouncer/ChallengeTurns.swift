import Basics
import Foundation
import HTTP
import HTTPClient

/// Decides when a host is called for a challenge. Anybody may ask for one, of any hostname that is registered here, and each
/// has this program call a host. So a caller is never in the way of the one that the hostname belongs to:
///
/// - A caller has ten an hour of each hostname, and one at a time. A caller is an address, as limits count them.
/// - Hostnames take turns, one call at a time each; so do the callers of a hostname, as each waits with one call only.
/// - A caller at an address of the registered hostname itself is counted apart, and waits for none of the others.
///
/// To find that out the hostname is looked up, once for each call and within a second. The threads for that are limited
/// for each domain and in all (``HostAddresses``), and callers of one name share an answer.
struct ChallengeTurns: Sendable {
  private struct Pair: Hashable {
    let hostname: Hostname
    let caller: ClientAddress
  }

  private static let limit = RateLimit(calls: 10, seconds: 3600)
  /// With the time of a ``HostVerifier`` it is less than the 15 s that stock servers wait for an answer.
  private static let turnLimit = Duration.seconds(8)
  private static let lookupTime = Duration.seconds(1)

  private let counts: Rate<Pair>
  private let ownCounts: Rate<Hostname>
  let callers = FairSemaphore<ClientAddress>(.max, each: 1)
  let registered = FairSemaphore<Hostname>(32, each: 1)
  let new = FairSemaphore<Hostname>(32, each: 1)
  private let own = FairSemaphore<Hostname>(32, each: 1)

  init(now: @escaping @Sendable () -> Date) {
    counts = Rate(Self.limit, now: now)
    ownCounts = Rate(Self.limit, now: now)
  }

  /// Calls a host when it is the caller's turn.
  ///
  /// - Parameter isRegistered: whether the hostname is that of a registered server.
  /// - Throws: 429 if the caller has used up its calls, or its turn does not come; what `call` throws.
  func run<Result>(
    _ hostname: Hostname, isRegistered: Bool, for caller: ClientAddress, _ call: () async throws -> Result
  ) async throws -> Result {
    let end = ContinuousClock.now + Self.turnLimit
    return try await callers.run(caller.source, until: end) {
      if isRegistered, await Self.isOwn(caller, of: hostname) {
        try ownCounts.check(hostname)
        return try await own.run(hostname, until: end, call)
      }
      try counts.check(Pair(hostname: hostname, caller: caller.source))
      return try await (isRegistered ? registered : new).run(hostname, until: end, call)
    }
  }

  /// Whether a caller's address, or one that counts as the same, is one of the hostname's.
  private static func isOwn(_ caller: ClientAddress, of hostname: Hostname) async -> Bool {
    let addresses = try? await withTimeout(lookupTime) {
      try await HostAddresses.resolvePresentOrFormer(hostname.host)
    }
    return addresses?.contains { ClientAddress($0)?.source == caller.source } == true
  }
}

extension FairSemaphore {
  /// Runs `body` with a permit.
  ///
  /// - Throws: 429 if there is none in time; what `body` throws.
  fileprivate func run<Result>(
    _ holder: Holder, until end: ContinuousClock.Instant, _ body: () async throws -> Result
  ) async throws -> Result {
    guard try await acquire(1, of: holder, within: max(.zero, end - .now)) else {
      throw APIError.rateLimited(retryAfter: "10")
    }
    defer { release(1, of: holder) }
    return try await body()
  }
}
