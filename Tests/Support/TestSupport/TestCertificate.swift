import Crypto
import CryptoExtras
package import Foundation
package import NIOSSL
import SwiftASN1
import X509

/// A self-signed certificate, by default for `localhost` and 127.0.0.1.
package struct TestCertificate: Sendable {
  /// The TLS configuration of a server with this certificate.
  package let configuration: TLSConfiguration
  /// The PEM file to trust.
  package let caFile: String

  /// A certificate that tests share.
  package static let shared = Result { try TestCertificate() }

  /// - Parameters:
  ///   - host: the only host name in it.
  ///   - address: the only IPv4 address in it.
  ///   - ciphers: the only cipher suites of TLS 1.2 that its server offers; nil for all.
  package init(
    host: String? = nil, address: [UInt8]? = nil, end: Date = Date() + 86_400, ciphers: String? = nil
  ) throws {
    // The old cipher suites need an RSA key.
    let (pem, key) = try Self.makePEM(isRSA: ciphers != nil, host: host, address: address, end: end)
    let file = FileManager.default.temporaryDirectory.appending(path: "push-bouncer-\(UUID()).pem")
    try pem.write(to: file, atomically: true, encoding: .utf8)
    caFile = file.path
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: [.certificate(try NIOSSLCertificate(bytes: Array(pem.utf8), format: .pem))],
      privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.utf8), format: .pem)))
    if let ciphers {
      configuration.cipherSuites = ciphers
      configuration.maximumTLSVersion = .tlsv12
    }
    self.configuration = configuration
  }

  /// Makes a certificate and its key in PEM.
  ///
  /// - Parameter isRSA: whether to make an RSA key, which TLS without forward secrecy needs.
  package static func makePEM(
    isRSA: Bool = false, host: String? = nil, address: [UInt8]? = nil, start: Date = Date() - 3600,
    end: Date = Date() + 30 * 86_400
  ) throws -> (certificate: String, key: String) {
    let key: Certificate.PrivateKey =
      isRSA ? .init(try _RSA.Signing.PrivateKey(keySize: .bits2048)) : .init(P256.Signing.PrivateKey())
    let name = try DistinguishedName { CommonName("push-bouncer test") }
    let names: [GeneralName] =
      if let address {
        [.ipAddress(ASN1OctetString(contentBytes: address[...]))]
      } else if let host {
        [.dnsName(host)]
      } else {
        [.dnsName("localhost"), .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1]))]
      }
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: key.publicKey,
      notValidBefore: start, notValidAfter: end, issuer: name, subject: name,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
        SubjectAlternativeNames(names)
      },
      issuerPrivateKey: key)
    return (try certificate.serializeAsPEM().pemString, try key.serializeAsPEM().pemString)
  }
}
