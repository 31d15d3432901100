internal import Foundation
internal import Providers

/// Decides when a person is told of a route: once when it begins to fail, once when it has recovered. Nothing is said
/// of what happens between.
struct RouteReporter {
  /// Something to tell.
  enum Event: Hashable {
    case began(Route, Reason)
    /// It had failed for so many seconds.
    case recovered(Route, after: TimeInterval)
  }

  /// A route that works now and then while it fails would be told of all the time: it has to work for so many seconds.
  static let steadiness: TimeInterval = 5

  private struct Trouble {
    let since: Date
    /// Since when it works again.
    var wellSince: Date?
    /// Its credential has been replaced, and has not been used yet.
    var isRenewed = false
  }

  private var troubles: [Route: Trouble] = [:]

  /// Takes a look at all routes.
  mutating func look(at states: [Route: PushProviders.RouteState], now: Date) -> [Event] {
    // A route that is gone is no news: the operator has removed it.
    troubles = troubles.filter { states[$0.key] != nil }
    // Nearly always all is well: what need not be told of need not be sorted.
    return states.filter { $0.value.isFailing || troubles[$0.key] != nil }
      .sorted { $0.key.description < $1.key.description }.compactMap { look(at: $0, $1, now) }
  }

  private mutating func look(at route: Route, _ state: PushProviders.RouteState, _ now: Date) -> Event? {
    switch state {
    case .failing(let reason, let since), .open(let reason, let since):
      guard let trouble = troubles[route], !trouble.isRenewed else {
        troubles[route] = Trouble(since: since)
        return .began(route, reason)
      }
      troubles[route]?.wellSince = nil
    case .unknown:
      troubles[route]?.isRenewed = true
    case .ok:
      guard let trouble = troubles[route] else { return nil }
      // After now: the clock was put back.
      guard let wellSince = trouble.wellSince, wellSince <= now else {
        troubles[route]?.wellSince = now
        return nil
      }
      guard now.timeIntervalSince(wellSince) >= Self.steadiness else { return nil }
      troubles[route] = nil
      return .recovered(route, after: max(0, wellSince.timeIntervalSince(trouble.since)))
    }
    return nil
  }
}

extension PushProviders.RouteState {
  fileprivate var isFailing: Bool {
    switch self {
    case .unknown, .ok: false
    case .failing, .open: true
    }
  }
}
