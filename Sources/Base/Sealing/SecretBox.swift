import CSodium
import Crypto

/// Authenticated encryption with libsodium's `crypto_secretbox_easy` (XSalsa20 and Poly1305). A sealed box is a random
/// nonce (24 bytes), the MAC (16 bytes) and the ciphertext (`Documentation/Protocols/Zulip.md` 5.6).
package enum SecretBox {
  /// The size of a key in bytes.
  static let keyBytes = 32
  /// Bytes that sealing adds: nonce and MAC.
  package static let overhead = nonceBytes + macBytes
  private static let nonceBytes = 24
  private static let macBytes = 16

  /// Encrypts with a 32-byte key.
  ///
  /// - Parameter nonce: given only for test vectors, since a nonce must never be used twice.
  static func seal(
    _ plaintext: [UInt8], key: SymmetricKey, nonce: [UInt8] = Sodium.randomBytes(nonceBytes)
  ) -> [UInt8] {
    precondition(key.bitCount == keyBytes * 8 && nonce.count == nonceBytes)
    var box = [UInt8](repeating: 0, count: plaintext.count + macBytes)
    _ = key.withSodium { crypto_secretbox_easy(&box, plaintext, UInt64(plaintext.count), nonce, $0) }
    return nonce + box
  }

  /// Decrypts the output of ``seal(_:key:nonce:)``; nil if it was sealed with another key or altered.
  static func open(_ sealed: [UInt8], key: SymmetricKey) -> [UInt8]? {
    precondition(key.bitCount == keyBytes * 8)
    guard sealed.count >= overhead else { return nil }
    let nonce = Array(sealed[..<nonceBytes])
    let box = Array(sealed[nonceBytes...])
    var plaintext = [UInt8](repeating: 0, count: box.count - macBytes)
    let status = key.withSodium { crypto_secretbox_open_easy(&plaintext, box, UInt64(box.count), nonce, $0) }
    return status == 0 ? plaintext : nil
  }
}

/// Encryption to a public key with libsodium's `crypto_box_seal`: anyone with the public key can encrypt, and only the
/// holder of the private key can decrypt (`Documentation/Protocols/Zulip.md` 5.3). Adds 48 bytes.
package enum SealedBox {
  /// Bytes that sealing adds: an ephemeral public key and the MAC.
  package static let overhead = 48

  /// Encrypts to a public key of 32 bytes; nil if that is not a valid public key.
  package static func seal(_ plaintext: [UInt8], to publicKey: [UInt8]) -> [UInt8]? {
    Sodium.ready
    guard publicKey.count == BouncerKeyPair.keyBytes else { return nil }
    var sealed = [UInt8](repeating: 0, count: plaintext.count + overhead)
    return crypto_box_seal(&sealed, plaintext, UInt64(plaintext.count), publicKey) == 0 ? sealed : nil
  }
}

/// The library libsodium, initialised once per process.
enum Sodium {
  /// Must be evaluated before any call of libsodium.
  static let ready: Void = {
    precondition(sodium_init() >= 0, "libsodium could not be initialised: the system gives no random numbers")
  }()

  static func randomBytes(_ count: Int) -> [UInt8] {
    ready
    var bytes = [UInt8](repeating: 0, count: count)
    randombytes_buf(&bytes, count)
    return bytes
  }
}

extension SymmetricKey {
  /// Calls `body` with the key's bytes as libsodium takes them, valid only inside `body`.
  func withSodium<Result>(_ body: (UnsafePointer<UInt8>) -> Result) -> Result {
    Sodium.ready
    // No key is empty, so there is an address.
    return withUnsafeBytes { body($0.bindMemory(to: UInt8.self).baseAddress!) }
  }
}
