internal import Foundation
internal import NIOSSL
internal import Providers

extension Configuration.TLS {
  /// The certificate and its key as a server uses them.
  ///
  /// - Throws: ``ConfigurationError`` that names the key to mend.
  func serverContext() throws(ConfigurationError) -> NIOSSLContext {
    let chain = try certificates()
    guard let key = try? NIOSSLPrivateKey(file: keyFile, format: .pem) else {
      throw ConfigurationError(source: keyFile, key: "http.tls.key_file", "wants a key in PEM there")
    }
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: chain.map(NIOSSLCertificateSource.certificate), privateKey: .privateKey(key))
    configuration.requireForwardSecrecy()
    guard let context = try? NIOSSLContext(configuration: configuration) else {
      throw ConfigurationError(
        source: keyFile, key: "http.tls.key_file", "is not the key of \(certificateFile)")
    }
    return context
  }

  /// When the certificate ends.
  func end() throws(ConfigurationError) -> Date {
    Date(timeIntervalSince1970: TimeInterval(try certificates()[0].notValidAfter))
  }

  /// At least one.
  private func certificates() throws(ConfigurationError) -> [NIOSSLCertificate] {
    guard let chain = try? NIOSSLCertificate.fromPEMFile(certificateFile), !chain.isEmpty else {
      throw ConfigurationError(
        source: certificateFile, key: "http.tls.certificate_file", "wants a certificate in PEM there")
    }
    return chain
  }
}
