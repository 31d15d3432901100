package import Foundation
import NIOCore
import Synchronization
import Timing

/// One token for everybody who needs it: made once, kept, renewed in the background.
final class TokenSource: Sendable {
  typealias Answer = Result<AccessToken, TokenFailure>

  private struct State {
    var cache: TokenCache
    var waiters: [Int: CheckedContinuation<Answer?, Never>] = [:]
    var lastWaiter = 0
  }

  private let make: @Sendable () async -> Answer
  private let now: @Sendable () -> Date
  private let eventLoop: any EventLoop
  private let state: Mutex<State>

  /// - Parameter make: makes or fetches a new token; must end by itself, in seconds.
  init(
    limits: TokenCache.Limits = .init(), eventLoop: any EventLoop, now: @escaping @Sendable () -> Date,
    make: @escaping @Sendable () async -> Answer
  ) {
    (self.make, self.now, self.eventLoop) = (make, now, eventLoop)
    state = Mutex(State(cache: TokenCache(limits: limits)))
  }

  /// The token, by the deadline.
  func token(deadline: NIODeadline) async -> Answer {
    while true {
      switch state.withLock({ $0.cache.token(now: now()) }) {
      case .use(let token): return .success(token)
      case .useAndRenew(let token):
        renew()
        return .success(token)
      case .unavailable(let failure): return .failure(failure)
      case .wait(let start):
        if start { renew() }
        if let answer = await renewal(deadline: deadline) { return answer }
      }
    }
  }

  /// The provider refused the token with this header. Returns whether it is worth asking for another.
  func refused(_ authorization: String) -> Bool {
    state.withLock { $0.cache.refused(authorization, now: now()) }
  }

  /// What the renewal that is under way brings; nil if there is none any more.
  private func renewal(deadline: NIODeadline) async -> Answer? {
    await withCheckedContinuation { continuation in
      let waiter: Int? = state.withLock { state in
        guard state.cache.isRenewing else { return nil }
        state.lastWaiter += 1
        state.waiters[state.lastWaiter] = continuation
        return state.lastWaiter
      }
      guard let waiter else { return continuation.resume(returning: nil) }
      eventLoop.scheduleTask(deadline: deadline) { [self] in
        state.withLock { $0.waiters.removeValue(forKey: waiter) }?.resume(returning: .failure(.timeout))
      }
    }
  }

  private func renew() {
    Task {
      let result = await make()
      let waiters = state.withLock { state in
        state.cache.renewed(result, now: now())
        defer { state.waiters = [:] }
        return state.waiters.values
      }
      for waiter in waiters { waiter.resume(returning: result) }
    }
  }
}

/// A token that proves to a provider who we are: APNs' provider token, or an OAuth access token.
package struct AccessToken: Sendable, Hashable {
  /// The `authorization` header with it: `bearer ...`.
  let authorization: String
  /// When it was made.
  let issuedAt: Date
  /// From then on a new one is fetched while this one still serves.
  let renewAt: Date
  /// From then on it serves no more.
  let expiresAt: Date

  package init(authorization: String, issuedAt: Date, renewAt: Date, expiresAt: Date) {
    (self.authorization, self.issuedAt) = (authorization, issuedAt)
    (self.renewAt, self.expiresAt) = (renewAt, expiresAt)
  }
}

/// When to make a token, and who waits for it: decisions without I/O.
///
/// One renewal at a time for everyone. The old token goes on serving while a renewal runs or
/// fails. After a failure the next try waits, longer each time, and nobody waits with it.
struct TokenCache {
  struct Limits: Sendable {
    /// A younger token is not replaced, even if the provider refuses it: Apple allows a new one every 20 minutes.
    var minimumAge: TimeInterval = 0
    /// A token made this long after now was made by another clock.
    var tolerance: TimeInterval = 60
    /// Pauses after failed attempts.
    let backoff = Backoff(first: 1, longest: 60, shares: 1...1)
  }

  enum Answer: Equatable {
    case use(AccessToken)
    /// Use this one and start a renewal.
    case useAndRenew(AccessToken)
    /// Wait for the renewal, which is to be started if `start`.
    case wait(start: Bool)
    /// The last attempt failed a moment ago.
    case unavailable(TokenFailure)
  }

  let limits: Limits
  private var token: AccessToken?
  private(set) var isRenewing = false
  private var failures = 0
  private var lastFailure = TokenFailure.unreachable
  private var noAttemptBefore = Date.distantPast

  init(limits: Limits = Limits()) {
    self.limits = limits
  }

  mutating func token(now: Date) -> Answer {
    if let token, now < token.expiresAt, !isFromOtherClock(token, now) {
      guard now >= token.renewAt, !isRenewing, now >= noAttemptBefore else { return .use(token) }
      isRenewing = true
      return .useAndRenew(token)
    }
    guard !isRenewing else { return .wait(start: false) }
    guard now >= noAttemptBefore || noAttemptBefore > now.addingTimeInterval(limits.backoff.longest) else {
      return .unavailable(lastFailure)
    }
    isRenewing = true
    return .wait(start: true)
  }

  mutating func renewed(_ result: Result<AccessToken, TokenFailure>, now: Date) {
    isRenewing = false
    switch result {
    case .success(let token):
      self.token = token
      failures = 0
      noAttemptBefore = .distantPast
    case .failure(let failure):
      lastFailure = failure
      failures += 1
      noAttemptBefore = now.addingTimeInterval(limits.backoff.pause(after: failures))
    }
  }

  /// The provider refused this token. Returns whether another one is to be had: it may be there
  /// already, or this one is old enough (or our clock has jumped since) to be replaced.
  mutating func refused(_ authorization: String, now: Date) -> Bool {
    guard let token, token.authorization == authorization else { return true }
    let age = now.timeIntervalSince(token.issuedAt)
    guard age >= limits.minimumAge || isFromOtherClock(token, now) else { return false }
    self.token = nil
    return true
  }

  private func isFromOtherClock(_ token: AccessToken, _ now: Date) -> Bool {
    token.issuedAt > now.addingTimeInterval(limits.tolerance)
  }
}

/// Why there is no token.
package enum TokenFailure: Error, Hashable, Sendable {
  /// The issuer could not be reached, or had an outage.
  case unreachable
  /// The caller's deadline passed first.
  case timeout
  /// The issuer refused us, or our key is unusable: mending it takes a person.
  case refused(Reason)
}
