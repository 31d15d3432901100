internal import CSodium

/// libsodium's `crypto_box_seal`: anyone who knows the public key can seal, only the holder of the
/// private key can open (`Documentation/Protocols/Zulip.md` 5.3). Adds 48 bytes.
package enum SealedBox {
  /// Bytes that sealing adds: an ephemeral public key and the MAC.
  package static let overhead = 48

  /// Seals to a public key of 32 bytes; nil if it is not a public key.
  package static func seal(_ plaintext: [UInt8], to publicKey: [UInt8]) -> [UInt8]? {
    Sodium.ready
    guard publicKey.count == BouncerKeyPair.keyBytes else { return nil }
    var sealed = [UInt8](repeating: 0, count: plaintext.count + overhead)
    return crypto_box_seal(&sealed, plaintext, UInt64(plaintext.count), publicKey) == 0 ? sealed : nil
  }
}
