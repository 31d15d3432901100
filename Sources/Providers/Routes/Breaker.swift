import Foundation
import Timing

/// Keeps requests from a route that does not work, and finds out by single probes when it works again.
///
/// Closed, it lets everything through and counts failures in a row. Open, it refuses everything until
/// a pause is over, then lets one request through as a probe: success closes it, failure opens it for
/// longer. Pauses double from one second to 15, each shortened at random by up to a half, so
/// that several nodes do not probe in step: one request in so many seconds burdens no provider, and
/// whoever has waited through an outage need not wait much longer than it.
struct Breaker: Sendable {
  /// What becomes of a request.
  enum Admission: Sendable, Hashable {
    case send
    /// It goes, and the others wait for what becomes of it.
    case probe
    /// It waits, until then at least.
    case wait(until: Date)
  }

  /// Failures in a row that open it. With hundreds of requests under way one lost connection is as
  /// many failures at once: that alone must not do.
  static let threshold = 20
  static let backoff = Backoff(first: 1, longest: 15, shares: 0.5...1)
  /// More is not believed of a provider that asks for it.
  static let longestWait: TimeInterval = 600
  /// A probe that says nothing for so long is taken for lost.
  static let probeTimeout: TimeInterval = 30

  private enum State {
    case closed(failures: Int)
    case open(until: Date, pauses: Int)
    case probing(since: Date, pauses: Int)
  }

  private let threshold: Int
  private let backoff: Backoff
  private var state = State.closed(failures: 0)

  init(threshold: Int = Breaker.threshold, backoff: Backoff = Breaker.backoff) {
    (self.threshold, self.backoff) = (threshold, backoff)
  }

  /// Whether requests have to wait.
  var isOpen: Bool {
    if case .closed = state { false } else { true }
  }

  mutating func admit(now: Date) -> Admission {
    switch state {
    case .closed: return .send
    case .open(let until, let pauses):
      // Further ahead than any pause: the clock was put back.
      guard now >= until || until > now + Self.longestWait else { return .wait(until: until) }
      state = .probing(since: now, pauses: pauses)
      return .probe
    case .probing(let since, let pauses):
      guard abs(now.timeIntervalSince(since)) >= Self.probeTimeout else {
        return .wait(until: now + backoff.first)
      }
      state = .probing(since: now, pauses: pauses)
      return .probe
    }
  }

  /// The provider answered, well or badly for the notification: the route works.
  mutating func succeeded() {
    state = .closed(failures: 0)
  }

  /// A request ended without that.
  ///
  /// - Parameters:
  ///   - isLasting: whether the next one would fail for sure, as with a wrong key.
  ///   - notBefore: what the provider asked for.
  ///   - jitter: from 0 to 1, at random.
  mutating func failed(isLasting: Bool, notBefore: Date?, now: Date, jitter: Double) {
    switch state {
    case .closed(let failures):
      guard isLasting || failures + 1 >= threshold else {
        state = .closed(failures: failures + 1)
        return
      }
      open(pauses: 0, notBefore, now, jitter)
    case .probing(_, let pauses):
      open(pauses: pauses + 1, notBefore, now, jitter)
    case .open:
      // Sent before it opened.
      break
    }
  }

  /// The probe ended without telling anything, as when its caller gave up: the next one may go.
  mutating func probeAbandoned(now: Date) {
    if case .probing(_, let pauses) = state { state = .open(until: now, pauses: pauses) }
  }

  private mutating func open(pauses: Int, _ notBefore: Date?, _ now: Date, _ jitter: Double) {
    let until = now + backoff.pause(after: pauses + 1, random: 1 - jitter)
    state = .open(until: max(until, min(notBefore ?? until, now + Self.longestWait)), pauses: pauses)
  }
}
