import Basics
import Foundation
import HTTPClient
import Providers

/// Decides which routes' entries are sent now, how many at a time, and whose.
///
/// Each route of APNs and FCM is sent whenever its window allows it. Anybody can name a push service, so there may be
/// thousands: only a limited number is active at a time, and fewer of those not known to work. This leaves room for those
/// that do work, and for every owner.
struct OutboxSchedule: Sendable {
  struct Limits: Sendable {
    /// Maximum number of active push services.
    var hosts = 64
    /// Maximum number of active push services that are not known to work.
    var unprovenHosts = 32
    /// Number of rounds of a push service before others get their turn.
    var rounds = 10
    /// Maximum number of a route's entries whose answers are still outstanding after their round.
    var late = 500
  }

  /// The number of an owner's entries that are sent in a round.
  struct Turn: Hashable, Sendable {
    let owner: Owner
    let limit: Int
  }

  /// The state of a route. It is changed in place: there may be thousands of owners, and a round for each 64 entries.
  private struct RouteState {
    var window = SendWindow()
    /// The entries whose answers are outstanding.
    var late: SharedBudget<Owner>
    /// The owners with something due.
    private var due = Turns<Owner, Void>()

    init(_ limits: Limits) { late = SharedBudget(limits.late) }

    var isDue: Bool { !due.isEmpty }

    /// Gives an owner the last turn, unless it has one.
    mutating func add(_ owner: Owner) {
      if due.count(of: owner) == 0 { due.append((), of: owner) }
    }

    /// Chooses whose entries are sent now, and how many. The chosen owners' turns are over.
    mutating func turns() -> [Turn] {
      let limit = min(window.window, late.limit - late.total)
      var chosen: [Owner] = []
      while chosen.count < limit,
        let (_, owner) = due.next(where: { [late] _, owner in late.refusal(to: owner) == nil })
      {
        chosen.append(owner)
      }
      return chosen.enumerated().map { index, owner in
        let share = limit / chosen.count + (index < limit % chosen.count ? 1 : 0)
        return Turn(owner: owner, limit: min(share, late.room(for: owner)))
      }
    }

    mutating func ended(_ round: Round, now: Date) {
      for (owner, count) in round.late { late.add(count, of: owner) }
      for owner in round.more { add(owner) }
      if round.ended > 0 || round.late.isEmpty {
        window.ended(tries: round.ended, failures: round.failures, notBefore: round.notBefore, now: now)
      }
    }
  }

  /// An active push service.
  private struct ActiveHost {
    let isProven: Bool
    /// The owner against whose places it counts.
    let owner: Owner
    var rounds = 0
  }

  /// The places of active push services. An owner has at most a quarter of them.
  private struct Places {
    private var proven: SharedBudget<Owner>
    private var unproven: SharedBudget<Owner>

    init(_ limits: Limits) {
      proven = SharedBudget(limits.hosts, most: max(1, limits.hosts / 4))
      unproven = SharedBudget(limits.unprovenHosts, most: max(1, limits.unprovenHosts / 4))
    }

    subscript(isProven: Bool) -> SharedBudget<Owner> {
      get { isProven ? proven : unproven }
      _modify { if isProven { yield &proven } else { yield &unproven } }
    }
  }

  private let limits: Limits
  private var routes: [Route: RouteState] = [:]
  private var activeHosts: [Route: ActiveHost] = [:]
  private var places: Places

  init(limits: Limits = Limits()) {
    self.limits = limits
    places = Places(limits)
  }

  /// Selects the routes with something due that are to be sent now.
  ///
  /// - Parameter proven: the push services that accepted the last message they were sent.
  mutating func admit(_ due: [OutboxQueue], proven: () -> Set<Route>, now: Date) -> [Route] {
    var admitted: [Route] = []
    var hosts: [(route: Route, owners: [Owner])] = []
    let owners = Dictionary(grouping: due, by: \.route).mapValues { $0.map(\.owner) }
    var seen: Set<Route> = []
    for route in due.lazy.map(\.route) where seen.insert(route).inserted {
      let queues = owners[route] ?? []
      for owner in queues { routes[route, default: RouteState(limits)].add(owner) }
      guard !isFailing(route, now: now) else { continue }
      if !route.isOfHost {
        admitted.append(route)
      } else if activeHosts[route] == nil {
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

  /// Activates a push service for one of these owners if there is a place for it.
  private mutating func start(_ host: Route, for owners: [Owner], isProven: Bool) -> Bool {
    guard activeHosts.count < limits.hosts else { return false }
    let alike = places[isProven]
    guard let owner = owners.min(by: { alike[$0] < alike[$1] }), places[isProven].take(of: owner) else {
      return false
    }
    activeHosts[host] = ActiveHost(isProven: isProven, owner: owner)
    return true
  }

  /// Chooses whose entries of a route are sent now, and how many; owners take turns. The chosen owners' turns are over.
  mutating func turns(of route: Route) -> [Turn] { routes[route]?.turns() ?? [] }

  /// Results of a round of a route.
  struct Round: Sendable {
    /// Number of entries whose result is known.
    var ended = 0
    /// Number of those that failed for a reason that affects others too.
    var failures = 0
    /// When the provider allows those to be tried again.
    var notBefore: Date?
    /// Number of entries whose answers are outstanding, by owner.
    var late: [Owner: Int] = [:]
    /// Owners that may have more due.
    var more: [Owner] = []
  }

  /// Records the results of a round.
  ///
  /// - Returns: whether to start another round at once.
  mutating func ended(_ round: Round, of route: Route, now: Date) -> Bool {
    guard routes[route]?.ended(round, now: now) != nil else { return false }
    activeHosts[route]?.rounds += 1
    if let work = activeHosts[route], work.rounds >= limits.rounds { return false }
    return routes[route]?.isDue == true && !isFailing(route, now: now)
  }

  /// Records the result of an entry whose answer came after its round.
  ///
  /// - Parameters:
  ///   - hasFailed: whether it failed for a reason that affects others too; nil if the reason is its device's
  ///     alone.
  ///   - notBefore: when the provider allows another try.
  mutating func answeredLate(of queue: OutboxQueue, hasFailed: Bool?, notBefore: Date?, now: Date) {
    guard let late = routes[queue.route]?.late[queue.owner], late > 0 else { return }
    routes[queue.route]?.late.release(of: queue.owner)
    guard let hasFailed else { return }
    routes[queue.route]?.window.ended(
      tries: 1, failures: hasFailed ? 1 : 0, notBefore: notBefore, now: now)
  }

  /// Whether the route's last round failed and its pause is not over.
  func isFailing(_ route: Route, now: Date) -> Bool { routes[route]?.window.isPaused(at: now) ?? false }

  /// Deactivates a push service.
  mutating func deactivate(_ route: Route) {
    guard let host = activeHosts.removeValue(forKey: route) else { return }
    places[host.isProven].release(of: host.owner)
  }

  /// Forgets all other routes, except those still active or with outstanding answers.
  mutating func forget(except kept: Set<Route>) {
    routes = routes.filter { kept.contains($0.key) || $0.value.late.total > 0 || activeHosts[$0.key] != nil }
  }
}

/// The number of a route's entries that are sent at a time: one after a round of failures, then twice as many after
/// each successful round. This protects a provider that has just come back from the accumulated backlog, and
/// leaves room for fresh notifications.
struct SendWindow: Sendable {
  static let largest = 64

  /// Number of entries that may be sent now.
  private(set) var window = 1
  /// Nothing is sent in this interval.
  private var pause = Date.distantPast..<Date.distantPast

  /// Whether nothing may be sent now. If the clock is put back to before the pause, the pause is over.
  func isPaused(at now: Date) -> Bool { pause.contains(now) }

  /// Records the results of a round. A minority of failures postpones only its own entries, since a provider
  /// may refuse for going too fast on account of one device.
  ///
  /// - Parameters:
  ///   - failures: how many of `tries` ended without an answer about their notification.
  ///   - notBefore: when the provider allows another try of the failed ones.
  mutating func ended(tries: Int, failures: Int, notBefore: Date?, now: Date) {
    if failures == 0 {
      window = min(Self.largest, window * 2)
    } else if failures * 2 > tries {
      window = 1
      pause = now..<max(now + 0.5, notBefore ?? now)
    }
  }
}
