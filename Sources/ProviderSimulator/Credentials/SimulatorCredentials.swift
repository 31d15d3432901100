import Crypto
import CryptoExtras
import Foundation
import NIOSSL
import SwiftASN1
import X509

/// What the simulator proves itself with and checks its clients against: a certificate authority of
/// its own, the key that "Apple" knows and the service account that "Google" knows.
struct SimulatorCredentials: Sendable {
  let authorityKey: P256.Signing.PrivateKey
  /// The authority's certificate: what clients are to trust.
  let authority: Certificate
  let apnsKey: P256.Signing.PrivateKey
  /// Ten characters each, as Apple gives them.
  let keyID: String
  let teamID: String
  let serviceAccountKey: _RSA.Signing.PrivateKey
  let serviceAccountKeyID: String
  let clientEmail: String
  /// Signs the access tokens that the OAuth endpoint gives out, so that they outlive a restart.
  let accessTokenKey: SymmetricKey

  /// New ones.
  static func make(project: String) throws -> SimulatorCredentials {
    let authorityKey = P256.Signing.PrivateKey()
    return SimulatorCredentials(
      authorityKey: authorityKey, authority: try makeAuthority(authorityKey),
      apnsKey: P256.Signing.PrivateKey(), keyID: identifier(), teamID: identifier(),
      serviceAccountKey: try _RSA.Signing.PrivateKey(keySize: .bits2048),
      serviceAccountKeyID: UUID().uuidString.lowercased().replacing("-", with: ""),
      clientEmail: "simulator@\(project).iam.gserviceaccount.com", accessTokenKey: SymmetricKey(size: .bits256))
  }

  private static func identifier() -> String {
    String((0..<10).map { _ in "ABCDEFGHJKLMNPQRSTUVWXYZ23456789".randomElement() ?? "A" })
  }

  private static func makeAuthority(_ key: P256.Signing.PrivateKey) throws -> Certificate {
    let name = try DistinguishedName { CommonName("push-bouncer provider simulator") }
    return try Certificate(
      version: .v3, serialNumber: .init(), publicKey: .init(key.publicKey),
      notValidBefore: Date() - 3600, notValidAfter: Date() + 3650 * 86_400, issuer: name, subject: name,
      signatureAlgorithm: .ecdsaWithSHA256,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
        Critical(KeyUsage(keyCertSign: true, cRLSign: true))
        SubjectKeyIdentifier(hash: .init(key.publicKey))
      },
      issuerPrivateKey: .init(key))
  }

  /// A TLS configuration with a new certificate for this machine, signed by the authority.
  func tlsContext(protocols: [String]) throws -> NIOSSLContext {
    let key = P256.Signing.PrivateKey()
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: .init(key.publicKey),
      notValidBefore: Date() - 3600, notValidAfter: Date() + 365 * 86_400, issuer: authority.subject,
      subject: try DistinguishedName { CommonName("localhost") },
      signatureAlgorithm: .ecdsaWithSHA256,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.notCertificateAuthority)
        Critical(KeyUsage(digitalSignature: true))
        try ExtendedKeyUsage([.serverAuth])
        SubjectAlternativeNames([
          .dnsName("localhost"), .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
          .ipAddress(ASN1OctetString(contentBytes: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
        ])
        AuthorityKeyIdentifier(keyIdentifier: try authority.extensions.subjectKeyIdentifier?.keyIdentifier)
      },
      issuerPrivateKey: .init(authorityKey))
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: [
        .certificate(
          try NIOSSLCertificate(bytes: Array(try certificate.serializeAsPEM().pemString.utf8), format: .pem))
      ],
      privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem)))
    configuration.applicationProtocols = protocols
    return try NIOSSLContext(configuration: configuration)
  }
}
