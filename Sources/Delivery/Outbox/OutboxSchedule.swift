import Foundation
import Providers

/// Which routes are worked on now, and how many of their entries go at a time.
///
/// Each route of APNs and FCM is worked on whenever its window allows it. Push services are named by strangers, and there
/// may be thousands of them: only so many are at work at a time, and of those that are not known to work fewer. So there
/// is always room for those that do.
struct OutboxSchedule: Sendable {
  struct Limits: Sendable {
    /// Push services at work.
    var hosts = 64
    /// Of these, such that are not known to work.
    var unprovenHosts = 32
    /// Rounds of a push service until others have their turn.
    var rounds = 10
    /// Entries of a route whose answers are still to come after their round, at a time.
    var late = 500
  }

  private struct State {
    var window = SendWindow()
    /// Entries whose answers are still to come.
    var late = 0
    /// Rounds since it was admitted; nil: it is not at work. Of push services only.
    var rounds: Int?
    var isProven = false
  }

  private let limits: Limits
  private var routes: [Route: State] = [:]
  /// Push services at work that are known to do so, and that are not.
  private var working = (proven: 0, unproven: 0)

  init(limits: Limits = Limits()) { self.limits = limits }

  /// Those of the routes with something due that are to be worked on now.
  ///
  /// - Parameter proven: the push services that have taken what they were sent last.
  mutating func admit(_ due: [Route], proven: () -> Set<Route>, now: Date) -> [Route] {
    var admitted: [Route] = []
    var hosts: [Route] = []
    for route in due {
      let state = routes[route] ?? State()
      routes[route] = state
      guard !state.window.isPaused(at: now) else { continue }
      if route.provider != .webPush {
        admitted.append(route)
      } else if state.rounds == nil {
        hosts.append(route)
      }
    }
    guard !hosts.isEmpty else { return admitted }
    let proven = proven()
    for isProven in [true, false] {
      for host in hosts where proven.contains(host) == isProven {
        guard working.proven + working.unproven < limits.hosts,
          isProven || working.unproven < limits.unprovenHosts
        else { break }
        routes[host]?.rounds = 0
        routes[host]?.isProven = isProven
        if isProven { working.proven += 1 } else { working.unproven += 1 }
        admitted.append(host)
      }
    }
    return admitted
  }

  /// How many entries of a route may go now.
  func limit(of route: Route) -> Int {
    let state = routes[route] ?? State()
    return min(state.window.window, limits.late - state.late)
  }

  /// A round of a route has ended.
  ///
  /// - Parameters:
  ///   - ended: entries of which it is known what becomes of them.
  ///   - late: entries whose answers are still to come.
  /// - Returns: whether to go on at once.
  mutating func roundEnded(
    of route: Route, ended: Int, failures: Int, late: Int, notBefore: Date?, now: Date
  ) -> Bool {
    guard var state = routes[route] else { return false }
    defer { routes[route] = state }
    state.late += late
    if ended > 0 || late == 0 {
      state.window.ended(tries: ended, failures: failures, notBefore: notBefore, now: now)
    }
    if let rounds = state.rounds {
      state.rounds = rounds + 1
      guard rounds + 1 < limits.rounds else { return false }
    }
    return !state.window.isPaused(at: now)
  }

  /// An entry whose answer was still to come has ended.
  mutating func answeredLate(of route: Route, failures: Int, notBefore: Date?, now: Date) {
    routes[route]?.late -= 1
    routes[route]?.window.ended(tries: 1, failures: failures, notBefore: notBefore, now: now)
  }

  /// Whether a route is at work that failed in its last round.
  func isFailing(_ route: Route, now: Date) -> Bool { routes[route]?.window.isPaused(at: now) ?? false }

  /// A push service is no longer at work.
  mutating func leave(_ route: Route) {
    guard let state = routes[route], state.rounds != nil else { return }
    if state.isProven { working.proven -= 1 } else { working.unproven -= 1 }
    routes[route]?.rounds = nil
  }

  /// Forgets what is known of all but these.
  mutating func forget(except kept: Set<Route>) {
    routes = routes.filter { kept.contains($0.key) || $0.value.late > 0 || $0.value.rounds != nil }
  }
}
