/// Why a request has no answer.
package enum TransportFailure: Error, Hashable, Sendable {
  /// The deadline passed.
  case timeout
  /// The peer has the request and lives, and has not answered it for long.
  case unanswered
  /// The caller's task was cancelled.
  case cancelled
  /// No connection could be opened.
  case connectFailed
  /// TLS failed, or the peer does not speak HTTP/2.
  case tlsFailed
  /// The name means an address that must not be called.
  case forbiddenAddress
  /// The proxy refused to connect us.
  case proxyRefused
  /// The connection ended with the request under way.
  case connectionLost
  /// The peer answers nothing on the connection, not even a PING, with the request under way.
  case silent
  /// The peer reset the stream with the request under way.
  case streamReset
  /// Certainly not processed, several times over.
  case refused
  /// Too many requests wait already.
  case overloaded
  /// The client is closing.
  case shuttingDown
  /// The client has closed with the request under way.
  case abandoned
}

extension Outcome {
  /// Nothing was learned about the notification or its token: later is another chance.
  init(_ failure: TransportFailure) {
    let (reason, scope): (Reason, Scope) =
      switch failure {
      case .timeout: (.timeout, .route)
      case .unanswered: (.timeout, .tokenOrRoute)
      case .cancelled: (.cancelled, .caller)
      case .connectFailed: (.connectFailed, .route)
      case .tlsFailed: (.tlsFailed, .route)
      case .forbiddenAddress: (.forbiddenAddress, .route)
      case .proxyRefused: (.proxyRefused, .route)
      case .connectionLost: (.connectionLost, .connection)
      case .silent: (.timeout, .connection)
      case .streamReset: (.streamReset, .connection)
      case .refused: (.refused, .connection)
      case .overloaded: (.overloaded, .caller)
      case .shuttingDown: (.shuttingDown, .caller)
      case .abandoned: (.abandoned, .process)
      }
    self = .retry(reason, notBefore: nil, scope: scope)
  }

  /// Without a token nothing was sent: an outage passes, a bad credential does not.
  init(_ failure: TokenFailure) {
    self =
      switch failure {
      case .unreachable: .retry(.tokenUnavailable, notBefore: nil, scope: .route)
      case .timeout: .retry(.timeout, notBefore: nil, scope: .route)
      case .refused(let reason): .misconfigured(reason)
      }
  }
}
