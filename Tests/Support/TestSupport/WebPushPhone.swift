package import Crypto
import Foundation

/// An app's end of a Web Push subscription: its keys, and what opens the messages that come (RFC 8291).
package struct WebPushPhone: Sendable {
  package let key = P256.KeyAgreement.PrivateKey()
  private let secret = (0..<16).map { _ in UInt8.random(in: 0...255) }

  package init() {}

  /// `p256dh` as apps spell it.
  package var publicKey: String { Self.base64URL(key.publicKey.x963Representation) }
  /// `auth` likewise.
  package var auth: String { Self.base64URL(secret) }

  /// The push token of a subscription with these keys.
  package func token(at endpoint: String) -> String {
    Self.token(#"{"endpoint":"\#(endpoint)","p256dh":"\#(publicKey)","auth":"\#(auth)"}"#)
  }

  /// A push token of any text.
  package static func token(_ json: String) -> String { "webpush:" + base64URL(json.utf8) }

  /// What a message says: one record of `aes128gcm`.
  ///
  /// - Throws: swift-crypto's error if it does not open.
  package func open(_ body: [UInt8]) throws -> [UInt8] {
    guard body.count >= 21 + 65 + 17, body[20] == 65 else { throw CryptoKitError.incorrectParameterSize }
    let (salt, sender, sealed) = (body[..<16], body[21..<86], body[86...])
    let shared = try key.sharedSecretFromKeyAgreement(
      with: P256.KeyAgreement.PublicKey(x963Representation: sender))
    let secret = shared.hkdfDerivedSymmetricKey(
      using: SHA256.self, salt: secret,
      sharedInfo: Data("WebPush: info\0".utf8) + key.publicKey.x963Representation + sender,
      outputByteCount: 32)
    func derived(_ purpose: String, _ count: Int) -> SymmetricKey {
      HKDF<SHA256>.deriveKey(
        inputKeyMaterial: secret, salt: salt, info: Data("Content-Encoding: \(purpose)\0".utf8),
        outputByteCount: count)
    }
    let nonce = try derived("nonce", 12).withUnsafeBytes { try AES.GCM.Nonce(data: $0) }
    let box = try AES.GCM.SealedBox(
      nonce: nonce, ciphertext: sealed.dropLast(16), tag: sealed.suffix(16))
    let record = try AES.GCM.open(box, using: derived("aes128gcm", 16))
    guard let end = record.lastIndex(where: { $0 != 0 }), record[end] == 2 else {
      throw CryptoKitError.authenticationFailure
    }
    return Array(record[..<end])
  }

  package static func base64URL(_ bytes: some Sequence<UInt8>) -> String {
    Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
      .replacing("=", with: "")
  }
}
