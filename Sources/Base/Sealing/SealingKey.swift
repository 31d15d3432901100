import CSodium
import Crypto
import Foundation

/// A key that encrypts stored values: XChaCha20-Poly1305 with a random nonce and associated data.
///
/// A sealed value is a byte 1, the first 3 bytes of the key's id, the nonce (24 bytes), the ciphertext and the MAC
/// (16 bytes). So its first four bytes show which key sealed it.
struct SealingKey: Sendable {
  static let headerBytes = 4
  private static let nonceBytes = 24
  private static let macBytes = 16

  /// Identifies the key without revealing it: 16 bytes.
  let id: [UInt8]
  /// The first bytes of every value that the key has sealed.
  let header: [UInt8]
  private let key: SymmetricKey

  /// From the 32 bytes of the root key.
  init(_ root: SymmetricKey) {
    key = root.derived("sealing of rows")
    id = root.derived("id").withUnsafeBytes { Array($0.prefix(16)) }
    header = [1] + id.prefix(Self.headerBytes - 1)
  }

  func seal(_ plaintext: [UInt8], at place: SealedPlace) -> [UInt8] {
    let nonce = Sodium.randomBytes(Self.nonceBytes)
    let associated = place.associatedData
    var box = [UInt8](repeating: 0, count: plaintext.count + Self.macBytes)
    _ = key.withSodium { key in
      crypto_aead_xchacha20poly1305_ietf_encrypt(
        &box, nil, plaintext, UInt64(plaintext.count), associated, UInt64(associated.count), nil, nonce, key)
    }
    return header + nonce + box
  }

  /// Opens a value; nil if it was sealed by another key or for another place, or altered.
  func open(_ sealed: [UInt8], at place: SealedPlace) -> [UInt8]? {
    let start = Self.headerBytes + Self.nonceBytes
    let associated = place.associatedData
    guard sealed.starts(with: header), sealed.count >= start + Self.macBytes else { return nil }
    let length = sealed.count - start
    var plaintext = [UInt8](repeating: 0, count: length - Self.macBytes)
    let status = sealed.withUnsafeBufferPointer { sealed in
      sealed.baseAddress.map { sealed in
        key.withSodium { key in
          crypto_aead_xchacha20poly1305_ietf_decrypt(
            &plaintext, nil, nil, sealed + start, UInt64(length), associated, UInt64(associated.count),
            sealed + Self.headerBytes, key)
        }
      }
    }
    return status == 0 ? plaintext : nil
  }
}

extension SymmetricKey {
  /// Derives a key for one use.
  func derived(_ use: String) -> SymmetricKey {
    HKDF<SHA256>.deriveKey(
      inputKeyMaterial: self, info: Data("push-bouncer \(use)".utf8), outputByteCount: StorageKey.keyBytes)
  }
}
