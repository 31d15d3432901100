import Foundation
import Providers
import Registrations
import Synchronization
import Timing

/// Tries whose answers come after whoever waited for them has gone on. There are no more of them than requests may
/// be under way at the providers.
extension Deliverer {
  /// A try that is at its provider.
  struct LateTry: Sendable {
    let delivery: RegisteredPush
    let routeSender: RouteSender
    /// Before it was sent.
    let began: Date
    let answer: @Sendable () async -> Outcome
  }

  /// How a try for the outbox ended.
  enum OutboxTry: Sendable {
    /// It is done, well or badly.
    case done
    case leftover(Leftover)
    /// Its answer settles the entry.
    case underWay
  }

  /// How long an entry belongs to its try, in seconds: longer than an answer is waited for, by what it takes to begin
  /// and to write down the end.
  var lease: TimeInterval { providers.answerPatience / .seconds(1) + 15 }

  /// Tries each entry of the outbox's `route` once. One that no credential serves any more was promised all the
  /// same: the key may come back.
  ///
  /// - Parameter late: is told of each that was under way, when its entry is settled, what is left.
  func attempt(
    _ entries: [Outbox.Entry], on route: Route, within timeout: Duration,
    late: @escaping @Sendable (Outbox.Entry, Leftover?) -> Void
  ) async -> [OutboxTry] {
    let began = now()
    let endings = await send(entries.map(\.delivery), since: began, within: timeout, backoff: nil)
    let tries = zip(entries, endings).map { entry, ending -> OutboxTry in
      switch ending {
      case .result(.unconfigured):
        return .leftover(Leftover(route: route, notBefore: nil, scope: .route))
      case .delivered, .result, .ended, .held:
        return .done
      case .leftover(let leftover):
        return .leftover(leftover)
      case .underWay(let routeSender, let answer):
        if let answer {
          settle(
            LateTry(delivery: entry.delivery, routeSender: routeSender, began: began, answer: answer),
            under: entry.lease
          ) { late(entry, $0) }
        }
        return .underWay
      }
    }
    var results = endings.map(\.result)
    await keepBooks(of: entries.map(\.delivery), endings, &results)
    return tries
  }

  /// When to try again what is left after so many tries.
  func dueAt(_ leftover: Leftover, after attempts: Int) -> Date {
    leftover.backoff.next(
      after: attempts, now: now(), notBefore: leftover.notBefore, random: .random(in: 0...1))
  }

  /// What becomes of an entry that is left after so many tries. What its token waits for, others of it wait for, too.
  func fate(of leftover: Leftover, _ delivery: RegisteredPush, after attempts: Int) -> Outbox.Fate {
    let date = dueAt(leftover, after: attempts)
    return leftover.scope == .token ? .pause(delivery.registration.id, until: date) : .retry(at: date)
  }

  /// Why the provider refuses the token of a delivery of late; nil: it does not.
  func trouble(of delivery: RegisteredPush) -> Reason? {
    providers.routeSender(for: delivery.push)?.trouble(of: delivery.push)
  }

  /// Does what the answer asks for when it has come, however long that takes; nobody can cancel it.
  ///
  /// - Parameter lease: nil if there is no entry, because it could not be kept and nothing was promised.
  func settle(
    _ late: LateTry, under lease: Outbox.Lease?, then ended: (@Sendable (Leftover?) -> Void)? = nil
  ) {
    lateAnswers.begin()
    Task {
      let outcome = await late.answer()
      var left: Leftover?
      var fate: Outbox.Fate?
      let ending = judge(outcome, of: late.delivery, over: late.routeSender, since: late.began)
      switch ending {
      case .delivered, .result, .ended, .held:
        var results = [ending.result]
        await keepBooks(of: [late.delivery], [ending], &results)
        fate = .remove
      case .leftover(let leftover):
        left = leftover
        fate = self.fate(of: leftover, late.delivery, after: lease?.attempts ?? 1)
      case .underWay:
        // Nobody knows: the lease outlives whatever may become of it.
        break
      }
      if let lease, let fate {
        // What cannot be written now is kept in mind by the outbox.
        try? await outbox.settle([(lease, fate)])
      }
      ended?(left)
      lateAnswers.end()
    }
  }

  /// How many answers are still to come after whoever waited for them has gone on.
  package var lateAnswerCount: Int { lateAnswers.count }

  /// Returns when none of those is left.
  package func settled() async {
    await lateAnswers.none()
  }
}

/// Counts answers that are still to come.
final class LateAnswers: Sendable {
  private let state = Mutex<(count: Int, waiting: [CheckedContinuation<Void, Never>])>((0, []))

  var count: Int { state.withLock { $0.count } }

  func begin() {
    state.withLock { $0.count += 1 }
  }

  func end() {
    let waiting = state.withLock { state in
      state.count -= 1
      guard state.count == 0 else { return [CheckedContinuation<Void, Never>]() }
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  func none() async {
    await withCheckedContinuation { continuation in
      let isNone = state.withLock { state in
        if state.count > 0 { state.waiting.append(continuation) }
        return state.count == 0
      }
      if isNone { continuation.resume() }
    }
  }
}
