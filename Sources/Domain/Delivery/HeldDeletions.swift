import Basics
package import Foundation
import Logging
package import Providers
package import Registrations
import SQL
import Synchronization

/// The deletions held back: tokens that a provider reported as dead while it reported too many to be believed. The
/// database holds them for all nodes; this class caches their counts.
final class HeldDeletions: Sendable {
  /// A provider's statement that a registration's token is dead, and the route it came over.
  typealias Deletion = (failure: RegistrationStore.Failure, reason: Reason, route: Route)

  private struct State {
    var doubts: [Doubt.Subject: Doubt] = [:]
    /// False until the first count has been read from the database.
    var isCounted = false
    /// Number of calls of ``hold(_:now:)`` on this node, so that a count can tell that it is outdated.
    var holds = 0
  }

  /// The pause between counts. Other nodes hold and release deletions too, and the operator may end them.
  private static let interval = Duration.seconds(5)
  /// Maximum number of deletions held back for each kind of registration; any further ones are ignored.
  private static let limit = 1_000_000

  private let registrations: RegistrationStore
  private let outbox: Outbox
  private let logger: Logger
  private let state = Mutex(State())

  init(registrations: RegistrationStore, outbox: Outbox, logger: Logger) {
    self.registrations = registrations
    self.outbox = outbox
    self.logger = logger
  }

  /// The deletions held back, by route and kind: the last count plus what this node has held since.
  var doubts: [Doubt] { state.withLock { Array($0.doubts.values) } }

  /// Whether anything may be held back. It is nearly always false, which saves a query for each delivery.
  var mayHold: Bool { state.withLock { !$0.isCounted || !$0.doubts.isEmpty } }

  /// Recounts periodically until the task is cancelled.
  func run() async {
    await every(Self.interval) {
      let start = ContinuousClock.now
      try await recount()
      // Counting takes at most a fiftieth of the time, however many are held.
      try? await Task.sleep(for: (ContinuousClock.now - start) * 50)
    } onError: { error in
      logger.warning(
        "deletions held back could not be counted", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  func recount() async throws {
    let holds = state.withLock { $0.holds }
    var counted: [Doubt.Subject: Doubt] = [:]
    for held in try await registrations.held() {
      guard let provider = Route.Provider(rawValue: held.provider) else { continue }
      let route = Route(provider: provider, credential: held.credential, target: held.target)
      counted.add(
        Doubt(
          subject: .init(route: route, wire: held.wire), reason: Reason(rawValue: held.reason) ?? .unknown,
          since: held.since, held: held.count))
    }
    update { state in
      // The count may have missed a deletion held meanwhile; the next count includes it.
      guard state.holds == holds else { return }
      state.doubts = counted
      state.isCounted = true
    }
  }

  /// Holds back deletions.
  ///
  /// - Returns: the registrations that this ended, because the provider has reported them as dead for long enough.
  func hold(_ deletions: [Deletion], now: Date) async throws -> Set<RegistrationReference> {
    let queues = Set(deletions.map { OutboxQueue(route: $0.route) })
    let ids = try await outbox.database.write { try $0.queueRows(of: queues) }
    let counts = doubts.reduce(into: [:]) { $0[$1.wire, default: 0] += $1.held }
    let (held, ended) = try await registrations.hold(
      deletions.compactMap { failure, _, route in
        counts[failure.registration.wire, default: 0] < Self.limit
          ? ids[OutboxQueue(route: route)].map { (failure, $0) } : nil
      })
    update { state in
      state.holds += 1
      for (failure, reason, route) in deletions where held.contains(failure.registration) {
        let subject = Doubt.Subject(route: route, wire: failure.registration.wire)
        state.doubts.add(Doubt(subject: subject, reason: reason, since: now, held: 1))
      }
    }
    return ended
  }

  /// Applies a change and logs when deletions begin or cease to be held back, with what the operator can do.
  /// All push services count as one route, because anybody can name one.
  private func update(_ change: (inout State) -> Void) {
    let (before, after) = state.withLock { state in
      let before = state.doubts
      change(&state)
      return (before, state.doubts)
    }
    let logged = Set(before.keys.map(\.counted))
    let known = Set(after.keys.map(\.counted))
    guard logged != known else { return }
    for (subject, doubt) in Dictionary(
      after.map { ($0.key.counted, $0.value) }, uniquingKeysWith: { first, _ in first })
    where !logged.contains(subject) {
      let name = "\(doubt.route.provider):\(doubt.route.credential)"
      logger.warning(
        "the provider reports too many tokens as dead to be believed: their registrations stay",
        metadata: [
          "route": "\(doubt.route)", "kind": "\(doubt.wire)", "reason": "\(doubt.reason)",
          "held": "\(doubt.held)", "advice": .stringConvertible(Advice.heldDeletions(on: name).text),
        ])
    }
    for subject in logged.subtracting(known) {
      logger.notice(
        "no deletion is held back any more",
        metadata: ["route": "\(subject.route)", "kind": "\(subject.wire)"])
    }
  }
}

extension [Doubt.Subject: Doubt] {
  /// Adds the counts and keeps the reason of the larger one.
  fileprivate mutating func add(_ doubt: Doubt) {
    guard let other = self[doubt.subject] else { return self[doubt.subject] = doubt }
    self[doubt.subject] = Doubt(
      subject: doubt.subject, reason: other.held < doubt.held ? doubt.reason : other.reason,
      since: Swift.min(other.since, doubt.since), held: other.held + doubt.held)
  }
}

/// Registrations of one kind on one route whose tokens the provider refuses or reports as dead without being believed:
/// either the route does not fit them or the provider is wrong.
package struct Doubt: Sendable, Hashable {
  /// The route and the kind of registrations that are doubted.
  package struct Subject: Sendable, Hashable {
    let route: Route
    let wire: Wire

    /// The subject with all push services merged into one route.
    var counted: Self { Self(route: route.counted, wire: wire) }
  }

  let subject: Subject
  /// The provider's reason.
  package let reason: Reason
  package let since: Date
  /// Number of deletions held back.
  package var held = 0

  /// The reason that is shown as the route's: what a provider means by its own is not what happens to those held back.
  package var shownReason: Reason { held > 0 ? .deletionsHeld : reason }

  package var route: Route { subject.route }
  package var wire: Wire { subject.wire }
}
