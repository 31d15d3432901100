package import Foundation
internal import NIOSSL
internal import Providers

extension Configuration.TLS {
  /// The certificate and its key as a server uses them.
  ///
  /// - Throws: ``Fault`` that names the key to mend.
  func serverContext() throws(Fault) -> NIOSSLContext {
    let chain = try certificates()
    let key = try PEMFile(keyFile, key: "http.tls.key_file").privateKey()
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: chain.map(NIOSSLCertificateSource.certificate), privateKey: .privateKey(key))
    configuration.requireForwardSecrecy()
    guard let context = try? NIOSSLContext(configuration: configuration) else {
      throw Fault(
        key: "http.tls.key_file", "names \(keyFile), which is not the key of \(certificateFile)",
        advice: "put both there as they belong together")
    }
    return context
  }

  /// When the certificate ends.
  func end() throws(Fault) -> Date {
    Date(timeIntervalSince1970: TimeInterval(try certificates()[0].notValidAfter))
  }

  /// What there is to say of a certificate that ends soon, or has ended; nil if it does neither, or cannot be read.
  package func expiry(now: Date, within days: Double = 0) -> Fault? {
    guard let end = try? end(), end.timeIntervalSince(now) < days * 86_400 else { return nil }
    let verb = end < now ? "ended" : "ends"
    return Fault(
      key: "http.tls.certificate_file",
      "names \(certificateFile), which \(verb) on \(end.formatted(.iso8601.year().month().day()))",
      advice: "renew it; the new one is taken up by itself")
  }

  /// At least one.
  private func certificates() throws(Fault) -> [NIOSSLCertificate] {
    try PEMFile(certificateFile, key: "http.tls.certificate_file").certificates()
  }
}
