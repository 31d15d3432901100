public import Foundation

#if canImport(CryptoKit)
  internal import CryptoKit
#else
  internal import Crypto
#endif

/// The keys for which chat servers encrypt messages (RFC 8291 sections 2 and 3). An app makes them once for each account,
/// keeps them where its notification service extension can read them too, and shows nobody the private one.
public struct WebPushKeys: Codable, Sendable, Equatable, CustomStringConvertible {
  /// The private key on P-256, 32 bytes.
  private let key: Data
  /// The authentication secret, 16 bytes.
  private let authentication: Data

  /// Makes new keys.
  public init() {
    key = P256.KeyAgreement.PrivateKey().rawRepresentation
    authentication = SymmetricKey(size: .bits128).withUnsafeBytes { Data($0) }
  }

  /// Keys that are there already.
  ///
  /// - Parameters:
  ///   - privateKey: 32 bytes.
  ///   - authentication: 16 bytes.
  public init(privateKey: Data, authentication: Data) {
    (key, self.authentication) = (privateKey, authentication)
  }

  /// The public key for the chat server: 65 bytes in base64url.
  public var p256dh: String { (try? Base64URL.encode(pair().publicKey.x963Representation)) ?? "" }

  /// The secret for the chat server: 16 bytes in base64url.
  public var auth: String { Base64URL.encode(authentication) }

  /// Without the keys.
  public var description: String { "WebPushKeys(\(p256dh))" }

  private func pair() throws -> P256.KeyAgreement.PrivateKey { try .init(rawRepresentation: key) }

  /// The text of a message.
  ///
  /// - Throws: ``PushError/unreadable``.
  public func open(_ message: EncryptedMessage) throws(PushError) -> Data {
    do {
      return switch message.encoding {
      case .aes128gcm: try openAES128GCM(message.body)
      case .aesgcm(let sender, let salt): try openDraft(message.body, sender: sender, salt: salt)
      }
    } catch {
      throw .unreadable
    }
  }

  /// RFC 8188 section 2.1: a salt of 16 bytes, the size of records in 4, and the sender's public key after its length. Web Push
  /// has one record.
  private func openAES128GCM(_ body: Data) throws -> Data {
    let body = Data(body)
    guard body.count >= 86 + 17, body[20] == 65 else { throw PushError.unreadable }
    let (salt, sender, record) = (body[..<16], body[21..<86], body[86...])
    guard record.count <= body[16..<20].reduce(0, { $0 << 8 | Int($1) }) else { throw PushError.unreadable }
    let pair = try pair()
    let shared = try pair.sharedSecretFromKeyAgreement(with: .init(x963Representation: sender))
    let input = shared.hkdfDerivedSymmetricKey(
      using: SHA256.self, salt: authentication,
      sharedInfo: Data("WebPush: info\0".utf8) + pair.publicKey.x963Representation + sender,
      outputByteCount: 32)
    let padded = try Self.open(
      record, input, salt, key: Data("Content-Encoding: aes128gcm\0".utf8),
      nonce: Data("Content-Encoding: nonce\0".utf8))
    // The text, 2 for the last record, and zeros.
    guard let end = padded.lastIndex(where: { $0 != 0 }), padded[end] == 2 else {
      throw PushError.unreadable
    }
    return padded[..<end]
  }

  /// The draft that RFC 8291 came from (draft-ietf-webpush-encryption-04), which Mastodon sends.
  private func openDraft(_ body: Data, sender: Data, salt: Data) throws -> Data {
    guard body.count >= 18, salt.count == 16 else { throw PushError.unreadable }
    let pair = try pair()
    let shared = try pair.sharedSecretFromKeyAgreement(with: .init(x963Representation: sender))
    let input = shared.hkdfDerivedSymmetricKey(
      using: SHA256.self, salt: authentication, sharedInfo: Data("Content-Encoding: auth\0".utf8),
      outputByteCount: 32
    )
    let context =
      Data("P-256\0".utf8) + Self.counted(pair.publicKey.x963Representation) + Self.counted(sender)
    let padded = try Self.open(
      body, input, salt, key: Data("Content-Encoding: aesgcm\0".utf8) + context,
      nonce: Data("Content-Encoding: nonce\0".utf8) + context)
    // The number of zeros in two bytes, the zeros, and the text.
    let padding = Int(padded[0]) << 8 | Int(padded[1])
    guard padded.count >= 2 + padding, padded[2..<2 + padding].allSatisfy({ $0 == 0 }) else {
      throw PushError.unreadable
    }
    return Data(padded[(2 + padding)...])
  }

  private static func counted(_ bytes: Data) -> Data { Data([0, UInt8(bytes.count)]) + bytes }

  /// Opens a record with the key and the nonce that are derived with these texts.
  private static func open(
    _ record: Data, _ input: SymmetricKey, _ salt: Data, key: Data, nonce: Data
  ) throws -> Data {
    func derive(_ info: Data, _ count: Int) -> SymmetricKey {
      HKDF<SHA256>.deriveKey(inputKeyMaterial: input, salt: salt, info: info, outputByteCount: count)
    }
    let nonce = try AES.GCM.Nonce(data: derive(nonce, 12).withUnsafeBytes { Data($0) })
    let box = try AES.GCM.SealedBox(
      nonce: nonce, ciphertext: record.dropLast(16), tag: record.suffix(16))
    return try AES.GCM.open(box, using: derive(key, 16))
  }
}
