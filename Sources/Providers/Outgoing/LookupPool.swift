internal import Dispatch
internal import Foundation
internal import Synchronization
internal import Timing

/// Too many names wait to be looked up.
package struct LookupsExhausted: Error {}

/// Asks blocking questions about names, on a handful of threads of its own that are there from the start.
///
/// Names come from strangers, and some name servers stall on purpose. So every caller has a time limit of its own, a
/// question that nobody waits for any more is not asked, callers with the same question share one answer, and each domain
/// has a share of the threads, as have all names together that have not answered well before.
package final class LookupPool<Question: Hashable & Sendable, Answer: Sendable>: Sendable {
  private let core: LookupCore<Question, Answer>

  /// Starts the threads.
  ///
  /// - Parameters:
  ///   - threads: how many questions are asked at a time.
  ///   - domainShare: how many of them about names of one domain.
  ///   - newShare: how many of them about names that have not answered well of late.
  ///   - name: what a question is about.
  ///   - isGood: whether an answer speaks for the name.
  ///   - ask: asks, and blocks.
  package init(
    threads: Int, domainShare: Int, newShare: Int, name: @escaping @Sendable (Question) -> String,
    isGood: @escaping @Sendable (Answer) -> Bool, ask: @escaping @Sendable (Question) -> Answer
  ) {
    core = LookupCore(
      queue: LookupQueue(limits: .init(threads: threads, perDomain: domainShare, perNew: newShare)),
      name: name)
    for number in 1...threads {
      let thread = Thread { [core] in core.work(ask, isGood) }
      thread.name = "lookup \(number)"
      thread.stackSize = 1 << 20
      thread.start()
    }
  }

  deinit {
    core.close()
  }

  /// The answer to a question.
  ///
  /// - Throws: `CancellationError` as soon as the task is cancelled, whatever the threads do; ``LookupsExhausted``.
  package func answer(to question: Question) async throws -> Answer {
    try await core.answer(to: question)
  }

  /// The answer to a question; nil if there is none so soon.
  package func answer(to question: Question, within limit: Duration) async -> Answer? {
    try? await withTimeout(limit) { try await self.core.answer(to: question) }
  }
}

/// What the threads and the callers share.
private final class LookupCore<Question: Hashable & Sendable, Answer: Sendable>: Sendable {
  private struct State: ~Copyable {
    var queue: LookupQueue<Question>
    var continuations: [LookupQueue<Question>.Waiter: CheckedContinuation<Answer, any Error>] = [:]
    var lastWaiter = 0
    var isClosed = false
  }

  private let state: Mutex<State>
  /// Raised whenever there may be something to do; once too often does no harm.
  private let news = DispatchSemaphore(value: 0)
  private let name: @Sendable (Question) -> String

  init(queue: LookupQueue<Question>, name: @escaping @Sendable (Question) -> String) {
    state = Mutex(State(queue: queue))
    self.name = name
  }

  func answer(to question: Question) async throws -> Answer {
    let waiter = state.withLock { state in
      state.lastWaiter += 1
      return state.lastWaiter
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let failure: (any Error)? = state.withLock { state in
          if Task.isCancelled { return CancellationError() }
          do {
            try state.queue.add(question, about: name(question), for: waiter)
            state.continuations[waiter] = continuation
            return nil
          } catch {
            return error
          }
        }
        if let failure { continuation.resume(throwing: failure) } else { news.signal() }
      }
    } onCancel: {
      let continuation = state.withLock { state in
        state.queue.leave(question, waiter)
        return state.continuations.removeValue(forKey: waiter)
      }
      continuation?.resume(throwing: CancellationError())
    }
  }

  /// What each thread does.
  func work(_ ask: @Sendable (Question) -> Answer, _ isGood: @Sendable (Answer) -> Bool) {
    while true {
      news.wait()
      while let question = state.withLock({ $0.isClosed ? nil : $0.queue.next() }) {
        let answer = ask(question)
        let waiters = state.withLock { state in
          state.queue.finish(question, isGood: isGood(answer)).compactMap {
            state.continuations.removeValue(forKey: $0)
          }
        }
        for waiter in waiters { waiter.resume(returning: answer) }
        // More than one that waits may be allowed now: another thread looks, too.
        news.signal()
      }
      if state.withLock({ $0.isClosed }) {
        // Each thread tells the next one.
        news.signal()
        return
      }
    }
  }

  func close() {
    state.withLock { $0.isClosed = true }
    news.signal()
  }
}
