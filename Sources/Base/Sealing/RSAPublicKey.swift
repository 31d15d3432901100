import Crypto
import CryptoExtras
import Foundation

/// An RSA public key of 2048 to 4096 bits with the exponent 65537, as Nextcloud's servers and phones exchange it
/// (`Documentation/Protocols/Nextcloud.md` 2). Equal if modulus and exponent are, however the PEM is laid
/// out.
package struct RSAPublicKey: Sendable {
  /// Not a public key, or one of an unsupported kind.
  package struct Malformed: Error, Hashable {}

  /// The plaintext is longer than key and padding allow.
  package struct PlaintextTooLong: Error, Hashable {}

  /// The allowed sizes: fewer bits are insecure, and more would only cost time.
  private static let allowedBits = 2048...4096
  /// The exponent that everybody uses, big-endian. The work of a signature grows with it, and strangers choose keys.
  private static let exponent = Data([1, 0, 1])
  /// The maximum size of a PEM, larger than any of 4096 bits whatever its line breaks.
  private static let maximumPEMBytes = 2048

  /// The key as a SubjectPublicKeyInfo (RFC 5280).
  package let der: [UInt8]
  private let key: _RSA.Signing.PublicKey

  /// Parses a SubjectPublicKeyInfo in PEM; line breaks and spaces may be anywhere or missing.
  package init(pem: String) throws(Malformed) {
    guard let der = PEM.decode(pem, label: "PUBLIC KEY", limit: Self.maximumPEMBytes) else {
      throw Malformed()
    }
    try self.init(der: der)
  }

  /// Parses a SubjectPublicKeyInfo in DER without trailing bytes.
  package init(der: [UInt8]) throws(Malformed) {
    guard der.count <= Self.maximumPEMBytes, let key = try? _RSA.Signing.PublicKey(derRepresentation: der)
    else { throw Malformed() }
    try self.init(key)
    // The library also accepts PKCS#1, and trailing bytes.
    guard self.der == der else { throw Malformed() }
  }

  init(_ key: _RSA.Signing.PublicKey) throws(Malformed) {
    guard Self.allowedBits.contains(key.keySizeInBits), key.keySizeInBits % 8 == 0,
      (try? key.getKeyPrimitives())?.publicExponent == Self.exponent
    else { throw Malformed() }
    self.key = key
    der = [UInt8](key.derRepresentation)
  }

  /// The key as PEM, as PHP writes it: lines of 64 characters and a line break at the end (451 bytes for 2048
  /// bits).
  package var pem: String { key.pemRepresentation + "\n" }

  package var bits: Int { key.keySizeInBits }

  /// Size of a ciphertext or a signature.
  package var ciphertextBytes: Int { key.keySizeInBits / 8 }

  /// Whether the signature of the message is this key's: RSASSA-PKCS1-v1_5 with SHA-512.
  package func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
    isValid(signature, SHA512.hash(data: message))
  }

  /// Whether the signature is this key's for a message with this SHA-512 digest.
  package func verifies(_ signature: [UInt8], digest: [UInt8]) -> Bool {
    guard let digest = SHA512Digest(bytes: digest) else { return false }
    return isValid(signature, digest)
  }

  private func isValid(_ signature: [UInt8], _ digest: SHA512Digest) -> Bool {
    key.isValidSignature(.init(rawRepresentation: signature), for: digest, padding: .insecurePKCS1v1_5)
  }

  /// Encrypts a short plaintext, with random padding.
  package func encrypt(_ plaintext: [UInt8], padding: RSAPadding) throws(PlaintextTooLong) -> [UInt8] {
    guard plaintext.count <= maximumPlaintext(padding) else { throw PlaintextTooLong() }
    do {
      let key = try _RSA.Encryption.PublicKey(derRepresentation: der)
      return [UInt8](try key.encrypt(plaintext, padding: padding.encryption))
    } catch {
      preconditionFailure("a key that was read once can be read again and takes what it has room for")
    }
  }

  /// Longest plaintext in bytes: with 2048 bits 214 (OAEP) or 245 (PKCS#1).
  package func maximumPlaintext(_ padding: RSAPadding) -> Int { ciphertextBytes - padding.overhead }
}

extension RSAPublicKey: Hashable {
  package static func == (left: RSAPublicKey, right: RSAPublicKey) -> Bool { left.der == right.der }

  package func hash(into hasher: inout Hasher) { hasher.combine(der) }
}

extension SHA512Digest {
  /// A digest that was computed elsewhere. The library has no such initializer, but the type consists of just
  /// the 64 bytes.
  init?(bytes: [UInt8]) {
    guard bytes.count == SHA512Digest.byteCount, MemoryLayout<SHA512Digest>.size == bytes.count else {
      return nil
    }
    self = SHA512.hash(data: [UInt8]())
    withUnsafeMutableBytes(of: &self) { $0.copyBytes(from: bytes) }
  }
}

/// The padding of a plaintext before RSA encryption (RFC 8017).
package enum RSAPadding: Sendable, Hashable {
  /// RSAES-OAEP with SHA-1, MGF1 with SHA-1 and an empty label: PHP's OAEP.
  case oaep
  /// RSAES-PKCS1-v1_5, for apps and servers that support nothing else.
  case pkcs1

  var encryption: _RSA.Encryption.Padding {
    switch self {
    case .oaep: .PKCS1_OAEP
    case .pkcs1: ._WEAK_AND_INSECURE_PKCS_V1_5
    }
  }

  var overhead: Int {
    switch self {
    case .oaep: 42
    case .pkcs1: 11
    }
  }
}
