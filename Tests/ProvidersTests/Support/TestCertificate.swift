import Crypto
import CryptoExtras
import Foundation
import NIOSSL
import SwiftASN1
import X509

/// A certificate for `localhost` and 127.0.0.1, unless for another host, that is its own trust root.
struct TestCertificate {
  let context: NIOSSLContext
  /// The PEM file to trust.
  let caFile: String

  /// One for all tests: making it is not what they are about.
  static let shared = Result { try TestCertificate() }

  /// - Parameter ciphers: those of TLS 1.2 that its server offers, and nothing else; nil for all that there are.
  init(host: String? = nil, end: Date = Date() + 86_400, ciphers: String? = nil) throws {
    // Only an RSA key serves the old ones.
    let key: Certificate.PrivateKey =
      ciphers == nil
      ? .init(P256.Signing.PrivateKey()) : .init(try _RSA.Signing.PrivateKey(keySize: .bits2048))
    let name = try DistinguishedName { CommonName("push-bouncer test") }
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: key.publicKey,
      notValidBefore: Date() - 3600, notValidAfter: end, issuer: name, subject: name,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
        SubjectAlternativeNames(
          host.map { [.dnsName($0)] } ?? [
            .dnsName("localhost"), .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
          ])
      },
      issuerPrivateKey: key)
    let pem = try certificate.serializeAsPEM().pemString
    let file = FileManager.default.temporaryDirectory.appending(path: "push-bouncer-\(UUID()).pem")
    try pem.write(to: file, atomically: true, encoding: .utf8)
    caFile = file.path
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: [.certificate(try NIOSSLCertificate(bytes: Array(pem.utf8), format: .pem))],
      privateKey: .privateKey(
        try NIOSSLPrivateKey(bytes: Array(key.serializeAsPEM().pemString.utf8), format: .pem)))
    configuration.applicationProtocols = ["h2"]
    if let ciphers {
      configuration.cipherSuites = ciphers
      configuration.maximumTLSVersion = .tlsv12
    }
    context = try NIOSSLContext(configuration: configuration)
  }
}
