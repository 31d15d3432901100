import Crypto
import Foundation

@testable import Platform
@testable import Providers
@testable import Sealing

/// Keys and certificates in PEM: those of the server, of Apple, and of Nextcloud's users.
enum PEMTarget: FuzzTarget {
  static let name = "pem"
  // Keys are checked, RSA's for 20 ms.
  static let baseTime = 100_000_000.0

  private static let file = InputFile("server.pem")
  private static let key = InputFile("pem/AuthKey.p8")
  private static let description = Data(
    #"{"key_id": "ABCDE12345", "team_id": "ABCDE12345", "key_file": "AuthKey.p8", "topics": ["a.b"], "environment": "sandbox"}"#
      .utf8)

  /// A generated key of the kind that Apple issues.
  static let p8 = P256.Signing.PrivateKey().pemRepresentation

  static func run(_ bytes: [UInt8]) throws {
    file.write(bytes)
    if let pem = try? PEMFile(file.path, key: "http.tls.certificate_file") {
      if let chain = try? pem.certificates() { try check(!chain.isEmpty, "a chain has a certificate") }
      _ = try? pem.privateKey()
    }
    key.write(bytes)
    let credential = try? APNsCredential(
      name: "a", json: description, directory: key.url.deletingLastPathComponent())
    if let credential {
      let whole = String(decoding: bytes, as: UTF8.self)
      try check(whole.contains(credential.privateKey), "a key is kept as it is")
    }
    let text = String(decoding: bytes, as: UTF8.self)
    if let key = try? RSAPublicKey(pem: text) {
      try check((try? RSAPublicKey(pem: key.pem)) == key, "a public key reads as it is written")
      try check((try? RSAPublicKey(der: key.der)) == key, "a public key is its bytes")
    }
    if let key = try? RSAPrivateKey(pem: text) {
      try check(
        (try? RSAPrivateKey(pem: key.pem))?.publicKey == key.publicKey, "a private key reads as it is written"
      )
    }
  }
}
