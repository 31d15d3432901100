import Basics
package import NIOCore

extension PoolState {
  package struct Limits: Sendable {
    /// Connections at a time, without those that are draining.
    package var connections = 4
    /// Requests under way on one connection.
    package var streams = 250
    /// Requests under way in all, including those on draining connections. Also limits how many late answers
    /// are awaited.
    package var underWay = 2000
    /// Requests waiting for a connection.
    package var waiting = 20_000
    /// How long an answer is still awaited after its caller has stopped waiting.
    package var answerTimeout = TimeAmount.seconds(60)
    /// Idle time after which a connection must answer a PING before it is used.
    package var quiet = TimeAmount.seconds(60)
    /// Failed attempts to connect in a row after which the waiting requests fail.
    package var attempts = 3

    package init(
      connections: Int = 4, streams: Int = 250, underWay: Int = 2000, waiting: Int = 20_000,
      answerTimeout: TimeAmount = TimeAmount.seconds(60), quiet: TimeAmount = TimeAmount.seconds(60),
      attempts: Int = 3
    ) {
      self.connections = connections
      self.streams = streams
      self.underWay = underWay
      self.waiting = waiting
      self.answerTimeout = answerTimeout
      self.quiet = quiet
      self.attempts = attempts
    }
    /// Pauses after failed attempts.
    let backoff = Backoff(first: 0.1, longest: 2, shares: 1...1)
  }
}
