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

/// Which question about a name is asked next, and who waits for its answer.
struct LookupQueue<Question: Hashable & Sendable>: Sendable {
  struct Limits: Sendable {
    /// Questions that are asked at a time,
    var threads: Int
    /// of them about names of one domain,
    var perDomain: Int
    /// and about names that have not answered well of late.
    var perNew: Int
    /// Questions that wait to be asked.
    var waiting = 1000
    /// Names that are remembered to have answered well, twice over.
    var remembered = 2000
  }

  /// Someone who waits.
  typealias Waiter = Int

  private struct Lookup {
    let name: String
    let domain: Substring
    /// Whether the name had not answered well of late when the question came.
    let isNew: Bool
    /// The order in which questions came.
    let number: Int
    var waiters: Set<Waiter>
    var isRunning = false
  }

  private let limits: Limits
  private var lookups: [Question: Lookup] = [:]
  /// Those that are not being asked, the oldest first. New names apart: where as many of them are asked as may, a
  /// thousand more that wait cost the others nothing.
  private var waitingKnown: [Question] = []
  private var waitingNew: [Question] = []
  private var lastNumber = 0
  private var running = 0
  private var runningNew = 0
  private var runningByDomain: [Substring: Int] = [:]
  /// Names that have answered well: lately, and before that.
  private var good: Set<String> = []
  private var formerlyGood: Set<String> = []

  /// Those that are not being asked: of names that have answered well first, the oldest of each first.
  var waiting: [Question] { waitingKnown + waitingNew }

  /// How many names are remembered.
  var remembered: Int { good.count + formerlyGood.count }

  init(limits: Limits) {
    self.limits = limits
  }

  /// Takes a question, or joins those who wait for its answer already.
  mutating func add(_ question: Question, about name: String, for waiter: Waiter) throws(LookupsExhausted) {
    if lookups[question]?.waiters.insert(waiter) != nil { return }
    guard waitingKnown.count + waitingNew.count < limits.waiting else { throw LookupsExhausted() }
    let isNew = !good.contains(name) && !formerlyGood.contains(name)
    lastNumber += 1
    lookups[question] = Lookup(
      name: name, domain: Self.domain(of: name), isNew: isNew, number: lastNumber, waiters: [waiter])
    if isNew { waitingNew.append(question) } else { waitingKnown.append(question) }
  }

  /// Somebody waits no longer. What nobody waits for and is not being asked yet never is.
  mutating func leave(_ question: Question, _ waiter: Waiter) {
    guard lookups[question]?.waiters.remove(waiter) != nil, let lookup = lookups[question] else { return }
    guard lookup.waiters.isEmpty, !lookup.isRunning else { return }
    lookups[question] = nil
    if lookup.isNew {
      waitingNew.removeAll { $0 == question }
    } else {
      waitingKnown.removeAll { $0 == question }
    }
  }

  /// The next question to ask, if one may be asked now.
  mutating func next() -> Question? {
    guard running < limits.threads else { return nil }
    let known = first(of: waitingKnown)
    let new = runningNew < limits.perNew ? first(of: waitingNew) : nil
    guard let next = [known, new].compactMap(\.self).min(by: { $0.lookup.number < $1.lookup.number }) else {
      return nil
    }
    let question: Question
    if next.lookup.isNew {
      question = waitingNew.remove(at: next.index)
      runningNew += 1
    } else {
      question = waitingKnown.remove(at: next.index)
    }
    running += 1
    runningByDomain[next.lookup.domain, default: 0] += 1
    lookups[question]?.isRunning = true
    return question
  }

  /// The oldest of these whose domain has room.
  private func first(of waiting: [Question]) -> (index: Int, lookup: Lookup)? {
    for (index, question) in waiting.enumerated() {
      if let lookup = lookups[question], runningByDomain[lookup.domain, default: 0] < limits.perDomain {
        return (index, lookup)
      }
    }
    return nil
  }

  /// A question has its answer.
  ///
  /// - Returns: who waits for it.
  mutating func finish(_ question: Question, isGood: Bool) -> Set<Waiter> {
    guard let lookup = lookups[question], lookup.isRunning else { return [] }
    lookups[question] = nil
    running -= 1
    if lookup.isNew { runningNew -= 1 }
    let others = runningByDomain[lookup.domain, default: 1] - 1
    runningByDomain[lookup.domain] = others > 0 ? others : nil
    remember(lookup.name, isGood: isGood)
    return lookup.waiters
  }

  private mutating func remember(_ name: String, isGood: Bool) {
    guard isGood else {
      good.remove(name)
      formerlyGood.remove(name)
      return
    }
    if good.count >= limits.remembered { (formerlyGood, good) = (good, []) }
    good.insert(name)
  }

  /// What a name's owner is known by: its last two labels, or three where the last two are what many register under.
  ///
  /// Of the public suffix list this is what a rule can say: a second label of two letters (`co.uk`, `ne.jp`, `uk.com`), or
  /// one of the usual names under a country (`com.au`). Whoever has a domain of such a shape gets a share for each name
  /// below it, which three domains of another shape would give as well.
  private static func domain(of name: String) -> Substring {
    let dots = name.utf8.indices.filter { name.utf8[$0] == UInt8(ascii: ".") }
    guard dots.count >= 2 else { return name[...] }
    let (last, second) = (dots[dots.count - 1], dots[dots.count - 2])
    let domain = name[name.utf8.index(after: second)...]
    let label = name[name.utf8.index(after: second)..<last]
    let isOfCountry = name.utf8.distance(from: last, to: name.utf8.endIndex) == 3
    guard label.utf8.count == 2 || (isOfCountry && SharedSuffixes.labels.contains(Array(label.utf8))) else {
      return domain
    }
    return dots.count == 2 ? name[...] : name[name.utf8.index(after: dots[dots.count - 3])...]
  }
}

private enum SharedSuffixes {
  /// Second labels that countries give out names under.
  static let labels = Set(
    [
      "asso", "biz", "com", "edu", "firm", "gen", "gob", "gov", "gouv", "govt", "idf", "ind", "info", "ltd",
      "med", "mil",
      "muni", "name", "net", "nhs", "nom", "org", "plc", "pro", "res", "sch", "school", "store", "web",
    ].map { Array($0.utf8) })
}
