internal import Crypto
internal import CryptoExtras
internal import Foundation

/// The public half of an RSA key of 2048 to 4096 bits, as Nextcloud's servers and phones exchange it
/// (`Documentation/Protocols/Nextcloud.md` 2). Two keys are equal if modulus and exponent are, however their PEM
/// was laid out.
package struct RSAPublicKey: Sendable {
  /// A text or bytes that are no public key we work with.
  package struct Malformed: Error, Hashable {}

  /// A plaintext longer than the key and the padding leave room for.
  package struct PlaintextTooLong: Error, Hashable {}

  /// What a key may have: fewer are not safe, more would cost more than any caller needs.
  private static let allowedBits = 2048...4096
  /// More than a PEM of 4096 bits has, whatever its line breaks.
  private static let maximumPEMBytes = 2048

  /// The key as a SubjectPublicKeyInfo (RFC 5280).
  package let der: [UInt8]
  private let key: _RSA.Signing.PublicKey

  /// Reads a PEM of a SubjectPublicKeyInfo; line breaks and spaces may stand anywhere or nowhere.
  package init(pem: String) throws(Malformed) {
    guard let der = PEM.decode(pem, label: "PUBLIC KEY", limit: Self.maximumPEMBytes) else {
      throw Malformed()
    }
    try self.init(der: der)
  }

  /// Reads a SubjectPublicKeyInfo in DER, with nothing after it.
  package init(der: [UInt8]) throws(Malformed) {
    guard der.count <= Self.maximumPEMBytes, let key = try? _RSA.Signing.PublicKey(derRepresentation: der)
    else { throw Malformed() }
    try self.init(key)
    // The library also takes PKCS#1, and bytes after the key.
    guard self.der == der else { throw Malformed() }
  }

  init(_ key: _RSA.Signing.PublicKey) throws(Malformed) {
    guard Self.allowedBits.contains(key.keySizeInBits), key.keySizeInBits % 8 == 0 else { throw Malformed() }
    self.key = key
    der = [UInt8](key.derRepresentation)
  }

  /// The key as PEM: lines of 64 characters and a line break at the end, as PHP writes it (451 bytes for
  /// 2048 bits).
  package var pem: String { key.pemRepresentation + "\n" }

  /// The size of the modulus.
  package var bits: Int { key.keySizeInBits }

  /// How long a ciphertext or a signature is.
  package var ciphertextBytes: Int { key.keySizeInBits / 8 }

  /// Whether `signature` is this key's over `message`: RSASSA-PKCS1-v1_5 with SHA-512.
  package func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
    isValid(signature, SHA512.hash(data: message))
  }

  /// Whether `signature` is this key's over whatever has this SHA-512 `digest`, which is not hashed again.
  package func verifies(_ signature: [UInt8], digest: [UInt8]) -> Bool {
    guard let digest = SHA512Digest(bytes: digest) else { return false }
    return isValid(signature, digest)
  }

  private func isValid(_ signature: [UInt8], _ digest: SHA512Digest) -> Bool {
    key.isValidSignature(.init(rawRepresentation: signature), for: digest, padding: .insecurePKCS1v1_5)
  }

  /// Encrypts a short plaintext; differently each time.
  package func encrypt(_ plaintext: [UInt8], padding: RSAPadding) throws(PlaintextTooLong) -> [UInt8] {
    guard plaintext.count <= maximumPlaintext(padding) else { throw PlaintextTooLong() }
    do {
      let key = try _RSA.Encryption.PublicKey(derRepresentation: der)
      return [UInt8](try key.encrypt(plaintext, padding: padding.encryption))
    } catch {
      preconditionFailure("a key that was read once can be read again and takes what it has room for")
    }
  }

  /// How many bytes of plaintext there is room for: 214 (OAEP) or 245 (PKCS#1) with 2048 bits.
  package func maximumPlaintext(_ padding: RSAPadding) -> Int { ciphertextBytes - padding.overhead }
}

extension RSAPublicKey: Hashable {
  /// Whether modulus and exponent are the same.
  package static func == (left: RSAPublicKey, right: RSAPublicKey) -> Bool { left.der == right.der }

  /// Hashes modulus and exponent.
  package func hash(into hasher: inout Hasher) { hasher.combine(der) }
}

extension SHA512Digest {
  /// A digest that was computed elsewhere. The library has no initializer for it; the 64 bytes are all
  /// that the type consists of.
  init?(bytes: [UInt8]) {
    guard bytes.count == SHA512Digest.byteCount, MemoryLayout<SHA512Digest>.size == bytes.count else {
      return nil
    }
    self = SHA512.hash(data: [UInt8]())
    withUnsafeMutableBytes(of: &self) { $0.copyBytes(from: bytes) }
  }
}

/// How a plaintext is padded before RSA encryption (RFC 8017).
package enum RSAPadding: Sendable, Hashable {
  /// RSAES-OAEP with SHA-1, MGF1 with SHA-1 and an empty label: what PHP means by OAEP.
  case oaep
  /// RSAES-PKCS1-v1_5, for apps and servers that know nothing else.
  case pkcs1

  var encryption: _RSA.Encryption.Padding {
    switch self {
    case .oaep: .PKCS1_OAEP
    case .pkcs1: ._WEAK_AND_INSECURE_PKCS_V1_5
    }
  }

  /// Bytes of a block that the padding takes.
  var overhead: Int {
    switch self {
    case .oaep: 42
    case .pkcs1: 11
    }
  }
}
