import Foundation
import NIOCore
import Synchronization

/// One token for everybody who needs it: made once, kept, renewed in the background.
final class TokenSource: Sendable {
  typealias Answer = Result<AccessToken, TokenFailure>

  private struct State {
    var cache: TokenCache
    var waiters: [Int: CheckedContinuation<Answer, Never>] = [:]
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
    self.make = make
    self.now = now
    self.eventLoop = eventLoop
    self.state = Mutex(State(cache: TokenCache(limits: limits)))
  }

  /// The token, by the deadline.
  func token(deadline: NIODeadline) async -> Answer {
    let answer = state.withLock { $0.cache.token(now: now()) }
    if case .wait(let start) = answer { return await wait(start: start, deadline: deadline) }
    return settle(answer)
  }

  /// The provider refused the token with this header. Returns whether it is worth asking for another.
  func refused(_ authorization: String) -> Bool {
    state.withLock { $0.cache.refused(authorization, now: now()) }
  }

  private func settle(_ answer: TokenCache.Answer) -> Answer {
    switch answer {
    case .use(let token): return .success(token)
    case .useAndRenew(let token):
      renew()
      return .success(token)
    case .unavailable(let failure): return .failure(failure)
    case .wait: return .failure(.unreachable)
    }
  }

  private func wait(start: Bool, deadline: NIODeadline) async -> Answer {
    await withCheckedContinuation { continuation in
      var start = start
      let (answer, waiter) = state.withLock { state -> (TokenCache.Answer, Int) in
        // What others waited for a moment ago may be here by now.
        let answer = start ? .wait(start: true) : state.cache.token(now: now())
        guard case .wait(let mustStart) = answer else { return (answer, 0) }
        start = mustStart
        state.lastWaiter += 1
        state.waiters[state.lastWaiter] = continuation
        return (answer, state.lastWaiter)
      }
      guard case .wait = answer else { return continuation.resume(returning: settle(answer)) }
      eventLoop.scheduleTask(deadline: deadline) { [self] in
        state.withLock { $0.waiters.removeValue(forKey: waiter) }?.resume(returning: .failure(.timeout))
      }
      if start { renew() }
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
