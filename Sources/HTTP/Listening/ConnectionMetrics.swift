import Metrics

/// The metrics of a listener's connections.
struct ConnectionMetrics: Sendable {
  /// Why this program closed a connection.
  enum Reason: String, CaseIterable, Sendable {
    /// Its source has as many as it may.
    case share
    /// There is no room, and no idle connection to close for it.
    case full
    /// It made room for another.
    case displaced
    /// No request came whole in time.
    case timeout
    /// Its peer did not take an answer in time.
    case untaken
    /// Much came of which no request could come.
    case senseless
  }

  private let open: Gauge
  private let closed: [Reason: Counter]

  /// - Parameter listener: its name.
  init(listener: String) {
    open = Gauge(label: "push_bouncer_http_connections", dimensions: [("listener", listener)])
    closed = Dictionary(
      uniqueKeysWithValues: Reason.allCases.map { reason in
        let dimensions = [("listener", listener), ("reason", reason.rawValue)]
        return (reason, Counter(label: "push_bouncer_http_connections_closed_total", dimensions: dimensions))
      })
  }

  func note(open count: Int) { open.record(count) }

  func note(_ reason: Reason) { closed[reason]?.increment() }
}
