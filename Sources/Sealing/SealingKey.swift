internal import CSodium
internal import Crypto
internal import Foundation

/// A key that encrypts stored values: XChaCha20-Poly1305 with a random nonce and associated data.
///
/// A value is `1
/// first 3 bytes of the key's id
/// nonce (24)
/// ciphertext
/// MAC (16)`, so its first four bytes show which key sealed it.
final class SealingKey: Sendable {
  static let headerBytes = 4

  /// Identifies the key without revealing it: 16 bytes.
  let id: [UInt8]
  /// The first bytes of every value that the key has sealed.
  let header: [UInt8]
  private let key: SecretBytes

  /// From the 32 bytes of the root key.
  init(_ root: SymmetricKey) {
    Sodium.ready
    key = root.derived("sealing of rows").withUnsafeBytes { SecretBytes($0) }
    id = root.derived("id").withUnsafeBytes { Array($0.prefix(16)) }
    header = [1] + id.prefix(Self.headerBytes - 1)
  }

  func seal(_ plaintext: [UInt8], at place: SealedPlace) -> [UInt8] {
    AEAD.seal(plaintext, after: header, place.associatedData, key)
  }

  /// Opens a value; nil if it was sealed by another key or for another place, or altered.
  func open(_ sealed: [UInt8], at place: SealedPlace) -> [UInt8]? {
    guard sealed.starts(with: header) else { return nil }
    return AEAD.open(sealed, after: Self.headerBytes, place.associatedData, key)
  }
}

extension SymmetricKey {
  /// Derives a key for one use.
  func derived(_ use: String) -> SymmetricKey {
    HKDF<SHA256>.deriveKey(
      inputKeyMaterial: self, info: Data("push-bouncer \(use)".utf8), outputByteCount: StorageKey.keyBytes)
  }
}

/// XChaCha20-Poly1305 (IETF).
private enum AEAD {
  private static let nonceBytes = 24
  private static let macBytes = 16

  static func seal(
    _ plaintext: [UInt8], after header: [UInt8], _ associated: [UInt8], _ key: SecretBytes
  ) -> [UInt8] {
    let prefix = header + Sodium.randomBytes(nonceBytes)
    let count = prefix.count + plaintext.count + macBytes
    return key.withBytes { key in
      [UInt8](unsafeUninitializedCapacity: count) { output, initialized in
        let start = output.baseAddress!  // count > 0, so there is an address
        start.update(from: prefix, count: prefix.count)
        crypto_aead_xchacha20poly1305_ietf_encrypt(
          start + prefix.count, nil, plaintext, UInt64(plaintext.count), associated, UInt64(associated.count),
          nil, start + header.count, key.baseAddress!)  // 32 bytes
        initialized = count
      }
    }
  }

  static func open(
    _ sealed: [UInt8], after header: Int, _ associated: [UInt8], _ key: SecretBytes
  ) -> [UInt8]? {
    let count = sealed.count - header - nonceBytes - macBytes
    guard count >= 0 else { return nil }
    var opened = false
    let plaintext = key.withBytes { key in
      sealed.withUnsafeBufferPointer { input in
        [UInt8](unsafeUninitializedCapacity: count) { output, initialized in
          let nonce = input.baseAddress! + header  // longer than the overhead, so there is an address
          opened =
            crypto_aead_xchacha20poly1305_ietf_decrypt(
              output.baseAddress, nil, nil, nonce + nonceBytes, UInt64(count + macBytes), associated,
              UInt64(associated.count), nonce, key.baseAddress!) == 0  // 32 bytes
          initialized = opened ? count : 0
        }
      }
    }
    return opened ? plaintext : nil
  }
}
