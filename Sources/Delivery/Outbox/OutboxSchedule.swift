import Foundation
import Providers

/// Which routes are worked on now, how many of their entries go at a time, and whose.
///
/// Each route of APNs and FCM is worked on whenever its window allows it. Push services are named by strangers, and there
/// may be thousands of them: only so many are at work at a time, and fewer of those that are not known to work. So there
/// is always room for those that do, and for those of every owner.
struct OutboxSchedule: Sendable {
  struct Limits: Sendable {
    /// Push services at work.
    var hosts = 64
    /// Of these, push services that are not known to work.
    var unprovenHosts = 32
    /// Rounds of a push service until others have their turn.
    var rounds = 10
    /// Entries of a route whose answers are still to come after their round, at a time.
    var late = 500
  }

  /// Entries of an owner that go in a round.
  struct Turn: Hashable, Sendable {
    let owner: Owner
    let limit: Int
  }

  private struct State {
    var window = SendWindow()
    /// Entries whose answers are still to come, of each owner.
    var late: [Owner: Int] = [:]
    /// The owners with something due, whose turn is next first.
    var due: [Owner] = []

    var lateInAll: Int { late.values.reduce(0, +) }
  }

  /// A push service at work.
  private struct Work {
    let isProven: Bool
    /// For whom it was admitted.
    let owner: Owner
    var rounds = 0
  }

  private let limits: Limits
  private var routes: [Route: State] = [:]
  private var hostsAtWork: [Route: Work] = [:]

  init(limits: Limits = Limits()) { self.limits = limits }

  /// The routes, of those with something due, that are to be worked on now.
  ///
  /// - Parameter proven: the push services that have taken what they were sent last.
  mutating func admit(_ due: [OutboxQueue], proven: () -> Set<Route>, now: Date) -> [Route] {
    var admitted: [Route] = []
    var hosts: [(route: Route, owners: [Owner])] = []
    let owners = Dictionary(grouping: due, by: \.route).mapValues { $0.map(\.owner) }
    var seen: Set<Route> = []
    for route in due.lazy.map(\.route) where seen.insert(route).inserted {
      var state = routes[route] ?? State()
      let (known, queues) = (Set(state.due), owners[route] ?? [])
      state.due += queues.filter { !known.contains($0) }
      routes[route] = state
      guard !state.window.isPaused(at: now) else { continue }
      if route.provider != .webPush {
        admitted.append(route)
      } else if hostsAtWork[route] == nil {
        hosts.append((route, queues))
      }
    }
    guard !hosts.isEmpty else { return admitted }
    let proven = proven()
    for isProven in [true, false] {
      for (host, owners) in hosts where proven.contains(host) == isProven {
        guard start(host, for: owners, isProven: isProven) else { continue }
        admitted.append(host)
      }
    }
    return admitted
  }

  /// Puts a push service to work for one of these owners, if there is a place for it: no owner has more than a quarter.
  private mutating func start(_ host: Route, for owners: [Owner], isProven: Bool) -> Bool {
    guard hostsAtWork.count < limits.hosts else { return false }
    let alike = hostsAtWork.values.filter { $0.isProven == isProven }
    let limit = isProven ? limits.hosts : limits.unprovenHosts
    func places(_ owner: Owner) -> Int { alike.count { $0.owner == owner } }
    guard alike.count < limit, let owner = owners.min(by: { places($0) < places($1) }),
      places(owner) < max(1, limit / 4)
    else { return false }
    hostsAtWork[host] = Work(isProven: isProven, owner: owner)
    return true
  }

  /// Whose entries of a route go now, and how many: its owners in turn. Those are no longer due for then.
  mutating func turns(of route: Route) -> [Turn] {
    guard var state = routes[route] else { return [] }
    let late = state.lateInAll
    let limit = min(state.window.window, limits.late - late)
    let chosen = state.due.filter {
      FairShare.allows(own: state.late[$0, default: 0], total: late, limit: limits.late)
    }.prefix(max(0, limit))
    guard !chosen.isEmpty else { return [] }
    let leaving = Set(chosen)
    state.due.removeAll { leaving.contains($0) }
    routes[route] = state
    return chosen.enumerated().map { index, owner in
      let share = limit / chosen.count + (index < limit % chosen.count ? 1 : 0)
      let room = FairShare.room(own: state.late[owner, default: 0], total: late, limit: limits.late)
      return Turn(owner: owner, limit: min(share, room))
    }
  }

  /// What a round of a route has come to.
  struct Round: Sendable {
    /// Entries of which it is known what becomes of them.
    var ended = 0
    /// Of these, those that failed for a reason that others meet, too.
    var failures = 0
    /// When the provider wants to hear of those again.
    var notBefore: Date?
    /// Entries whose answers are still to come, of each owner.
    var late: [Owner: Int] = [:]
    /// Owners that may have more due.
    var more: [Owner] = []
  }

  /// A round of a route has ended.
  ///
  /// - Returns: whether to go on at once.
  mutating func ended(_ round: Round, of route: Route, now: Date) -> Bool {
    guard var state = routes[route] else { return false }
    defer { routes[route] = state }
    state.late.merge(round.late, uniquingKeysWith: +)
    state.due += round.more.filter { !state.due.contains($0) }
    if round.ended > 0 || round.late.isEmpty {
      state.window.ended(
        tries: round.ended, failures: round.failures, notBefore: round.notBefore, now: now)
    }
    hostsAtWork[route]?.rounds += 1
    if let work = hostsAtWork[route], work.rounds >= limits.rounds { return false }
    return !state.due.isEmpty && !state.window.isPaused(at: now)
  }

  /// An entry whose answer was still to come has ended.
  ///
  /// - Parameters:
  ///   - hasFailed: whether for a reason that others meet, too; nil if it is its device's alone.
  ///   - notBefore: when the provider wants to hear of it again.
  mutating func answeredLate(of queue: OutboxQueue, hasFailed: Bool?, notBefore: Date?, now: Date) {
    guard let late = routes[queue.route]?.late[queue.owner] else { return }
    routes[queue.route]?.late[queue.owner] = late > 1 ? late - 1 : nil
    guard let hasFailed else { return }
    routes[queue.route]?.window.ended(
      tries: 1, failures: hasFailed ? 1 : 0, notBefore: notBefore, now: now)
  }

  /// Whether a route is at work that failed in its last round.
  func isFailing(_ route: Route, now: Date) -> Bool { routes[route]?.window.isPaused(at: now) ?? false }

  /// A push service is no longer at work.
  mutating func leave(_ route: Route) { hostsAtWork[route] = nil }

  /// Forgets what is known of all but these.
  mutating func forget(except kept: Set<Route>) {
    routes = routes.filter { kept.contains($0.key) || !$0.value.late.isEmpty || hostsAtWork[$0.key] != nil }
  }
}

/// How many entries of one route are sent at a time: one after a round of failures, then twice as
/// many after each round that went well. A provider that has just come back is not met with all that
/// has gathered, and fresh notifications always find room beside it.
struct SendWindow: Sendable {
  static let largest = 64

  /// How many may go now.
  private(set) var window = 1
  /// Nothing goes between.
  private var pause = Date.distantPast..<Date.distantPast

  /// Whether nothing goes now. A clock that was put back to before the pause has ended it.
  func isPaused(at now: Date) -> Bool { pause.contains(now) }

  /// A round ended. Failures that are the exception hold up only their own entries: a provider refuses
  /// for going too fast on account of one device, too.
  ///
  /// - Parameters:
  ///   - failures: how many of `tries` ended without an answer about their notification.
  ///   - notBefore: when the provider wants to hear of the failed ones again.
  mutating func ended(tries: Int, failures: Int, notBefore: Date?, now: Date) {
    if failures == 0 {
      window = min(Self.largest, window * 2)
    } else if failures * 2 > tries {
      window = 1
      pause = now..<max(now + 0.5, notBefore ?? now)
    }
  }
}
