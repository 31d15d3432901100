internal import CSodium

/// libsodium's `crypto_secretbox_easy` (XSalsa20 and Poly1305) with a random nonce in front: `nonce (24)
/// MAC (16)
/// ciphertext` (`Documentation/Protocols/Zulip.md` 5.6).
package enum SecretBox {
  /// Bytes in a key.
  package static let keyBytes = 32
  /// Bytes that sealing adds: nonce and MAC.
  package static let overhead = nonceBytes + macBytes
  static let nonceBytes = 24
  static let macBytes = 16

  /// Encrypts with a 32-byte key and a random nonce.
  package static func seal(_ plaintext: [UInt8], key: [UInt8]) -> [UInt8] {
    seal(plaintext, key: key, nonce: Sodium.randomBytes(nonceBytes))
  }

  /// Encrypts with a given nonce. Only for test vectors, since a nonce must never be used twice.
  static func seal(_ plaintext: [UInt8], key: [UInt8], nonce: [UInt8]) -> [UInt8] {
    Sodium.ready
    precondition(key.count == keyBytes && nonce.count == nonceBytes)
    let count = overhead + plaintext.count
    return [UInt8](unsafeUninitializedCapacity: count) { output, initialized in
      output.baseAddress!.update(from: nonce, count: nonceBytes)  // count > 0, so there is an address
      crypto_secretbox_easy(
        output.baseAddress! + nonceBytes, plaintext, UInt64(plaintext.count), nonce, key)
      initialized = count
    }
  }

  /// Decrypts the output of ``seal(_:key:)``; nil if another key was used or it was altered.
  package static func open(_ sealed: some Collection<UInt8>, key: [UInt8]) -> [UInt8]? {
    Sodium.ready
    precondition(key.count == keyBytes)
    guard sealed.count >= overhead else { return nil }
    let sealed = Array(sealed)
    let count = sealed.count - overhead
    var opened = false
    let plaintext = sealed.withUnsafeBufferPointer { input in
      [UInt8](unsafeUninitializedCapacity: count) { output, initialized in
        // The guard above leaves at least the overhead, so there is an address.
        let start = input.baseAddress!
        opened =
          crypto_secretbox_open_easy(
            output.baseAddress, start + nonceBytes, UInt64(count + macBytes), start, key) == 0
        initialized = opened ? count : 0
      }
    }
    return opened ? plaintext : nil
  }
}

/// libsodium's `crypto_box_seal`: anyone with the public key can encrypt, and only the holder of the private
/// key can decrypt (`Documentation/Protocols/Zulip.md` 5.3). Adds 48 bytes.
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

/// libsodium, initialised once per process.
enum Sodium {
  /// Must be evaluated before any call of libsodium.
  static let ready: Void = {
    precondition(sodium_init() >= 0, "libsodium could not be initialised: the system gives no random numbers")
  }()

  static func randomBytes(_ count: Int) -> [UInt8] {
    ready
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      if let start = buffer.baseAddress { randombytes_buf(start, count) }
      initialized = count
    }
  }
}
