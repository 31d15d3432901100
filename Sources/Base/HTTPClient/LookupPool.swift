import Basics
import Dispatch
import Foundation
import Synchronization

/// Too many names wait to be looked up.
package struct LookupsExhausted: Error {}

/// Looks up names on a few threads of its own, because a lookup blocks. They are started in advance.
///
/// Names come from outside, and some name servers stall on purpose. So every caller has its own time limit,
/// a name without callers is not looked up, callers of the same name share one answer, and the threads are
/// limited for each domain and for all names that have not resolved recently.
final class LookupPool: Sendable {
  /// How long to wait for a name that has resolved before.
  private static let knownTimeout = Duration.milliseconds(300)
  /// How long the lookup of such a name may go on in the background.
  private static let refreshTimeout = Duration.seconds(10)

  private struct State: ~Copyable {
    var queue: LookupQueue
    var continuations: [LookupQueue.Waiter: CheckedContinuation<[String], any Error>] = [:]
    var lastWaiter = 0
  }

  private let state: Mutex<State>
  /// A signal whenever a thread may find work; extra signals do no harm.
  private let workAvailable = DispatchSemaphore(value: 0)

  /// Starts the threads, which never end.
  ///
  /// - Parameter lookUp: looks up a name; blocks.
  init(limits: LookupQueue.Limits, lookUp: @escaping @Sendable (String) -> [String]) {
    state = Mutex(State(queue: LookupQueue(limits: limits)))
    for number in 1...limits.threads {
      let thread = Thread { [self] in work(lookUp) }
      thread.name = "lookup \(number)"
      thread.stackSize = 1 << 20
      thread.start()
    }
  }

  /// The addresses of a name.
  ///
  /// - Throws: `CancellationError` as soon as the task is cancelled, even while a thread is still looking;
  ///   ``LookupsExhausted``.
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
        if let failure { continuation.resume(throwing: failure) } else { workAvailable.signal() }
      }
    } onCancel: {
      let continuation = state.withLock { state in
        state.queue.remove(waiter, of: name)
        return state.continuations.removeValue(forKey: waiter)
      }
      continuation?.resume(throwing: CancellationError())
    }
  }

  /// The addresses of a name. Returns its previous addresses if the lookup takes too long, for example
  /// because dead hosts keep the threads busy.
  func presentOrFormerAddresses(of name: String) async throws -> [String] {
    guard let former = state.withLock({ $0.queue.formerAddresses(of: name) }) else {
      return try await addresses(of: name)
    }
    // Continues after the caller has returned, for a limited time, so that others get their turn.
    Task { try? await withTimeout(Self.refreshTimeout) { try await self.addresses(of: name) } }
    return (try? await withTimeout(Self.knownTimeout) { try await self.addresses(of: name) }) ?? former
  }

  private func work(_ lookUp: @Sendable (String) -> [String]) {
    while true {
      workAvailable.wait()
      while let name = state.withLock({ $0.queue.next() }) {
        let addresses = lookUp(name)
        let waiters = state.withLock { state in
          state.queue.finish(name, addresses).compactMap { state.continuations.removeValue(forKey: $0) }
        }
        for waiter in waiters { waiter.resume(returning: addresses) }
        // The limits may allow more names now, so another thread looks as well.
        workAvailable.signal()
      }
    }
  }
}

/// Decides which name is looked up next, and keeps the waiters and the names that have resolved.
struct LookupQueue: Sendable {
  struct Limits: Sendable {
    /// Concurrent lookups in all.
    var threads: Int
    /// Concurrent lookups of one domain.
    var perDomain: Int
    /// Concurrent lookups of names whose last lookup failed, or that were never looked up.
    var perNew: Int
    /// Names that wait to be looked up.
    var waiting = 1000
    /// Names remembered in each of two generations.
    var remembered = 10_000
  }

  /// A caller's number.
  typealias Waiter = Int

  private struct Lookup {
    let domain: Substring
    /// Whether the name's last lookup had failed, or there was none, when the first waiter came.
    let isNew: Bool
    /// Counts up, to keep names in order.
    let number: Int
    var waiters: Set<Waiter>
    var isRunning = false
  }

  private struct Known {
    /// The latest addresses. Kept when a later lookup finds none, since unreachable name servers look the
    /// same.
    var addresses: [String]
    /// Whether the latest lookup found addresses.
    var answers: Bool
  }

  private let limits: Limits
  private var lookups: [String: Lookup] = [:]
  /// Names that wait to be looked up, the oldest first. New names are apart, so that a thousand of them over
  /// their limit cost the known ones nothing.
  private var waitingKnown: [String] = []
  private var waitingNew: [String] = []
  private var lastNumber = 0
  /// Lookups under way, by domain.
  private var running: SharedBudget<Substring>
  private var runningNew = 0
  /// Names that have resolved: the recent and the previous generation.
  private var known: [String: Known] = [:]
  private var formerlyKnown: [String: Known] = [:]

  /// Names that wait to be looked up: known ones first, the oldest first among each.
  var waiting: [String] { waitingKnown + waitingNew }

  var remembered: Int { known.count + formerlyKnown.count }

  init(limits: Limits) {
    self.limits = limits
    running = SharedBudget(limits.threads, most: limits.perDomain)
  }

  /// The addresses from the name's last successful lookup; nil if there was none.
  func formerAddresses(of name: String) -> [String]? { (known[name] ?? formerlyKnown[name])?.addresses }

  /// Queues a name, or adds the waiter to those of a queued name.
  mutating func add(_ name: String, for waiter: Waiter) throws(LookupsExhausted) {
    if lookups[name]?.waiters.insert(waiter) != nil { return }
    guard waitingKnown.count + waitingNew.count < limits.waiting else { throw LookupsExhausted() }
    let isNew = (known[name] ?? formerlyKnown[name])?.answers != true
    lastNumber += 1
    lookups[name] = Lookup(
      domain: Self.domain(of: name), isNew: isNew, number: lastNumber, waiters: [waiter])
    if isNew { waitingNew.append(name) } else { waitingKnown.append(name) }
  }

  /// Removes a waiter. Drops the name if nobody else waits and its lookup has not begun.
  mutating func remove(_ waiter: Waiter, of name: String) {
    guard lookups[name]?.waiters.remove(waiter) != nil, let lookup = lookups[name] else { return }
    guard lookup.waiters.isEmpty, !lookup.isRunning else { return }
    lookups[name] = nil
    if lookup.isNew { waitingNew.removeAll { $0 == name } } else { waitingKnown.removeAll { $0 == name } }
  }

  /// The next name to look up; nil if none waits or the limits allow none.
  mutating func next() -> String? {
    guard running.refusal(to: nil) == nil else { return nil }
    let known = first(of: waitingKnown)
    let new = runningNew < limits.perNew ? first(of: waitingNew) : nil
    guard let next = [known, new].compactMap(\.self).min(by: { $0.lookup.number < $1.lookup.number }) else {
      return nil
    }
    let name = next.lookup.isNew ? waitingNew.remove(at: next.index) : waitingKnown.remove(at: next.index)
    running.add(of: next.lookup.domain)
    if next.lookup.isNew { runningNew += 1 }
    lookups[name]?.isRunning = true
    return name
  }

  /// The oldest name whose domain is below its limit.
  private func first(of waiting: [String]) -> (index: Int, lookup: Lookup)? {
    for (index, name) in waiting.enumerated() {
      if let lookup = lookups[name], running.refusal(to: lookup.domain) == nil {
        return (index, lookup)
      }
    }
    return nil
  }

  /// Stores the result of a lookup and returns the waiters for it.
  mutating func finish(_ name: String, _ addresses: [String]) -> Set<Waiter> {
    guard let lookup = lookups[name], lookup.isRunning else { return [] }
    lookups[name] = nil
    running.release(of: lookup.domain)
    if lookup.isNew { runningNew -= 1 }
    if addresses.isEmpty {
      known[name]?.answers = false
      formerlyKnown[name]?.answers = false
    } else {
      if known.count >= limits.remembered {
        formerlyKnown = known
        known = [:]
      }
      known[name] = Known(addresses: addresses, answers: true)
    }
    return lookup.waiters
  }

  /// The registered domain of a name: its last two labels, or three if the last two are a shared suffix.
  ///
  /// A rule approximates the public suffix list: a second label of two letters (`co.uk`, `ne.jp`, `uk.com`), or a usual
  /// one under a country (`com.au`), makes a shared suffix. An owner of such a domain gets a share for each name below
  /// it, which is no more than registering more domains would give.
  private static func domain(of name: String) -> Substring {
    let dots = name.utf8.indices.filter { name.utf8[$0] == UInt8(ascii: ".") }
    guard dots.count >= 2 else { return name[...] }
    let last = dots[dots.count - 1]
    let second = dots[dots.count - 2]
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
  /// Second labels under which countries register names.
  static let labels = Set(
    [
      "asso", "biz", "com", "edu", "firm", "gen", "gob", "gov", "gouv", "govt", "idf", "ind", "info", "ltd",
      "med", "mil",
      "muni", "name", "net", "nhs", "nom", "org", "plc", "pro", "res", "sch", "school", "store", "web",
    ].map { Array($0.utf8) })
}
