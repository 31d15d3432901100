package import Foundation
import Providers
import Registrations
package import SQL
import Synchronization
import Timing

/// What has become of notifications, counted by the hour, and when each registration last got one.
///
/// All of it is noted in memory and written down together, successes within seconds and counts about once a minute: a
/// notification costs neither a write nor a wait. These are statistics: a process that is killed takes the last minute
/// of them along.
package final class History: Sendable {
  /// What is counted. There are as many as there are routes, reasons, keys and active chat servers. All push services
  /// are one route (``Route/counted``).
  enum Event: Hashable {
    case accepted(Route, bucket: Int)
    case refused(Route, Reason)
    case postponed(Route, Reason)
    case givenUp(Route)
    /// No credential serves it.
    case unconfigured(Route.Provider)
    case sent(server: Int64)
    case failed(server: Int64)
    case registered(key: String)
  }

  /// How much is held in memory at most: what is beyond that is not counted.
  struct Limits {
    /// Counts that could not be written yet.
    var counts = 100_000
    /// Registrations whose success is to be written the next time.
    var successes = 100_000
    /// Registrations whose success of today is known to be written.
    var known = 250_000
  }

  private struct State {
    var counts: [Event: Int64] = [:]
    /// Counts of hours in which they could not be written.
    var unwritten: [HourlyCounts.Key: Int64] = [:]
    var successes: [Success] = []
    /// Those of `day` that need not be written again.
    var known: Set<RegistrationReference> = []
    var day: Int64 = 0
  }

  private struct Success {
    let registration: RegistrationReference
    let at: Int64
  }

  /// For so long an operator who looks at a device does not see that it was reached.
  private static let pause = Duration.seconds(2)

  private let database: any Database
  private let limits: Limits
  private let now: @Sendable () -> Date
  private let state = Mutex(State())

  package convenience init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.init(database: database, limits: Limits(), now: now)
  }

  init(database: any Database, limits: Limits, now: @escaping @Sendable () -> Date) {
    (self.database, self.limits, self.now) = (database, limits, now)
  }

  // MARK: Noting

  /// A try has ended.
  ///
  /// - Parameter began: when its notification came.
  func tried(_ outcome: Outcome, of registration: RegistrationReference, on route: Route, since began: Date) {
    let route = route.counted
    switch outcome {
    case .delivered:
      let now = now()
      count(.accepted(route, bucket: Latency.bucket(of: now.timeIntervalSince(began))))
      note(Success(registration: registration, at: now.milliseconds))
    case .dead(let reason, _), .suspect(let reason), .rejected(let reason): count(.refused(route, reason))
    case .retry(_, _, .process): break
    case .retry(let reason, _, _), .misconfigured(let reason): count(.postponed(route, reason))
    }
  }

  private func note(_ success: Success) {
    let day = success.at / 86_400_000
    state.withLock { state in
      if day != state.day {
        state.known.removeAll(keepingCapacity: true)
        state.day = day
      }
      guard state.successes.count < limits.successes, state.known.insert(success.registration).inserted
      else { return }
      state.successes.append(success)
      // Those that are forgotten here are looked at again by the database, which writes none twice.
      if state.known.count >= limits.known { state.known.removeAll(keepingCapacity: true) }
    }
  }

  /// A failure of this registration is written down: its next success is worth a write.
  func failed(_ registration: RegistrationReference) {
    state.withLock { _ = $0.known.remove(registration) }
  }

  func count(_ event: Event, _ count: Int = 1) {
    state.withLock { $0.counts[event, default: 0] += Int64(count) }
  }

  /// A chat server has handed in notifications, some of which were refused at once.
  package func took(_ notifications: [DeliveryResult], of server: Int64) {
    guard !notifications.isEmpty else { return }
    let failures = notifications.count { result in
      switch result {
      case .delivered, .queued: false
      case .ended, .refused, .unconfigured: true
      }
    }
    count(.sent(server: server), notifications.count)
    if failures > 0 { count(.failed(server: server), failures) }
  }

  /// A phone has registered with this bouncer key, one of ours.
  package func registered(key: String) { count(.registered(key: key)) }

  // MARK: Writing

  /// Writes down what has been noted. What could not be written is kept for the next time.
  package func flush() async throws {
    try await flushCounts()
    try await flushSuccesses()
  }

  private func flushCounts() async throws {
    let hour = HourlyCounts.hour(of: now())
    let counts = state.withLock { state in
      for (event, count) in state.counts {
        let key = HourlyCounts.Key(event, hour: hour)
        guard state.unwritten[key] != nil || state.unwritten.count < limits.counts else { continue }
        state.unwritten[key, default: 0] += count
      }
      defer { (state.counts, state.unwritten) = ([:], [:]) }
      return state.unwritten
    }
    // In one order on all nodes: none waits for a row of another that waits for one of its own.
    try await write(counts.sorted { $0.key < $1.key }, as: { $0.key.addition(of: $0.value) }) { state, rest in
      for (key, count) in rest { state.unwritten[key, default: 0] += count }
    }
  }

  private func flushSuccesses() async throws {
    let successes = state.withLock { state in
      defer { state.successes = [] }
      return state.successes
    }
    try await write(successes, as: Self.statement) { [limits] state, rest in
      state.successes.insert(
        contentsOf: rest.prefix(max(0, limits.successes - state.successes.count)), at: 0)
    }
  }

  /// Writes in short transactions, for which nobody waits long.
  ///
  /// - Parameter keep: puts back what could not be written.
  private func write<Item>(
    _ items: [Item], as statement: (Item) -> Statement, orKeep keep: (inout State, ArraySlice<Item>) -> Void
  ) async throws {
    var rest = items[...]
    do {
      while !rest.isEmpty {
        let statements = rest.prefix(500).map(statement)
        try await database.write { connection in
          for statement in statements { try connection.run(statement) }
        }
        rest = rest.dropFirst(statements.count)
      }
    } catch {
      state.withLock { keep(&$0, rest) }
      throw error
    }
  }

  /// Writes nothing where there is a success of the same day that no failure came after.
  private static func statement(for success: Success) -> Statement {
    Statement(
      """
      UPDATE registrations SET delivered_at = $3
      WHERE id = $1 AND registered_at = $2
        AND (delivered_at IS NULL OR delivered_at < $4 OR delivered_at <= failed_at)
      """,
      .integer(success.registration.id), .integer(success.registration.registeredAt.milliseconds),
      .integer(success.at), .integer(success.at - success.at % 86_400_000))
  }

  /// Flushes every `interval`, and successes sooner, until the task is cancelled, and once more then. A failure is only
  /// reported: all is noted on.
  package func run(
    every interval: Duration = .seconds(60), onFailure: @Sendable (any Error) -> Void = { _ in }
  ) async {
    func flushOrReport() async {
      do { try await flush() } catch { onFailure(error) }
    }
    var next = ContinuousClock.now
    await every(min(interval, Self.pause)) {
      if ContinuousClock.now >= next {
        next = .now + interval
        await flushOrReport()
      } else {
        // What cannot be written now is reported with the rest.
        try? await flushSuccesses()
      }
    }
    await flushOrReport()
  }
}
