public import Foundation

#if canImport(CryptoKit)
  internal import CryptoKit
#else
  internal import Crypto
#endif

/// The keys for which chat servers encrypt messages (RFC 8291). An app makes them once for each account, and keeps them where its
/// notification service extension can read them too.
public struct WebPushKeys: Codable, Sendable, Equatable, CustomStringConvertible {
  /// On P-256, 32 bytes.
  private let privateKey: Data
  /// 16 bytes.
  private let authentication: Data

  /// Makes new keys.
  public init() {
    privateKey = P256.KeyAgreement.PrivateKey().rawRepresentation
    authentication = SymmetricKey(size: .bits128).withUnsafeBytes { Data($0) }
  }

  /// Keys of 32 and 16 bytes that are there already.
  public init(privateKey: Data, authentication: Data) {
    (self.privateKey, self.authentication) = (privateKey, authentication)
  }

  /// The public key for the chat server: 65 bytes in base64url.
  public var p256dh: String { (try? Base64URL.encode(pair().publicKey.x963Representation)) ?? "" }

  /// The authentication secret for the chat server: 16 bytes in base64url.
  public var auth: String { Base64URL.encode(authentication) }

  /// Without what is secret.
  public var description: String { "WebPushKeys(\(p256dh))" }

  /// The text of a message.
  ///
  /// - Throws: ``PushError/unreadable``.
  public func open(_ message: EncryptedMessage) throws(PushError) -> Data {
    let opened = try? message.salt == nil ? openStandard(message.body) : openDraft(message)
    guard let text = opened else { throw .unreadable }
    return text
  }

  /// RFC 8188: a salt of 16 bytes, the records' size in 4, the length of the sender's public key, that, and one record.
  private func openStandard(_ body: Data) throws -> Data? {
    guard body.count >= 86 + 17, body[20] == 65 else { return nil }
    let (salt, sender, record) = (body[..<16], body[21..<86], body[86...])
    guard record.count <= body[16..<20].reduce(0, { $0 << 8 | Int($1) }) else { return nil }
    let padded = try open(
      record, from: sender, salt, Data("WebPush: info\0".utf8) + pair().publicKey.x963Representation + sender,
      name: "aes128gcm", context: Data())
    // The text, 2 for the last record, and zeros.
    guard let end = padded.lastIndex(where: { $0 != 0 }), padded[end] == 2 else { return nil }
    return padded[..<end]
  }

  /// draft-ietf-webpush-encryption-04, which Mastodon sends.
  private func openDraft(_ message: EncryptedMessage) throws -> Data? {
    guard message.body.count >= 18, let sender = message.sender, let salt = message.salt else { return nil }
    let length = Data([0, 65])
    let padded = try open(
      message.body, from: sender, salt, Data("Content-Encoding: auth\0".utf8), name: "aesgcm",
      context: Data("P-256\0".utf8) + length + pair().publicKey.x963Representation + length + sender)
    // The number of zeros in two bytes, the zeros, and the text.
    let start = 2 + (Int(padded[0]) << 8 | Int(padded[1]))
    guard padded.count >= start, padded[2..<start].allSatisfy({ $0 == 0 }) else { return nil }
    return Data(padded[start...])
  }

  private func pair() throws -> P256.KeyAgreement.PrivateKey { try .init(rawRepresentation: privateKey) }

  /// Decrypts a record. Its key and nonce are derived from what both sides share, the salt and these texts.
  private func open(
    _ record: Data, from sender: Data, _ salt: Data, _ info: Data, name: String, context: Data
  )
    throws -> Data
  {
    let input = try pair().sharedSecretFromKeyAgreement(with: .init(x963Representation: sender))
      .hkdfDerivedSymmetricKey(
        using: SHA256.self, salt: authentication, sharedInfo: info, outputByteCount: 32)
    func derive(_ name: String, _ count: Int) -> SymmetricKey {
      HKDF<SHA256>.deriveKey(
        inputKeyMaterial: input, salt: salt, info: Data("Content-Encoding: \(name)\0".utf8) + context,
        outputByteCount: count)
    }
    let nonce = try AES.GCM.Nonce(data: derive("nonce", 12).withUnsafeBytes { Data($0) })
    return try AES.GCM.open(
      .init(nonce: nonce, ciphertext: record.dropLast(16), tag: record.suffix(16)), using: derive(name, 16))
  }
}
