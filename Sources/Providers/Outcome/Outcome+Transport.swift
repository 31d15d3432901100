/// Why a request has no answer.
enum TransportFailure: Error, Hashable, Sendable {
  /// The deadline passed.
  case timeout
  /// The caller's task was cancelled.
  case cancelled
  /// No connection could be opened.
  case connectFailed
  /// TLS failed, or the peer does not speak HTTP/2.
  case tlsFailed
  /// The proxy refused to connect us.
  case proxyRefused
  /// The connection ended with the request under way.
  case connectionLost
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
    let reason: Reason =
      switch failure {
      case .timeout: .timeout
      case .cancelled: .cancelled
      case .connectFailed: .connectFailed
      case .tlsFailed: .tlsFailed
      case .proxyRefused: .proxyRefused
      case .connectionLost: .connectionLost
      case .streamReset: .streamReset
      case .refused: .refused
      case .overloaded: .overloaded
      case .shuttingDown: .shuttingDown
      case .abandoned: .abandoned
      }
    self = .retry(reason, notBefore: nil)
  }
}
