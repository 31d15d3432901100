import Crypto
import CryptoExtras
import Foundation

/// An RSA key pair of 2048 to 4096 bits, as Nextcloud creates one for each user and each phone
/// (`Documentation/Protocols/Nextcloud.md` 2).
package struct RSAPrivateKey: Sendable {
  package let publicKey: RSAPublicKey
  private let key: _RSA.Signing.PrivateKey

  /// Generates a key of 2048 bits, which takes some tenths of a second.
  package static func generate() -> RSAPrivateKey {
    do {
      return try RSAPrivateKey(_RSA.Signing.PrivateKey(keySize: .bits2048))
    } catch {
      preconditionFailure("the library supports keys of 2048 bits")
    }
  }

  /// Parses a PEM private key, PKCS#8 or PKCS#1.
  package init(pem: String) throws(RSAPublicKey.Malformed) {
    guard let key = try? _RSA.Signing.PrivateKey(pemRepresentation: pem) else {
      throw RSAPublicKey.Malformed()
    }
    try self.init(key)
  }

  private init(_ key: _RSA.Signing.PrivateKey) throws(RSAPublicKey.Malformed) {
    self.key = key
    publicKey = try RSAPublicKey(key.publicKey)
  }

  /// The private key as PEM (PKCS#8), with a line break at the end.
  package var pem: String { key.pkcs8PEMRepresentation }

  /// Signs a message with RSASSA-PKCS1-v1_5 and SHA-512, which is deterministic.
  package func sign(_ message: [UInt8]) -> [UInt8] { sign(SHA512.hash(data: message)) }

  /// Signs a message by its SHA-512 digest; nil unless that has 64 bytes.
  package func sign(digest: [UInt8]) -> [UInt8]? { SHA512Digest(bytes: digest).map(sign) }

  private func sign(_ digest: SHA512Digest) -> [UInt8] {
    do {
      return [UInt8](try key.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation)
    } catch {
      preconditionFailure("every key of 2048 bits has room for a digest of 64 bytes")
    }
  }

  /// Decrypts a ciphertext; nil if it was encrypted to another key or with another padding.
  package func decrypt(_ ciphertext: [UInt8], padding: RSAPadding) -> [UInt8]? {
    guard let key = try? _RSA.Encryption.PrivateKey(derRepresentation: key.derRepresentation),
      let plaintext = try? key.decrypt(ciphertext, padding: padding.encryption)
    else { return nil }
    return [UInt8](plaintext)
  }
}

/// Parses the textual encoding of keys (RFC 7468) with any line breaks or none: forms, phones and PHP differ
/// in them, and the library is strict.
enum PEM {
  /// The content of a text that is exactly one block with this label; nil for anything else.
  static func decode(_ text: String, label: String, limit: Int) -> [UInt8]? {
    guard text.utf8.count <= limit else { return nil }
    var block = text.utf8[...].trimmed
    guard block.starts(with: "-----BEGIN \(label)-----".utf8) else { return nil }
    block = block.dropFirst("-----BEGIN \(label)-----".utf8.count)
    let end = Array("-----END \(label)-----".utf8)
    guard block.suffix(end.count).elementsEqual(end) else { return nil }
    let base64 = block.dropLast(end.count).filter { !$0.isSpace }
    return Base64.decodeStrictly(String(decoding: base64, as: UTF8.self))
  }
}

extension Substring.UTF8View {
  fileprivate var trimmed: Substring.UTF8View {
    drop(while: \.isSpace).lastIndex { !$0.isSpace }.map { drop(while: \.isSpace)[...$0] } ?? self
  }
}

extension UInt8 {
  fileprivate var isSpace: Bool { self == 0x20 || (0x09...0x0D).contains(self) }
}
