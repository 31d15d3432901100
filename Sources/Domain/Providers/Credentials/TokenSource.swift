import Basics
package import Foundation
import NIOCore
import Synchronization

/// A token that is shared by all requests: made once, kept, and renewed in the background.
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

  /// - Parameter make: makes or fetches a token; must return by itself, within seconds.
  init(
    limits: TokenCache.Limits = .init(), eventLoop: any EventLoop, now: @escaping @Sendable () -> Date,
    make: @escaping @Sendable () async -> Answer
  ) {
    self.make = make
    self.now = now
    self.eventLoop = eventLoop
    state = Mutex(State(cache: TokenCache(limits: limits)))
  }

  /// The token, or a failure at the deadline.
  func token(deadline: NIODeadline) async -> Answer {
    while true {
      if let answer = present() { return answer }
      if let answer = await renewal(deadline: deadline) { return answer }
    }
  }

  /// What ``token(deadline:)`` returns without waiting; nil while there is a renewal to wait for, which it starts.
  // Not inlined: it would add to the memory of its caller's task (`Documentation/Decisions` 0023).
  @inline(never) func present() -> Answer? {
    switch state.withLock({ $0.cache.token(now: now()) }) {
    case .use(let token): return .success(token)
    case .useAndRenew(let token):
      renew()
      return .success(token)
    case .unavailable(let failure): return .failure(failure)
    case .wait(let start):
      if start { renew() }
      return nil
    }
  }

  /// The provider refused the token with this header.
  ///
  /// - Returns: whether another token can be had.
  func refused(_ authorization: String) -> Bool {
    state.withLock { $0.cache.refused(authorization, now: now()) }
  }

  /// The result of the renewal under way; nil if none is under way.
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
        state.withLock { $0.waiters.removeValue(forKey: waiter) }?.resume(
          returning: .failure(.unavailable(.signInTimeout)))
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

/// A token that authenticates us to a provider: APNs' provider token, a VAPID token or an OAuth access token.
package struct AccessToken: Sendable, Hashable {
  /// The `authorization` header, as `bearer ...`.
  let authorization: String
  let issuedAt: Date
  /// When to renew it; it is still used meanwhile.
  let renewAt: Date
  /// When to stop using it.
  let expiresAt: Date

  package init(authorization: String, issuedAt: Date, renewAt: Date, expiresAt: Date) {
    self.authorization = authorization
    self.issuedAt = issuedAt
    self.renewAt = renewAt
    self.expiresAt = expiresAt
  }
}

/// Decides when to renew a token and which callers wait, without I/O.
///
/// There is one renewal at a time. The old token is used while a renewal runs or fails. After a failure the
/// next attempt waits, longer each time, and callers do not wait for it.
struct TokenCache {
  struct Limits: Sendable {
    /// A younger token is not replaced, even if the provider refuses it: Apple allows a new token every 20
    /// minutes. In seconds.
    var minimumAge: TimeInterval = 0
    /// A token issued more than this after now, in seconds, was made before the clock was put back.
    var tolerance: TimeInterval = 60
    /// Pauses after failed attempts.
    let backoff = Backoff(first: 1, longest: 60, shares: 1...1)
  }

  enum Decision: Equatable {
    case use(AccessToken)
    /// Use this one and start a renewal.
    case useAndRenew(AccessToken)
    /// Wait for the renewal; start it first if `start` is true.
    case wait(start: Bool)
    /// The latest attempt failed, and the pause after it is not over.
    case unavailable(TokenFailure)
  }

  let limits: Limits
  private var token: AccessToken?
  private(set) var isRenewing = false
  private var failures = 0
  private var lastFailure = TokenFailure.unavailable(.tokenUnavailable)
  private var noAttemptBefore = Date.distantPast

  init(limits: Limits = Limits()) {
    self.limits = limits
  }

  mutating func token(now: Date) -> Decision {
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

  /// The provider refused this token.
  ///
  /// - Returns: whether another token can be had: a newer one exists already, or this one is old enough to be replaced (or
  ///   was made before the clock was put back).
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

package enum TokenFailure: Error, Hashable, Sendable {
  /// The issuer could not be reached, had an outage, or did not answer by the caller's deadline.
  case unavailable(Reason)
  /// The issuer refused us, or our key is unusable. The operator has to fix it.
  case refused(Reason)
}
