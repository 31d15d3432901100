import AsyncHTTPClient
package import Foundation
import NIOCore
import NIOExtras
import NIOPosix
package import NIOSSL

extension ConnectionFailure {
  /// The failure that an error of the network stack means; nil if the connection was open before, or the error is
  /// of another kind.
  package init?(_ error: any Error) {
    switch error {
    case let failure as ConnectionFailure: self = failure
    case OutgoingClient.HostError.unknownHost: self = .nameNotResolved
    case let error as NIOConnectionError: self.init(error)
    case ChannelError.connectTimeout: self = .connectTimeout
    case let error as IOError: self.init(errorNumber: error.errnoCode)
    case let error as HTTPClientError: self.init(error)
    case let error as NIOSSLError: self.init(error)
    case is NIOSSLExtraError: self = .certificateNameMismatch
    case is BoringSSLError: self = .tlsFailed
    default: return nil
    }
  }

  private init(_ error: NIOConnectionError) {
    let failures = error.connectionErrors.compactMap { ConnectionFailure($0.error) }
    // One of two networks is often missing, so what the present one says counts.
    if let failure = failures.first(where: { $0 != .networkUnreachable }) ?? failures.first {
      self = failure
    } else {
      self = error.dnsAError == nil && error.dnsAAAAError == nil ? .connectFailed : .nameNotResolved
    }
  }

  private init(errorNumber: CInt) {
    self =
      switch errorNumber {
      case ECONNREFUSED: .connectionRefused
      case ETIMEDOUT: .connectTimeout
      case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL: .networkUnreachable
      case EMFILE, ENFILE: .descriptorsExhausted
      default: .connectFailed
      }
  }

  private init?(_ error: HTTPClientError) {
    switch error {
    case .connectTimeout: self = .connectTimeout
    case .tlsHandshakeTimeout: self = .handshakeTimeout
    case .httpProxyHandshakeTimeout: self = .proxyTimeout
    case .proxyAuthenticationRequired: self = .proxyUnauthorized
    case .invalidProxyResponse: self = .proxyRefused
    default: return nil
    }
  }

  private init(_ error: NIOSSLError) {
    guard case .handshakeFailed(let failure) = error else {
      self = .handshakeClosed
      return
    }
    guard case .sslError(let stack) = failure else {
      self = failure == .syscallError || failure == .zeroReturn ? .handshakeClosed : .tlsFailed
      return
    }
    // BoringSSL tells its errors apart by their names only.
    let names = stack.map(\.description)
    func has(_ name: String) -> Bool { names.contains { $0.contains(name) } }
    self =
      if stack.contains(.eofDuringHandshake) {
        .handshakeClosed
      } else if has("CERTIFICATE_VERIFY_FAILED") {
        .certificateUntrusted
      } else if has("WRONG_VERSION_NUMBER") || has("HTTP_REQUEST") {
        .notTLS
      } else {
        .tlsFailed
      }
  }

  /// The failure that an error means, made more precise by the certificate that the host has shown.
  package init?(_ error: any Error, certificate: NIOSSLCertificate?, now: Date = Date()) {
    self.init(error)
    guard self == .certificateUntrusted, let certificate else { return }
    let seconds = time_t(now.timeIntervalSince1970)
    if seconds > certificate.notValidAfter { self = .certificateExpired }
    if seconds < certificate.notValidBefore { self = .certificateNotYetValid }
  }
}
