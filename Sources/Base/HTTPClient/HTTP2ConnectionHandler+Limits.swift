package import NIOCore

extension HTTP2ConnectionHandler {
  package struct Limits: Sendable {
    package var health = ConnectionHealth.Limits()
    /// Time for TLS, and then again for the peer's SETTINGS.
    package var handshake = TimeAmount.seconds(10)
    /// How long the connection may be idle, asked each time it becomes idle; nil for no limit.
    package var idle: (@Sendable () -> TimeAmount)?

    package init(
      health: ConnectionHealth.Limits = ConnectionHealth.Limits(),
      handshake: TimeAmount = TimeAmount.seconds(10), idle: (@Sendable () -> TimeAmount)? = nil
    ) {
      self.health = health
      self.handshake = handshake
      self.idle = idle
    }
  }
}
