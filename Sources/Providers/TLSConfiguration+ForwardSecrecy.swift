import NIOCore
package import NIOSSL

extension TLSConfiguration {
  /// Allows TLS 1.3, and of TLS 1.2 what keeps recorded traffic closed when the key becomes known later: an ephemeral
  /// exchange of keys, with ciphers that authenticate what they encrypt.
  package mutating func requireForwardSecrecy() {
    minimumTLSVersion = .tlsv12
    // Of TLS 1.3 there is nothing to choose.
    cipherSuites = "ECDHE+AESGCM:ECDHE+CHACHA20"
  }

  /// For calls to the outside, under the system's trust and, where it is given, a file's.
  package static func outgoing(caFile: String? = nil) -> Self {
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.requireForwardSecrecy()
    // Nobody waits for the other side's farewell.
    tls.shutdownTimeout = .milliseconds(200)
    if let caFile { tls.additionalTrustRoots = [.file(caFile)] }
    return tls
  }
}
