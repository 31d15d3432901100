import NIOCore

/// Opens connections to one origin.
protocol Connector: Sendable {
  /// Opens a connection. What becomes of it is told to the owner, and the owner only.
  func connect(_ id: ConnectionID, owner: any HTTP2ConnectionOwner, on eventLoop: any EventLoop)
}
