import Crypto
import Foundation
import NIOSSL
import SwiftASN1
import X509

/// The simulator's own certificate authority: what clients trust instead of the system's roots.
struct CertificateAuthority: Sendable {
  let certificate: Certificate
  private let key: P256.Signing.PrivateKey

  /// A fresh authority.
  init() throws {
    let key = P256.Signing.PrivateKey()
    let name = try DistinguishedName { CommonName("push-bouncer provider simulator") }
    certificate = try Self.certificate(
      for: key.publicKey, name: name, days: 3650, issuer: name, key: key,
      extensions: Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
        Critical(KeyUsage(keyCertSign: true, cRLSign: true))
        SubjectKeyIdentifier(hash: Certificate.PublicKey(key.publicKey))
      })
    self.key = key
  }

  private static func certificate(
    for publicKey: P256.Signing.PublicKey, name: DistinguishedName, days: Double, issuer: DistinguishedName,
    key: P256.Signing.PrivateKey, extensions: Certificate.Extensions
  ) throws -> Certificate {
    try Certificate(
      version: .v3, serialNumber: .init(), publicKey: .init(publicKey),
      notValidBefore: Date(timeIntervalSinceNow: -86400),
      notValidAfter: Date(timeIntervalSinceNow: days * 86400), issuer: issuer, subject: name,
      signatureAlgorithm: .ecdsaWithSHA256, extensions: extensions, issuerPrivateKey: .init(key))
  }

  /// The authority of an earlier run.
  init(certificatePEM: String, keyPEM: String) throws {
    certificate = try Certificate(pemEncoded: certificatePEM)
    key = try P256.Signing.PrivateKey(pemRepresentation: keyPEM)
  }

  /// The certificate, for `ca.pem`.
  var certificatePEM: String {
    get throws { try certificate.serializeAsPEM().pemString + "\n" }
  }

  /// The private key, with which clients that trust the simulator still trust it after a restart.
  var keyPEM: String { key.pemRepresentation + "\n" }

  /// TLS for 127.0.0.1, ::1 and localhost with a fresh server certificate.
  func serverContext(applicationProtocols: [String]) throws -> NIOSSLContext {
    let serverKey = P256.Signing.PrivateKey()
    let server = try Self.certificate(
      for: serverKey.publicKey, name: DistinguishedName { CommonName("localhost") }, days: 397,
      issuer: certificate.subject, key: key,
      extensions: Certificate.Extensions {
        Critical(BasicConstraints.notCertificateAuthority)
        Critical(KeyUsage(digitalSignature: true))
        try ExtendedKeyUsage([.serverAuth])
        SubjectAlternativeNames([
          .dnsName("localhost"),
          .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
          .ipAddress(ASN1OctetString(contentBytes: [UInt8](repeating: 0, count: 15) + [1])),
        ])
        SubjectKeyIdentifier(hash: Certificate.PublicKey(serverKey.publicKey))
        // RFC 5280 4.2.1.1; OpenSSL's strict mode, Python's default since 3.13, insists on it.
        AuthorityKeyIdentifier(
          keyIdentifier: SubjectKeyIdentifier(hash: Certificate.PublicKey(key.publicKey)).keyIdentifier)
      })
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: [
        .certificate(
          try NIOSSLCertificate(bytes: Array(server.serializeAsPEM().pemString.utf8), format: .pem))
      ],
      privateKey: .privateKey(
        try NIOSSLPrivateKey(bytes: Array(serverKey.derRepresentation), format: .der)))
    configuration.applicationProtocols = applicationProtocols
    configuration.minimumTLSVersion = .tlsv12
    return try NIOSSLContext(configuration: configuration)
  }
}
