internal import CSodium

/// A bouncer's X25519 key pair: phones seal their registrations to its public key.
package final class BouncerKeyPair: Sendable {
  /// Bytes of either key.
  package static let keyBytes = 32

  /// The public key.
  package let publicKey: [UInt8]
  private let privateKey: SecretBytes

  /// A new random pair.
  package init() {
    Sodium.ready
    var publicKey = [UInt8](repeating: 0, count: Self.keyBytes)
    var privateKey = [UInt8](repeating: 0, count: Self.keyBytes)
    crypto_box_keypair(&publicKey, &privateKey)
    self.publicKey = publicKey
    self.privateKey = SecretBytes(privateKey)
    privateKey.wipe()
  }

  /// The pair of a private key, in base64; nil if that is not 32 bytes.
  package init?(privateKey base64: String) {
    Sodium.ready
    guard var bytes = Base64.decodeStrictly(base64) else { return nil }
    defer { bytes.wipe() }
    guard bytes.count == Self.keyBytes else { return nil }
    var publicKey = [UInt8](repeating: 0, count: Self.keyBytes)
    crypto_scalarmult_base(&publicKey, bytes)
    self.publicKey = publicKey
    privateKey = SecretBytes(bytes)
  }

  /// The public key as apps and servers name it.
  package var publicKeyBase64: String { Base64.encode(publicKey) }

  /// The private key, for its file and nothing else.
  package var privateKeyBase64: String { privateKey.withBytes { Base64.encode($0) } }

  /// Opens a sealed box; nil if it was sealed to another key or altered.
  package func open(_ sealed: [UInt8]) -> [UInt8]? {
    guard sealed.count >= SealedBox.overhead else { return nil }
    var plaintext = [UInt8](repeating: 0, count: sealed.count - SealedBox.overhead)
    let opened = privateKey.withBytes { privateKey in
      // 32 bytes, so there is an address.
      crypto_box_seal_open(&plaintext, sealed, UInt64(sealed.count), publicKey, privateKey.baseAddress!) == 0
    }
    return opened ? plaintext : nil
  }
}
