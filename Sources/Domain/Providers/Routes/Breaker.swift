import Basics
import Foundation

/// Holds requests back from a route that does not work, and finds out by single probes when it works again.
///
/// Closed, it lets all requests through and counts failures in a row. Open, it holds all of them back for a
/// pause and then lets one through as a probe: success closes it, failure opens it for longer. Pauses double
/// from 1 s to 15 s, each shortened at random by up to a half so that several nodes do not probe at the same
/// time. They stay short, so that delivery resumes soon after an outage.
///
/// It also knows since when everything has failed. That proves that the route does not work only after a few seconds: a
/// connection that breaks fails hundreds of requests at once, and the next one may work.
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
  /// The seconds from the first to the latest failure after which they are proof. Longer than the failures of one broken
  /// connection take.
  static let proof: TimeInterval = 3
  /// A longer gap between two failures, in seconds, starts a new series.
  static let longestGap: TimeInterval = 120

  /// What a failure says about the next request.
  enum Failure: Sendable {
    /// It was lost with its connection, which may have failed many others too. Counts once the failures are proof.
    case connection
    case request
    /// The next one would certainly fail too, as with a wrong key.
    case lasting
  }

  /// The failures since the last success.
  struct Failures: Sendable {
    /// The time of the first.
    fileprivate(set) var since: Date?
    fileprivate var latest = Date.distantPast
    /// The reason for the latest.
    fileprivate(set) var reason = Reason.unknown
    /// Whether they prove that the route does not work.
    fileprivate(set) var isProof = false

    fileprivate mutating func add(_ reason: Reason, isLasting: Bool, now: Date) {
      // A time before the latest failure means that the clock was put back.
      if !isProof, now < latest || now.timeIntervalSince(latest) > Breaker.longestGap { since = nil }
      let first = since ?? now
      since = first
      latest = now
      self.reason = reason
      if isLasting || now.timeIntervalSince(first) >= Breaker.proof { isProof = true }
    }
  }

  private enum State {
    case closed(failures: Int)
    case open(until: Date, pauses: Int)
    case probing(since: Date, pauses: Int)
  }

  private let threshold: Int
  private let backoff: Backoff
  private var state = State.closed(failures: 0)
  private(set) var failures = Failures()

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
    failures = Failures()
  }

  /// A request failed because of the route.
  ///
  /// - Parameters:
  ///   - notBefore: the time that the provider asked for.
  ///   - jitter: random, from 0 to 1.
  mutating func failed(_ failure: Failure, _ reason: Reason, notBefore: Date?, now: Date, jitter: Double) {
    failures.add(reason, isLasting: failure == .lasting, now: now)
    guard failure != .connection || failures.isProof else { return }
    switch state {
    case .closed(let count):
      guard failure == .lasting || count + 1 >= threshold else {
        state = .closed(failures: count + 1)
        return
      }
      open(pauses: 0, notBefore, now, jitter)
    case .probing(_, let pauses):
      open(pauses: pauses + 1, notBefore, now, jitter)
    case .open:
      // The request was sent before the breaker opened.
      break
    }
    // So many have failed together.
    failures.isProof = true
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
