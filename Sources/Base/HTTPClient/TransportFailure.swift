/// The reason for which a request has no answer. ``Reason`` explains the cases that it has too.
package enum TransportFailure: Error, Hashable, Sendable {
  case timeout, cancelled, forbiddenAddress
  /// No connection could be opened.
  case unconnected(ConnectionFailure)
  case connectionLost, streamReset, refused
  case overloaded, shuttingDown, abandoned
  /// The peer has the request and its connection works, but it has not answered for long.
  case unanswered
  /// The peer answers nothing on the connection, not even a PING, while the request is under way.
  case silent
}
