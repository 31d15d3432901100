package import Foundation
import Logging
package import Providers
package import Registrations
import SQL
import Synchronization
import Timing

/// What providers said of tokens while they called too many dead to be believed: kept in the database, for all nodes
/// together, and counted here.
final class HeldDeletions: Sendable {
  fileprivate struct Share: Hashable {
    let route: Route
    let kind: RegistrationReference.Kind
  }

  private struct State {
    var doubts: [Share: Doubt] = [:]
    /// Whether the database has been asked.
    var isCounted = false
    /// What has come since the count that is under way began. One that it has seen already counts twice, until the
    /// next.
    var sinceCount: [Share: Doubt] = [:]
  }

  /// How often the database is asked what other nodes hold, or the operator has believed.
  private static let interval = Duration.seconds(5)
  /// More are not kept, of each kind: what is said of the rest counts for nothing.
  private static let limit = 1_000_000

  private let registrations: OutcomeRecorder
  private let outbox: Outbox
  private let logger: Logger
  private let state = Mutex(State())

  init(registrations: OutcomeRecorder, outbox: Outbox, logger: Logger) {
    self.registrations = registrations
    self.outbox = outbox
    self.logger = logger
  }

  /// What is held back, by route and kind.
  var doubts: [Doubt] { state.withLock { Array($0.doubts.values) } }

  /// Whether anything might be held back: nearly always there is nothing, and nothing to be asked.
  var mayHold: Bool { state.withLock { !$0.isCounted || !$0.doubts.isEmpty } }

  /// Counts again and again until the task is cancelled.
  func run() async {
    await every(Self.interval) {
      let start = ContinuousClock.now
      try await recount()
      // However many there are, counting them takes little of the time.
      try? await Task.sleep(for: (ContinuousClock.now - start) * 50)
    } onError: { error in
      logger.warning(
        "deletions held back could not be counted", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  /// Counts what is there, of a run before this one or of another node.
  func recount() async throws {
    state.withLock { $0.sinceCount = [:] }
    var counted: [Share: Doubt] = [:]
    for held in try await registrations.held() {
      guard let provider = Route.Provider(rawValue: held.provider) else { continue }
      let route = Route(provider: provider, credential: held.credential, target: held.target)
      let reason = Reason(rawValue: held.reason) ?? .unknown
      counted.add(Doubt(route: route, kind: held.kind, reason: reason, since: held.since, held: held.count))
    }
    update { state in
      for doubt in state.sinceCount.values { counted.add(doubt) }
      state.doubts = counted
      state.isCounted = true
    }
  }

  /// Keeps deaths that are not believed.
  ///
  /// - Returns: the registrations that have ended by that, because the provider has said so for long enough.
  func hold(_ deaths: [(death: OutcomeRecorder.Failure, reason: Reason, route: Route)], now: Date)
    async throws -> Set<RegistrationReference>
  {
    let routes = try await outbox.routes.make(Set(deaths.map { OutboxQueue(route: $0.route) }))
    let kept = deaths.compactMap { death, _, route in
      count(of: death.registration.kind) < Self.limit
        ? routes[OutboxQueue(route: route)].map { (death: death, route: $0) } : nil
    }
    let (held, ended) = try await registrations.hold(kept)
    update { state in
      for (death, reason, route) in deaths where held.contains(death.registration) {
        let doubt = Doubt(route: route, kind: death.registration.kind, reason: reason, since: now, held: 1)
        state.doubts.add(doubt)
        state.sinceCount.add(doubt)
      }
    }
    return ended
  }

  /// Holds nothing any more against registrations whose tokens the provider has taken.
  func release(_ deliveries: [(registration: RegistrationReference, route: Route)]) async throws {
    let released = try await registrations.release(deliveries.map(\.registration))
    guard !released.isEmpty else { return }
    update { state in
      for (registration, route) in deliveries where released.contains(registration) {
        state.doubts.removeOne(of: Share(route: route, kind: registration.kind))
      }
    }
  }

  private func count(of kind: RegistrationReference.Kind) -> Int {
    state.withLock { $0.doubts.values.filter { $0.kind == kind }.map(\.held).reduce(0, +) }
  }

  /// Changes what is known, and tells the operator what to do where it makes a difference. All push services are told
  /// of as one: strangers choose them.
  private func update(_ change: (inout State) -> Void) {
    let (before, after) = state.withLock { state in
      let before = state.doubts
      change(&state)
      return (before, state.doubts)
    }
    let (told, known) = (Set(before.keys.map(\.counted)), Set(after.keys.map(\.counted)))
    guard told != known else { return }
    for (share, doubt) in Dictionary(
      after.map { ($0.key.counted, $0.value) }, uniquingKeysWith: { first, _ in first })
    where !told.contains(share) {
      let name = "\(doubt.route.provider):\(doubt.route.credential)"
      logger.warning(
        """
        the provider calls too many tokens dead to be believed: their registrations stay. One ends when the provider \
        says the same an hour later. If you know that they are dead, end all of them with: \
        push-bouncer routes trust \(name)
        """,
        metadata: [
          "route": "\(doubt.route)", "kind": "\(doubt.kind)", "reason": "\(doubt.reason)",
          "held": "\(doubt.held)",
        ])
    }
    for share in told.subtracting(known) {
      logger.notice(
        "no dead token is held back any more",
        metadata: ["route": "\(share.route)", "kind": "\(share.kind)"])
    }
  }
}

extension HeldDeletions.Share {
  /// What it is told of as.
  fileprivate var counted: Self { Self(route: route.counted, kind: kind) }
}

extension [HeldDeletions.Share: Doubt] {
  fileprivate mutating func add(_ doubt: Doubt) {
    let share = HeldDeletions.Share(route: doubt.route, kind: doubt.kind)
    guard let other = self[share] else {
      self[share] = doubt
      return
    }
    self[share] = Doubt(
      route: doubt.route, kind: doubt.kind, reason: other.held < doubt.held ? doubt.reason : other.reason,
      since: Swift.min(other.since, doubt.since), held: other.held + doubt.held)
  }

  fileprivate mutating func removeOne(of share: HeldDeletions.Share) {
    self[share]?.held -= 1
    if let rest = self[share]?.held, rest <= 0 { self[share] = nil }
  }
}

/// A kind of registrations on a route whose refused tokens are not believed: either the route itself is wrong for
/// them, or the provider is.
package struct Doubt: Sendable, Hashable {
  /// Which route.
  package let route: Route
  /// Whose registrations.
  package let kind: RegistrationReference.Kind
  /// What the provider says of their tokens.
  package let reason: Reason
  /// Since when.
  package let since: Date
  /// How many deaths are held back.
  package var held = 0

  /// What it is about.
  struct Subject: Hashable {
    let route: Route
    let kind: RegistrationReference.Kind
  }

  var subject: Subject { Subject(route: route, kind: kind) }
}
