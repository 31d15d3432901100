package import Basics
package import Foundation
import HTTPTypes
import Synchronization

/// Blocks an address that tries wrong credentials: after twenty different ones, or three for an account that
/// is under attack, each further one doubles the time for which it is blocked, up to 512 s. One attempt is
/// forgiven every five minutes.
///
/// Neither attackers nor mistakes lock out the right credentials:
/// - an address that is not blocked gets its credentials checked, whatever others try for the same account;
/// - credentials that were right from an address within the last day are checked even if it is blocked;
/// - a program that repeats the same wrong credentials is counted once, and is blocked only if it repeats
///   them too often.
package final class SignInGuard: Sendable {
  /// Credentials and the address that they come from.
  package struct Attempt: Sendable {
    fileprivate let source: ClientAddress
    fileprivate let account: Int?
    fileprivate let digest: Int

    /// - Parameter account: the account that they are for, if they name one.
    package init(from address: ClientAddress, account: String?, secret: String) {
      source = address.source
      // Hashed with a random seed per process, so that collisions cannot be constructed.
      self.account = account.map { Self.hash($0.utf8.map(\.lowercased)) }
      digest = Self.hash(Array((account ?? "").utf8) + [0xFF] + Array(secret.utf8), source)
    }

    private static func hash(_ bytes: [UInt8], _ address: ClientAddress? = nil) -> Int {
      var hasher = Hasher()
      hasher.combine(address)
      bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
      return hasher.finalize()
    }
  }

  /// The number of different wrong credentials that an address may try before it is blocked.
  private static let free = 20
  /// The same for an account under attack.
  private static let freeOfTargeted = 3
  /// An account is under attack beyond this many different wrong credentials from all addresses.
  private static let perAccount = RateLimit(calls: 100, seconds: 3600)
  /// Seconds after which one attempt is forgiven.
  private static let forgiveness: TimeInterval = 300
  /// Limits the block to 2^9 seconds, in which about as many attempts are forgiven as can be made.
  private static let maximumDoublings = 9
  /// How many of an address's latest wrong credentials are remembered.
  private static let maximumKnown = 16
  /// How often the same wrong credentials are checked.
  private static let repetitions = RateLimit(calls: 100, seconds: 60)

  private struct Source {
    /// The latest wrong credentials, without repetitions.
    var wrong: [Int] = []
    /// Number of attempts less those forgiven, at the time `changed`.
    var count = 0.0
    var changed: Date
    var blockedUntil = Date.distantPast
  }

  private struct State {
    var sources: BoundedMemory<ClientAddress, Source>
    /// Credentials that were right. Each is its own value, because a shared slot holds only one of its keys.
    var right = BoundedMemory<Int, Int>(lifetime: 86_400)
  }

  private let now: @Sendable () -> Date
  private let state: Mutex<State>
  private let accounts: Rate<Int>
  private let repeated: Rate<Int>

  package init(now: @escaping @Sendable () -> Date) {
    self.now = now
    let lifetime = Self.forgiveness * Double(Self.free + Self.maximumDoublings)
    state = Mutex(State(sources: BoundedMemory(capacity: 20_000, lifetime: lifetime)))
    accounts = Rate(Self.perAccount, now: now)
    repeated = Rate(Self.repetitions, now: now)
  }

  /// Called before credentials are checked.
  ///
  /// - Throws: 429 if the address is blocked.
  package func admit(_ attempt: Attempt) throws(APIError) {
    let now = now()
    let (wait, isKnown) = state.withLock { state -> (TimeInterval, Bool) in
      guard let source = state.sources.value(of: attempt.source) else { return (0, false) }
      let wait = source.blockedUntil.timeIntervalSince(now)
      // A longer wait than the maximum means that the clock was put back.
      guard wait > 0, wait <= exp2(Double(Self.maximumDoublings)) else {
        return (0, source.wrong.contains(attempt.digest))
      }
      return (state.right.value(of: attempt.digest) == attempt.digest ? 0 : wait, false)
    }
    if wait > 0 { throw .rateLimited(after: wait) }
    if isKnown { try repeated.check(attempt.digest) }
  }

  /// Called with the result of the check.
  package func record(_ attempt: Attempt, isRight: Bool) {
    let now = now()
    if isRight {
      state.withLock { $0.right.set(attempt.digest, for: attempt.digest, now: now.timeIntervalSince1970) }
      return
    }
    let isKnown = state.withLock { state in
      state.sources.value(of: attempt.source)?.wrong.contains(attempt.digest) == true
    }
    guard !isKnown else { return }
    let isTargeted = attempt.account.map { accounts.count($0).retryAfter != nil } ?? false
    let free = Double(isTargeted ? Self.freeOfTargeted : Self.free)
    state.withLock { state in
      var source = state.sources.value(of: attempt.source) ?? Source(changed: now)
      guard !source.wrong.contains(attempt.digest) else { return }
      source.wrong = source.wrong.suffix(Self.maximumKnown - 1) + [attempt.digest]
      let forgiven = max(0, now.timeIntervalSince(source.changed)) / Self.forgiveness
      source.count = min(max(0, source.count - forgiven) + 1, Double(Self.free + Self.maximumDoublings))
      source.changed = now
      if source.count > free {
        let doublings = min((source.count - free).rounded(.up), Double(Self.maximumDoublings))
        source.blockedUntil = now + exp2(doublings)
      }
      state.sources.set(source, for: attempt.source, now: now.timeIntervalSince1970)
    }
  }
}
