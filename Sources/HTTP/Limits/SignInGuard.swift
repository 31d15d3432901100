package import Foundation
import HTTPTypes
import Synchronization

/// Holds up an address that shows wrong credentials: after twenty different ones, or after three of an account that many
/// try, each further one holds it up for twice as long, up to 512 s. One in five minutes is forgiven.
///
/// Neither a stranger nor a mistake stands in the way of the right credentials:
/// - an address that is not held up gets them checked, whatever was tried at the account from elsewhere;
/// - credentials that were right from an address within a day are checked although it is held up;
/// - a program that repeats the wrong ones, as one does that was signed out, is counted once, and holds up only itself
///   when it does so too often.
package final class SignInGuard: Sendable {
  /// Credentials as somebody shows them.
  package struct Attempt: Sendable {
    fileprivate let source: ClientAddress
    fileprivate let account: Int?
    fileprivate let digest: Int

    /// - Parameter account: whose they claim to be, if they tell.
    package init(from address: ClientAddress, account: String?, secret: String) {
      source = address.source
      // Hashed with a seed of this process, so that nobody can choose two that are the same.
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

  /// Different wrong credentials that an address may show before it is held up: in general, and where they are of an
  /// account that many try.
  private static let (free, freeOfTargeted) = (20, 3)
  /// Different wrong credentials of one account, from wherever, beyond which many try it.
  private static let perAccount = RateLimit(calls: 100, seconds: 3600)
  /// In so many seconds one is forgiven.
  private static let forgiveness: TimeInterval = 300
  /// An address is held up for 2^9 seconds at most: by then as many are forgiven as are tried.
  private static let maximumDoublings = 9
  /// How many of an address's latest wrong credentials are recognized.
  private static let maximumKnown = 16
  /// How often the same wrong credentials are looked at.
  private static let repetitions = RateLimit(calls: 100, seconds: 60)

  private struct Source {
    /// The latest wrong credentials, each once.
    var wrong: [Int] = []
    /// How many there were, less those forgiven; as of `changed`.
    var count = 0.0
    var changed: Date
    var heldUntil = Date.distantPast
  }

  private struct State {
    var sources: BoundedMemory<ClientAddress, Source>
    /// Credentials that were right, each with itself, as a place that is shared holds one of many.
    var right = BoundedMemory<Int, Int>(lifetime: 86_400)
  }

  private let now: @Sendable () -> Date
  private let state: Mutex<State>
  private let accounts: RateLimiter<Int>
  private let repeated: RateLimiter<Int>

  package init(now: @escaping @Sendable () -> Date) {
    self.now = now
    let lifetime = Self.forgiveness * Double(Self.free + Self.maximumDoublings)
    state = Mutex(State(sources: BoundedMemory(capacity: 20_000, lifetime: lifetime)))
    accounts = RateLimiter(Self.perAccount, now: now)
    repeated = RateLimiter(Self.repetitions, now: now)
  }

  /// To be called before credentials are looked at.
  ///
  /// - Throws: 429 if they are not to be looked at now.
  package func admit(_ attempt: Attempt) throws(APIError) {
    let now = now()
    let (wait, isKnown) = state.withLock { state -> (TimeInterval, Bool) in
      guard let source = state.sources.value(of: attempt.source) else { return (0, false) }
      let wait = source.heldUntil.timeIntervalSince(now)
      // A clock that was put back must not hold anybody up for longer than this ever does.
      guard wait > 0, wait <= exp2(Double(Self.maximumDoublings)) else {
        return (0, source.wrong.contains(attempt.digest))
      }
      return (state.right.value(of: attempt.digest) == attempt.digest ? 0 : wait, false)
    }
    if wait > 0 { throw .rateLimited(after: wait) }
    if isKnown { try repeated.check(attempt.digest) }
  }

  /// To be called after credentials were looked at.
  package func note(_ attempt: Attempt, isRight: Bool) {
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
        source.heldUntil = now + exp2(doublings)
      }
      state.sources.set(source, for: attempt.source, now: now.timeIntervalSince1970)
    }
  }
}
