import Foundation
import Synchronization

/// How one route fares, as its last answer showed. The place for a breaker.
final class RouteHealth: Sendable {
  private let mutex = Mutex(PushProviders.RouteState.unknown)

  var state: PushProviders.RouteState { mutex.withLock { $0 } }

  /// Takes an outcome into account.
  func record(_ outcome: Outcome, now: @autoclosure () -> Date) {
    switch outcome {
    case .delivered, .dead, .suspect, .rejected, .retry(.tooManyRequests, _):
      mutex.withLock { $0 = .ok }
    case .retry(.cancelled, _), .retry(.overloaded, _), .retry(.shuttingDown, _):
      break
    case .retry(let reason, _), .misconfigured(let reason):
      mutex.withLock { state in
        if case .failing(_, let since) = state {
          state = .failing(reason, since: since)
        } else {
          state = .failing(reason, since: now())
        }
      }
    }
  }
}
