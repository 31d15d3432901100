import CryptoExtras
import Foundation
import Testing

@testable import Sealing

@Suite struct RSATests {
  private static let pair = RSAPrivateKey.generate()
  private var pair: RSAPrivateKey { Self.pair }
  private var key: RSAPublicKey { pair.publicKey }
  private let message = Array("message".utf8)

  @Test func `What a key signs only that key verifies, and only that`() {
    let signature = pair.sign(message)
    #expect(signature.count == 256 && key.ciphertextBytes == 256 && key.bits == 2048)
    #expect(key.verifies(signature, of: message))
    #expect(pair.sign(message) == signature)
    #expect(!key.verifies(signature, of: message + [0]))
    #expect(!RSAPrivateKey.generate().publicKey.verifies(signature, of: message))
    for bad in [[], Array(signature.dropLast()), signature + [0], [UInt8](repeating: 255, count: 256)] {
      #expect(!key.verifies(bad, of: message))
    }
    var altered = signature
    altered[100] ^= 1
    #expect(!key.verifies(altered, of: message))
  }

  @Test func `A digest is 64 bytes and is not hashed again`() throws {
    let digest = [UInt8](repeating: 5, count: 64)
    let signature = try #require(pair.sign(digest: digest))
    #expect(key.verifies(signature, digest: digest))
    #expect(!key.verifies(signature, of: digest))
    #expect(!key.verifies(signature, digest: digest.dropLast()))
    #expect(!key.verifies(signature, digest: digest + [5]))
    #expect(pair.sign(digest: digest.dropLast()) == nil)
  }

  @Test(
    "There is room for the key's size less the padding",
    arguments: [(RSAPadding.oaep, 214), (.pkcs1, 245)])
  func encryption(padding: RSAPadding, limit: Int) throws {
    #expect(key.maximumPlaintext(padding) == limit)
    for count in [0, 1, limit] {
      let plaintext = [UInt8](repeating: 7, count: count)
      let ciphertext = try key.encrypt(plaintext, padding: padding)
      #expect(ciphertext.count == 256)
      #expect(pair.decrypt(ciphertext, padding: padding) == plaintext)
      #expect(try key.encrypt(plaintext, padding: padding) != ciphertext)
    }
    let tooLong = [UInt8](repeating: 7, count: limit + 1)
    #expect(throws: RSAPublicKey.PlaintextTooLong.self) { try key.encrypt(tooLong, padding: padding) }
  }

  @Test func `What was encrypted with one padding does not open with the other`() throws {
    let oaep = try key.encrypt(message, padding: .oaep)
    #expect(pair.decrypt(oaep, padding: .pkcs1) != message)
    let pkcs1 = try key.encrypt(message, padding: .pkcs1)
    #expect(pair.decrypt(pkcs1, padding: .oaep) == nil)
    #expect(pair.decrypt([], padding: .oaep) == nil)
  }

  @Test func `A PEM may have any line breaks`() throws {
    let pem = key.pem
    #expect(pem.hasPrefix("-----BEGIN PUBLIC KEY-----\n") && pem.hasSuffix("\n-----END PUBLIC KEY-----\n"))
    #expect(pem.utf8.count == 451)
    let variants = [
      pem, String(pem.dropLast()), pem.replacingOccurrences(of: "\n", with: "\r\n"),
      pem.replacingOccurrences(of: "\n", with: ""), "\n \(pem)\n\n",
      pem.replacingOccurrences(of: "\n", with: "\n\n"),
    ]
    for variant in variants {
      let read = try RSAPublicKey(pem: variant)
      #expect(read == key)
      #expect(read.pem == pem)
    }
    #expect(try RSAPublicKey(der: key.der) == key)
    #expect(try RSAPrivateKey(pem: pair.pem).publicKey == key)
    #expect(pair.pem.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
  }

  @Test func `What is no public key in SPKI form is refused`() throws {
    let pem = key.pem
    let inner = try _RSA.Signing.PublicKey(derRepresentation: key.der)
    let certificate = pem.replacingOccurrences(of: "PUBLIC KEY", with: "CERTIFICATE")
    let ec = P256Texts.publicKey
    for bad in [
      "", "x", String(pem.dropLast(30)), String(pem.dropFirst()), pem + pem, pem + "x", certificate,
      "-----BEGIN PUBLIC KEY----------END PUBLIC KEY-----",
      "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
      inner.pkcs1PEMRepresentation, pair.pem, ec, pem.replacingOccurrences(of: "\n", with: "\u{85}"),
      "-----BEGIN PUBLIC KEY-----\n" + String(repeating: "A", count: 10_000) + "\n-----END PUBLIC KEY-----",
    ] {
      #expect(throws: RSAPublicKey.Malformed.self) { try RSAPublicKey(pem: bad) }
    }
    for bad in [[], key.der + [0], Array(key.der.dropLast()), [UInt8](inner.pkcs1DERRepresentation)] {
      #expect(throws: RSAPublicKey.Malformed.self) { try RSAPublicKey(der: bad) }
    }
    #expect(throws: RSAPublicKey.Malformed.self) { try RSAPrivateKey(pem: pem) }
  }

  @Test func `Keys have 2048 to 4096 bits`() throws {
    for bits in [1024, 4224] {
      let key = try _RSA.Signing.PrivateKey(unsafeKeySize: .init(bitCount: bits)).publicKey
      #expect(throws: RSAPublicKey.Malformed.self) { try RSAPublicKey(pem: key.pemRepresentation) }
    }
    let key = try _RSA.Signing.PrivateKey(keySize: .bits3072)
    let read = try RSAPublicKey(pem: key.publicKey.pemRepresentation)
    #expect(read.bits == 3072 && read.ciphertextBytes == 384)
    let signature = try RSAPrivateKey(pem: key.pkcs8PEMRepresentation).sign(message)
    #expect(read.verifies(signature, of: message))
  }
}

private enum P256Texts {
  static let publicKey = """
    -----BEGIN PUBLIC KEY-----
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9
    q9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==
    -----END PUBLIC KEY-----
    """
}
