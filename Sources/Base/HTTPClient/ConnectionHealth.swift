package import NIOCore

/// Whether a connection still works; a state machine without I/O.
///
/// Detects two failures: a silent peer (a lost NAT entry, a dead machine), by an unanswered PING, and a peer
/// that answers PINGs but no requests, by the time without an answer.
package struct ConnectionHealth {
  package struct Limits: Sendable {
    /// How long the peer may be silent, with requests under way, before a PING goes out.
    package var silence = TimeAmount.seconds(5)
    /// How long the answer to a PING may take.
    package var pingTimeout = TimeAmount.seconds(3)
    /// How long no request may be answered, with requests under way, before the connection is replaced. Longer than a
    /// slow provider takes, since requests under way continue and a new connection would not speed them up.
    package var stall = TimeAmount.seconds(30)
    /// The timeouts in a row, without an answer in between, after which the connection is replaced.
    package var timeouts = 3
    /// A request that timed out sooner than this says nothing about the connection.
    package var fairChance = TimeAmount.seconds(3)
    /// Interval between checks.
    package var tick = TimeAmount.seconds(1)

    package init(
      silence: TimeAmount = TimeAmount.seconds(5), pingTimeout: TimeAmount = TimeAmount.seconds(3),
      stall: TimeAmount = TimeAmount.seconds(30), timeouts: Int = 3,
      fairChance: TimeAmount = TimeAmount.seconds(3), tick: TimeAmount = TimeAmount.seconds(1)
    ) {
      self.silence = silence
      self.pingTimeout = pingTimeout
      self.stall = stall
      self.timeouts = timeouts
      self.fairChance = fairChance
      self.tick = tick
    }
  }

  enum Verdict: Equatable {
    case healthy
    /// Send a PING, and no new request until it is answered.
    case ping
    /// Send no new request over it.
    case replace
    /// The connection is lost, and requests under way get no answer.
    case dead
  }

  let limits: Limits
  /// When the peer last sent something.
  private var lastReceived: NIODeadline
  /// Start of the present time without an answer while requests are under way.
  private var stalled: NIODeadline
  /// When the PING was sent that is not answered yet.
  private(set) var pingSentAt: NIODeadline?
  private var timeouts = 0

  init(limits: Limits = Limits(), now: NIODeadline) {
    self.limits = limits
    lastReceived = now
    stalled = now
  }

  mutating func received(now: NIODeadline) {
    lastReceived = now
  }

  mutating func answered(now: NIODeadline) {
    timeouts = 0
    stalled = now
  }

  mutating func pingSent(now: NIODeadline) {
    pingSentAt = pingSentAt ?? now
  }

  mutating func pingAnswered() {
    pingSentAt = nil
  }

  /// Counts a request that was sent at `sent` and had no answer in time.
  mutating func timedOut(sent: NIODeadline, now: NIODeadline) -> Verdict {
    guard now - sent >= limits.fairChance else { return .healthy }
    timeouts += 1
    if timeouts >= limits.timeouts { return .replace }
    return pingSentAt == nil ? .ping : .healthy
  }

  /// The periodic check.
  func check(underWay: Int, now: NIODeadline) -> Verdict {
    if let pingSentAt { return now - pingSentAt >= limits.pingTimeout ? .dead : .healthy }
    // Silence while no request was under way proves nothing.
    guard underWay > 0 else { return .healthy }
    if now - stalled >= limits.stall { return .replace }
    return now - lastReceived >= limits.silence ? .ping : .healthy
  }

  /// Restarts the timers when a request goes out over an idle connection.
  mutating func wake(now: NIODeadline) {
    lastReceived = max(lastReceived, now)
    stalled = max(stalled, now)
  }
}
