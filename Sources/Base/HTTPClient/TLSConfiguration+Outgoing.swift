import NIOCore
package import NIOSSL

extension TLSConfiguration {
  /// Allows TLS 1.3, and TLS 1.2 with forward secrecy and authenticated encryption only, so that recorded
  /// traffic stays secret even if a key leaks later.
  package mutating func requireForwardSecrecy() {
    minimumTLSVersion = .tlsv12
    // TLS 1.3 has no other kind of cipher suite.
    cipherSuites = "ECDHE+AESGCM:ECDHE+CHACHA20"
  }

  /// The settings of a TLS client that trusts the system's roots and those in the file.
  package static func outgoing(caFile: String? = nil) -> Self {
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.requireForwardSecrecy()
    // Closing does not wait for the peer's close_notify.
    tls.shutdownTimeout = .milliseconds(200)
    if let caFile { tls.additionalTrustRoots = [.file(caFile)] }
    return tls
  }
}
