import Crypto
import Foundation
import NIOCore

@testable import Providers

/// The receiving end of Web Push, by the text of RFC 8291 and RFC 8188 and with none of the sender's code.
struct TestPhone {
  let key = P256.KeyAgreement.PrivateKey()
  static func text(_ bytes: Data) -> String {
    String(
      bytes.base64EncodedString().filter { $0 != "=" }.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
  }

  let secret = Data((0..<16).map { _ in UInt8.random(in: .min ... .max) })

  func subscription(_ endpoint: String) throws -> WebPushSubscription {
    try WebPushSubscription(
      endpoint: endpoint, p256dh: Self.text(key.publicKey.x963Representation), auth: Self.text(secret))
  }

  static func bytes(_ text: some StringProtocol) -> Data? {
    let text = text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }
    return Data(base64Encoded: String(text) + String(repeating: "=", count: (4 - text.count % 4) % 4))
  }

  struct NoMessage: Error {}

  func open(_ body: ByteBuffer) throws -> String {
    let body = Data(body.readableBytesView)
    guard body.count >= 16 + 5 + 65 + 17, body[20] == 65 else { throw NoMessage() }
    let (salt, senderKey, record) = (body.prefix(16), body[21..<86], body[86...])
    let sender = try P256.KeyAgreement.PublicKey(x963Representation: senderKey)
    let shared = try key.sharedSecretFromKeyAgreement(with: sender)
    let input = shared.hkdfDerivedSymmetricKey(
      using: SHA256.self, salt: secret,
      sharedInfo: Data("WebPush: info".utf8) + [0] + key.publicKey.x963Representation + senderKey,
      outputByteCount: 32)
    func derive(_ info: String, _ count: Int) -> SymmetricKey {
      HKDF<SHA256>.deriveKey(
        inputKeyMaterial: input, salt: salt, info: Data(info.utf8) + [0], outputByteCount: count)
    }
    let nonce = derive("Content-Encoding: nonce", 12).withUnsafeBytes { Data($0) }
    let plaintext = try AES.GCM.open(
      .init(combined: nonce + record), using: derive("Content-Encoding: aes128gcm", 16))
    guard plaintext.last == 2 else { throw NoMessage() }
    return String(decoding: plaintext.dropLast(), as: UTF8.self)
  }
}
