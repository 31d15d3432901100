import Crypto
import Foundation
import NIOSSL
import SwiftASN1
import X509

/// A certificate for `localhost` and 127.0.0.1 that is its own trust root.
struct TestCertificate {
  let context: NIOSSLContext
  /// The PEM file to trust.
  let caFile: String

  /// One for all tests: making it is not what they are about.
  static let shared = Result { try TestCertificate() }

  private init() throws {
    let key = P256.Signing.PrivateKey()
    let name = try DistinguishedName { CommonName("push-bouncer test") }
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: .init(key.publicKey),
      notValidBefore: Date() - 3600, notValidAfter: Date() + 86_400, issuer: name, subject: name,
      signatureAlgorithm: .ecdsaWithSHA256,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
        SubjectAlternativeNames([
          .dnsName("localhost"), .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
        ])
      },
      issuerPrivateKey: .init(key))
    let pem = try certificate.serializeAsPEM().pemString
    let file = FileManager.default.temporaryDirectory.appending(path: "push-bouncer-\(UUID()).pem")
    try pem.write(to: file, atomically: true, encoding: .utf8)
    caFile = file.path
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: [.certificate(try NIOSSLCertificate(bytes: Array(pem.utf8), format: .pem))],
      privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem)))
    configuration.applicationProtocols = ["h2"]
    context = try NIOSSLContext(configuration: configuration)
  }
}
