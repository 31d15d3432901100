import Crypto
import Foundation
import NIOCore

/// Encrypts messages for a subscription, with the content coding `aes128gcm` (RFC 8188, RFC 8291).
enum WebPushEncryption {
  /// Bytes of a record: all that a push service has to take, so that a message is one record.
  private static let recordSize: UInt32 = 4096
  private static let saltSize = 16

  /// The body of a request.
  ///
  /// - Parameters:
  ///   - sender: a key pair for this message alone.
  ///   - salt: 16 random bytes.
  /// - Throws: swift-crypto's error where the phone's key is none; it was checked when the subscription was read.
  static func encrypt(
    _ plaintext: ByteBuffer, for subscription: WebPushSubscription,
    sender: P256.KeyAgreement.PrivateKey = P256.KeyAgreement.PrivateKey(), salt: [UInt8] = randomSalt()
  ) throws -> ByteBuffer {
    let phone = try P256.KeyAgreement.PublicKey(x963Representation: subscription.publicKey)
    let senderKey = sender.publicKey.x963Representation
    // RFC 8291 section 3.4.
    let input = try sender.sharedSecretFromKeyAgreement(with: phone).hkdfDerivedSymmetricKey(
      using: SHA256.self, salt: subscription.secret,
      sharedInfo: Data("WebPush: info\0".utf8) + subscription.publicKey + senderKey, outputByteCount: 32)
    // RFC 8188 sections 2.2 and 2.3.
    let random = HKDF<SHA256>.extract(inputKeyMaterial: input, salt: salt)
    let key = HKDF<SHA256>.expand(
      pseudoRandomKey: random, info: Data("Content-Encoding: aes128gcm\0".utf8), outputByteCount: 16)
    let nonce = HKDF<SHA256>.expand(
      pseudoRandomKey: random, info: Data("Content-Encoding: nonce\0".utf8), outputByteCount: 12)
    // 2 ends the last record.
    let record = try AES.GCM.seal(
      Data(plaintext.readableBytesView) + [2], using: key,
      nonce: nonce.withUnsafeBytes { try AES.GCM.Nonce(data: $0) })
    var body = ByteBuffer()
    body.reserveCapacity(saltSize + 5 + senderKey.count + record.ciphertext.count + record.tag.count)
    body.writeBytes(salt)
    body.writeInteger(recordSize)
    body.writeInteger(UInt8(senderKey.count))
    body.writeBytes(senderKey)
    body.writeBytes(record.ciphertext)
    body.writeBytes(record.tag)
    return body
  }

  private static func randomSalt() -> [UInt8] {
    var generator = SystemRandomNumberGenerator()
    return (0..<saltSize).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
  }
}
