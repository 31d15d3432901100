/// The reason for which a connection to a host could not be opened. The ``Reason`` for it has the same name.
package enum ConnectionFailure: String, Error, Sendable, Hashable, CaseIterable {
  // The host.
  case nameNotResolved, connectionRefused, connectTimeout, networkUnreachable
  /// The connection failed for an unknown reason.
  case connectFailed
  /// This process has no file descriptor left for a connection.
  case descriptorsExhausted
  // TLS with the host.
  case handshakeTimeout, handshakeClosed, notTLS
  case certificateExpired, certificateNotYetValid, certificateUntrusted, certificateNameMismatch
  /// The host speaks no HTTP/2, which the provider does.
  case http2NotOffered
  /// No version of TLS, or no cipher suite, in common.
  case tlsFailed
  // The HTTP proxy.
  case proxyNameNotResolved, proxyConnectionRefused, proxyConnectTimeout, proxyUnreachable
  /// The proxy does not answer CONNECT.
  case proxyTimeout
  /// The proxy answers 407, 403, 5xx.
  case proxyUnauthorized, proxyForbidden, proxyCannotConnect
  /// The proxy answers CONNECT with anything else.
  case proxyRefused

  /// The same failure of the connection to the proxy.
  package var ofProxy: ConnectionFailure {
    switch self {
    case .nameNotResolved: .proxyNameNotResolved
    case .connectionRefused: .proxyConnectionRefused
    case .connectTimeout: .proxyConnectTimeout
    case .descriptorsExhausted: self
    default: .proxyUnreachable
    }
  }

  /// The failure if the proxy answers CONNECT with this status.
  package init(proxyStatus: Int) {
    self =
      switch proxyStatus {
      case 407: .proxyUnauthorized
      case 403: .proxyForbidden
      case 500...599: .proxyCannotConnect
      default: .proxyRefused
      }
  }
}
