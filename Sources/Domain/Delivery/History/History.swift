import Basics
package import Foundation
import Providers
import Registrations
package import SQL
import Synchronization

/// Statistics: results of notifications counted by the hour, and the time of each registration's last
/// success.
///
/// Both are collected in memory and written in batches, successes within seconds and counts about once a
/// minute, so that a notification costs neither a write nor a wait. A killed process loses its last minute of
/// statistics.
package final class History: Sendable {
  /// The events that are counted. The number of distinct events is bounded by the routes, reasons, keys and active chat
  /// servers. All push services are one route (``Route/counted``).
  enum Event: Hashable {
    case accepted(Route, bucket: Int)
    case refused(Route, Reason)
    case postponed(Route, Reason)
    case givenUp(Route)
    /// No credential serves the topic or project.
    case unconfigured(Route.Provider)
    case sent(server: Int64)
    case failed(server: Int64)
    case registered(key: String)
    case registrationRefused(server: Int64, RegistrationRefusal)
  }

  /// Limits of what is held in memory; anything beyond is not counted.
  struct Limits {
    /// Counts that could not be written yet.
    var counts = 100_000
    /// Registrations whose success is to be written next.
    var successes = 100_000
    /// Registrations whose success of today is known to be in the database.
    var known = 250_000
  }

  private struct State {
    var counts: [Event: Int64] = [:]
    /// Counts whose hour ended before they could be written.
    var unwritten: [HourlyCounts.Key: Int64] = [:]
    var successes: [Success] = []
    /// Registrations whose success of `day` is already written.
    var known: Set<RegistrationReference> = []
    var day: Int64 = 0
  }

  private struct Success {
    let registration: RegistrationReference
    let at: Int64
  }

  /// Pause between writes of successes: how late an operator sees that a device was reached.
  private static let pause = Duration.seconds(2)

  private let database: any Database
  private let limits: Limits
  private let now: @Sendable () -> Date
  private let state = Mutex(State())

  package convenience init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.init(database: database, limits: Limits(), now: now)
  }

  init(database: any Database, limits: Limits, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.limits = limits
    self.now = now
  }

  // MARK: Collecting

  /// Counts the result of a try.
  ///
  /// - Parameters:
  ///   - reason: the reason why it is tried again; nil if its result is not known.
  ///   - began: the time at which the notification came in.
  func countAttempt(
    _ result: DeliveryResult, waitsFor reason: Reason? = nil, of registration: RegistrationReference,
    on route: Route, since began: Date
  ) {
    let route = route.counted
    switch result {
    case .delivered, .passedOn:
      let now = now()
      count(.accepted(route, bucket: Latency.bucket(of: now.timeIntervalSince(began))))
      recordSuccess(Success(registration: registration, at: now.milliseconds))
    case .ended(let reason), .refused(let reason): count(.refused(route, reason))
    case .queued:
      if let reason { count(.postponed(route, reason)) }
    }
  }

  private func recordSuccess(_ success: Success) {
    let day = success.at / 86_400_000
    state.withLock { state in
      if day != state.day {
        state.known.removeAll(keepingCapacity: true)
        state.day = day
      }
      guard state.successes.count < limits.successes, state.known.insert(success.registration).inserted
      else { return }
      state.successes.append(success)
      // After this, the database checks them again and writes none twice.
      if state.known.count >= limits.known { state.known.removeAll(keepingCapacity: true) }
    }
  }

  /// Records that this registration's row has a failure, so that its next success is written.
  func recordFailure(_ registration: RegistrationReference) {
    state.withLock { _ = $0.known.remove(registration) }
  }

  func count(_ event: Event, _ count: Int = 1) {
    state.withLock { $0.counts[event, default: 0] += Int64(count) }
  }

  /// Counts notifications that a chat server has sent, and those refused at once.
  package func countSent(_ notifications: [DeliveryResult], of server: Int64) {
    guard !notifications.isEmpty else { return }
    let failures = notifications.count { result in
      switch result {
      case .delivered, .passedOn, .queued: false
      case .ended, .refused: true
      }
    }
    count(.sent(server: server), notifications.count)
    if failures > 0 { count(.failed(server: server), failures) }
  }

  /// Counts a phone's registration with this bouncer key, which must be this service's own.
  package func registered(key: String) { count(.registered(key: key)) }

  /// Counts a chat server's call to register a device that was refused.
  package func refusedRegistration(of server: Int64, _ refusal: RegistrationRefusal) {
    count(.registrationRefused(server: server, refusal))
  }

  // MARK: Writing

  /// Writes what has been collected. What could not be written is kept for the next time.
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
    // All nodes write in the same order, so that no two deadlock on each other's rows.
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

  /// Writes in short transactions, so that no other writer waits long.
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

  /// The statement that records a success. It writes nothing if the row has a success of the same day and no failure since.
  /// It also clears the deletion held back for an installation id that FCM did not know, but not one that the deletion
  /// guard holds on a route, which may be newer than the success.
  private static func statement(for success: Success) -> Statement {
    Statement(
      """
      UPDATE registrations SET delivered_at = $3,
        dead_since = CASE WHEN dead_route_id IS NOT NULL THEN dead_since END,
        dead_reason = CASE WHEN dead_route_id IS NOT NULL THEN dead_reason END
      WHERE id = $1 AND registered_at = $2
        AND (delivered_at IS NULL OR delivered_at < $4 OR delivered_at <= failed_at)
      """,
      .integer(success.registration.id), .integer(success.registration.registeredAt.milliseconds),
      .integer(success.at), .integer(success.at - success.at % 86_400_000))
  }

  /// Flushes every `interval`, successes more often, until the task is cancelled, and once more then.
  /// Failures are reported and do not stop the collecting.
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
        // A failure to write successes is reported by the next full flush.
        try? await flushSuccesses()
      }
    }
    await flushOrReport()
  }
}
