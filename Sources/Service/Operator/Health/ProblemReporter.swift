import Foundation

/// Decides when to log a problem: once when it begins, and once when it is over.
struct ProblemReporter: Sendable {
  enum Event: Sendable, Hashable {
    case began
    /// The problem had lasted for this many seconds.
    case ended(after: TimeInterval)
  }

  /// In seconds. A shorter problem is not logged.
  private let onset: TimeInterval
  /// In seconds. A problem is over only after it was away for this long; otherwise one that comes and goes would
  /// be logged all the time.
  private let steadiness: TimeInterval
  private var since: Date?
  private var goneSince: Date?
  /// Whether its beginning was logged and its end was not.
  private(set) var isLogged = false
  private var isNextNew = false

  init(onset: TimeInterval = 0, steadiness: TimeInterval = 0) {
    self.onset = onset
    self.steadiness = steadiness
  }

  /// Whether there is a problem, logged or not, that is not over yet.
  var isOpen: Bool { since != nil }

  /// Takes the result of a check.
  ///
  /// - Parameter start: when the problem began, if that is known.
  mutating func update(isFailing: Bool, since start: Date? = nil, now: Date) -> Event? {
    guard isFailing else { return updateWorking(now) }
    if isNextNew { reset() }
    goneSince = nil
    let begin = since ?? start ?? now
    since = begin
    // A time after `now` means that the clock was put back.
    guard !isLogged, begin > now || now.timeIntervalSince(begin) >= onset else { return nil }
    isLogged = true
    return .began
  }

  private mutating func updateWorking(_ now: Date) -> Event? {
    guard isLogged, let since else {
      reset()
      return nil
    }
    let gone = goneSince.flatMap { $0 <= now ? $0 : nil } ?? now
    goneSince = gone
    guard now.timeIntervalSince(gone) >= steadiness else { return nil }
    reset()
    return .ended(after: max(0, gone.timeIntervalSince(since)))
  }

  /// Has the next problem logged even if this one is not over: its cause was dealt with meanwhile.
  mutating func expectNew() { isNextNew = isOpen }

  private mutating func reset() {
    since = nil
    goneSince = nil
    isLogged = false
    isNextNew = false
  }
}
