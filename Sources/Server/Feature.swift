import HTTP
import Hummingbird
import Operations
import ServiceLifecycle

/// A part of the service: what it hands over to be joined with the others.
struct Feature {
  /// Adds what strangers may call.
  var routes: (Router<WireContext>) -> Void = { _ in }
  /// Adds what is read when somebody looks at the metrics.
  var gauges: (PrometheusRegistry) -> Void = { _ in }
  /// Work on which other features depend: it ends after they have closed.
  var foundation: [@Sendable () async -> Void] = []
  /// Closes what it holds, when all background work has ended.
  var close: (@Sendable () async -> Void)?
  /// Work in the background, until the shutdown.
  var work: [@Sendable () async -> Void] = []
  /// Told when the shutdown begins.
  var drain: @Sendable () -> Void = {}
  /// What housekeeping removes.
  var removals: [Housekeeping.Removal] = []
  /// Queues in which a wrong clock may have put work off.
  var queues: [@Sendable (_ isTimeSetBack: Bool) async throws -> Void] = []
}

extension [Feature] {
  /// The services of all of them in the order in which they start; they stop in the reverse order.
  var services: [any ServiceLifecycle.Service] {
    flatMap(\.foundation).map(Repeating.init) + compactMap(\.close).map(Closing.init)
      + flatMap(\.work).map(Repeating.init)
  }
}
