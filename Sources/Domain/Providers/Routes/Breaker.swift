import Basics
import Foundation

/// Holds requests back from a route that does not work, and finds out by single probes when it works again.
///
/// Closed, it lets all requests through and counts failures in a row. Open, it holds all of them back for a
/// pause and then lets one through as a probe: success closes it, failure opens it for longer. Pauses double
/// from 1 s to 15 s, each shortened at random by up to a half so that several nodes do not probe at the same
/// time. They stay short, so that delivery resumes soon after an outage.
struct Breaker: Sendable {
  enum Admission: Sendable, Hashable {
    case send
    /// Goes as a probe; other requests wait for its outcome.
    case probe
    /// Must wait, at least until then.
    case wait(until: Date)
  }

  /// Failures in a row that open it. High enough that one lost connection, which fails hundreds of requests,
  /// does not open it by itself.
  static let threshold = 20
  static let backoff = Backoff(first: 1, longest: 15, shares: 0.5...1)
  /// Longest wait that a provider may ask for, in seconds.
  static let longestWait: TimeInterval = 600
  /// A probe without a result for this long counts as lost.
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
    self.threshold = threshold
    self.backoff = backoff
  }

  /// Whether requests have to wait.
  var isOpen: Bool {
    if case .closed = state { false } else { true }
  }

  mutating func admit(now: Date) -> Admission {
    switch state {
    case .closed: return .send
    case .open(let until, let pauses):
      // An end this far ahead means that the clock was put back.
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

  /// The provider answered, so the route works, even if the answer rejects the notification.
  mutating func succeeded() {
    state = .closed(failures: 0)
  }

  /// A request failed because of the route.
  ///
  /// - Parameters:
  ///   - isLasting: whether the next request would certainly fail too, as with a wrong key.
  ///   - notBefore: the time that the provider asked for.
  ///   - jitter: random, from 0 to 1.
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
      // The request was sent before the breaker opened.
      break
    }
  }

  /// The probe ended without a result, for example because its caller was cancelled: the next request may
  /// probe.
  mutating func probeAbandoned(now: Date) {
    if case .probing(_, let pauses) = state { state = .open(until: now, pauses: pauses) }
  }

  private mutating func open(pauses: Int, _ notBefore: Date?, _ now: Date, _ jitter: Double) {
    let until = now + backoff.pause(after: pauses + 1, random: 1 - jitter)
    state = .open(until: max(until, min(notBefore ?? until, now + Self.longestWait)), pauses: pauses)
  }
}
