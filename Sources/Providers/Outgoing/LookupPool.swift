internal import Dispatch
internal import Foundation
internal import Synchronization
internal import Timing

/// Too many names wait to be looked up.
package struct LookupsExhausted: Error {}

/// Looks names up, which blocks, on a handful of threads of its own that are there from the start.
///
/// Names come from strangers, and some name servers stall on purpose. So every caller has a time limit of its own, a
/// name that nobody waits for any more is not looked up, callers with the same name share one answer, and each domain
/// has a share of the threads, as have all names together that have not answered well before.
final class LookupPool: Sendable {
  /// How long is waited for a name that has answered before.
  private static let knownTimeout = Duration.milliseconds(300)
  /// How long such a name may take to answer for the next time.
  private static let refreshTimeout = Duration.seconds(10)

  private struct State: ~Copyable {
    var queue: LookupQueue
    var continuations: [LookupQueue.Waiter: CheckedContinuation<[String], any Error>] = [:]
    var lastWaiter = 0
  }

  private let state: Mutex<State>
  /// Raised whenever there may be something to do; once too often does no harm.
  private let news = DispatchSemaphore(value: 0)

  /// Starts the threads, which never end.
  ///
  /// - Parameter ask: looks a name up, and blocks.
  init(limits: LookupQueue.Limits, ask: @escaping @Sendable (String) -> [String]) {
    state = Mutex(State(queue: LookupQueue(limits: limits)))
    for number in 1...limits.threads {
      let thread = Thread { [self] in work(ask) }
      thread.name = "lookup \(number)"
      thread.stackSize = 1 << 20
      thread.start()
    }
  }

  /// The addresses of a name.
  ///
  /// - Throws: `CancellationError` as soon as the task is cancelled, whatever the threads do; ``LookupsExhausted``.
  func addresses(of name: String) async throws -> [String] {
    let waiter = state.withLock { state in
      state.lastWaiter += 1
      return state.lastWaiter
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let failure: (any Error)? = state.withLock { state in
          if Task.isCancelled { return CancellationError() }
          do {
            try state.queue.add(name, for: waiter)
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
        state.queue.leave(name, waiter)
        return state.continuations.removeValue(forKey: waiter)
      }
      continuation?.resume(throwing: CancellationError())
    }
  }

  /// The addresses of a name; those that it had when it last answered where it does not answer at once, as many dead
  /// hosts may keep the threads busy.
  func presentOrFormerAddresses(of name: String) async throws -> [String] {
    guard let former = state.withLock({ $0.queue.formerAddresses(of: name) }) else {
      return try await addresses(of: name)
    }
    // Goes on when nobody waits any more; not for long, as others want to ask, too.
    Task { try? await withTimeout(Self.refreshTimeout) { try await self.addresses(of: name) } }
    return (try? await withTimeout(Self.knownTimeout) { try await self.addresses(of: name) }) ?? former
  }

  /// What each thread does.
  private func work(_ ask: @Sendable (String) -> [String]) {
    while true {
      news.wait()
      while let name = state.withLock({ $0.queue.next() }) {
        let addresses = ask(name)
        let waiters = state.withLock { state in
          state.queue.finish(name, addresses).compactMap { state.continuations.removeValue(forKey: $0) }
        }
        for waiter in waiters { waiter.resume(returning: addresses) }
        // More than one that waits may be allowed now: another thread looks, too.
        news.signal()
      }
    }
  }
}

/// Which name is looked up next, who waits for its answer, and what names have answered.
struct LookupQueue: Sendable {
  struct Limits: Sendable {
    /// Names that are looked up at a time,
    var threads: Int
    /// of them those of one domain,
    var perDomain: Int
    /// and those that have not answered well of late.
    var perNew: Int
    /// Names that wait to be looked up.
    var waiting = 1000
    /// Names whose answers are remembered, twice over.
    var remembered = 10_000
  }

  /// Someone who waits.
  typealias Waiter = Int

  private struct Lookup {
    let domain: Substring
    /// Whether the name had not answered well of late when the first waiter came.
    let isNew: Bool
    /// The order in which names came.
    let number: Int
    var waiters: Set<Waiter>
    var isRunning = false
  }

  private struct Known {
    /// Its latest addresses. That it has none is not kept: name servers that are away look like that, too.
    var addresses: [String]
    /// Its latest lookup has found some.
    var answers: Bool
  }

  private let limits: Limits
  private var lookups: [String: Lookup] = [:]
  /// Those that are not being looked up, the oldest first. New names apart: where as many of them are looked up as may, a
  /// thousand more that wait cost the others nothing.
  private var waitingKnown: [String] = []
  private var waitingNew: [String] = []
  private var lastNumber = 0
  private var running = 0
  private var runningNew = 0
  private var runningByDomain: [Substring: Int] = [:]
  /// Names that have answered: lately, and before that.
  private var known: [String: Known] = [:]
  private var formerlyKnown: [String: Known] = [:]

  /// Those that are not being looked up: names that have answered well first, the oldest of each first.
  var waiting: [String] { waitingKnown + waitingNew }

  /// How many names are remembered.
  var remembered: Int { known.count + formerlyKnown.count }

  init(limits: Limits) {
    self.limits = limits
  }

  /// The addresses that a name had when it last answered; nil for one that has not.
  func formerAddresses(of name: String) -> [String]? { (known[name] ?? formerlyKnown[name])?.addresses }

  /// Takes a name, or joins those who wait for it already.
  mutating func add(_ name: String, for waiter: Waiter) throws(LookupsExhausted) {
    if lookups[name]?.waiters.insert(waiter) != nil { return }
    guard waitingKnown.count + waitingNew.count < limits.waiting else { throw LookupsExhausted() }
    let isNew = (known[name] ?? formerlyKnown[name])?.answers != true
    lastNumber += 1
    lookups[name] = Lookup(
      domain: Self.domain(of: name), isNew: isNew, number: lastNumber, waiters: [waiter])
    if isNew { waitingNew.append(name) } else { waitingKnown.append(name) }
  }

  /// Somebody waits no longer. What nobody waits for and is not being looked up yet never is.
  mutating func leave(_ name: String, _ waiter: Waiter) {
    guard lookups[name]?.waiters.remove(waiter) != nil, let lookup = lookups[name] else { return }
    guard lookup.waiters.isEmpty, !lookup.isRunning else { return }
    lookups[name] = nil
    if lookup.isNew { waitingNew.removeAll { $0 == name } } else { waitingKnown.removeAll { $0 == name } }
  }

  /// The next name to look up, if one may be now.
  mutating func next() -> String? {
    guard running < limits.threads else { return nil }
    let known = first(of: waitingKnown)
    let new = runningNew < limits.perNew ? first(of: waitingNew) : nil
    guard let next = [known, new].compactMap(\.self).min(by: { $0.lookup.number < $1.lookup.number }) else {
      return nil
    }
    let name = next.lookup.isNew ? waitingNew.remove(at: next.index) : waitingKnown.remove(at: next.index)
    running += 1
    if next.lookup.isNew { runningNew += 1 }
    runningByDomain[next.lookup.domain, default: 0] += 1
    lookups[name]?.isRunning = true
    return name
  }

  /// The oldest of these whose domain has room.
  private func first(of waiting: [String]) -> (index: Int, lookup: Lookup)? {
    for (index, name) in waiting.enumerated() {
      if let lookup = lookups[name], runningByDomain[lookup.domain, default: 0] < limits.perDomain {
        return (index, lookup)
      }
    }
    return nil
  }

  /// A name has been looked up.
  ///
  /// - Returns: who waits for it.
  mutating func finish(_ name: String, _ addresses: [String]) -> Set<Waiter> {
    guard let lookup = lookups[name], lookup.isRunning else { return [] }
    lookups[name] = nil
    running -= 1
    if lookup.isNew { runningNew -= 1 }
    let others = runningByDomain[lookup.domain, default: 1] - 1
    runningByDomain[lookup.domain] = others > 0 ? others : nil
    if addresses.isEmpty {
      known[name]?.answers = false
      formerlyKnown[name]?.answers = false
    } else {
      if known.count >= limits.remembered { (formerlyKnown, known) = (known, [:]) }
      known[name] = Known(addresses: addresses, answers: true)
    }
    return lookup.waiters
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
