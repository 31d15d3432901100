public import Foundation
public import PushBouncerClient

#if canImport(Clibsodium)
  internal import Clibsodium
#else
  internal import CSodium
#endif

private let isSodiumReady = sodium_init() >= 0

extension Registration {
  /// Sealed for the gateway, so that nobody on the way sees the token; good for a day. `publicKey` is the bouncer's, 32 bytes in
  /// base64 (`push-bouncer keys list`), compiled into the app.
  public func sealed(to publicKey: String) throws -> Registration {
    Registration(members: [
      "encrypted_push_registration": try box(to: publicKey, audience: "webpush"),
      "bouncer_public_key": publicKey,
    ])
  }

  /// The members and the time in a sealed box in base64, which only the bouncer opens. Zulip's wire has no audience.
  fileprivate func box(to publicKey: String, audience: String? = nil) throws -> String {
    var content: [String: Any] = members
    content["audience"] = audience
    content["timestamp"] = Int(Date().timeIntervalSince1970)
    let text = Array(try JSONSerialization.data(withJSONObject: content))
    var box = [UInt8](repeating: 0, count: text.count + 48)
    guard isSodiumReady, let key = Data(base64Encoded: publicKey), key.count == 32,
      crypto_box_seal(&box, text, UInt64(text.count), Array(key)) == 0
    else { throw PushError.malformed("the bouncer's public key") }
    return Data(box).base64EncodedString()
  }
}

/// The key for which a Zulip server encrypts notifications (SecretBox). An app makes it and gives it to the server; Zulip's apps
/// make a new one each month, and keep the one before for a month more.
public struct ZulipPushKey: Codable, Sendable, Equatable, CustomStringConvertible {
  /// Names the key in notifications: `push_key_id`.
  public let id: UInt32
  /// 32 bytes.
  private let key: Data

  /// Makes a new one.
  public init() {
    id = .random(in: 0 ... .max)
    key = Data((0..<32).map { _ in .random(in: .min ... .max) })
  }

  /// For the server: base64 of a byte that says SecretBox, and the key.
  public var text: String { (Data([0x31]) + key).base64EncodedString() }

  /// Without what is secret.
  public var description: String { "ZulipPushKey(\(id))" }

  /// The text of a notification's `encrypted_data`: base64 of nonce (24 bytes), MAC (16) and ciphertext.
  ///
  /// - Throws: ``PushError/unreadable``.
  public func open(_ encrypted: String) throws(PushError) -> Data {
    guard isSodiumReady, encrypted.utf8.count <= 8192, key.count == 32,
      let sealed = Data(base64Encoded: encrypted), sealed.count >= 24 + 16
    else { throw .unreadable }
    let (nonce, box) = (Array(sealed.prefix(24)), Array(sealed.dropFirst(24)))
    var text = [UInt8](repeating: 0, count: box.count - 16)
    guard crypto_secretbox_open_easy(&text, box, UInt64(box.count), nonce, Array(key)) == 0 else {
      throw .unreadable
    }
    return Data(text)
  }

  /// The fields of a Zulip server's `POST /api/v1/mobile_push/register`, beside `device_id`; `publicKey` as above.
  public func fields(for registration: Registration, to publicKey: String) throws -> [String: String] {
    let (kind, token) = (registration.members["token_kind"] ?? "", registration.members["token"] ?? "")
    var hash = [UInt8](repeating: 0, count: 32)
    crypto_hash_sha256(&hash, Array(token.utf8), UInt64(token.utf8.count))
    return [
      "push_key_id": "\(id)", "push_key": text, "token_kind": kind, "bouncer_public_key": publicKey,
      "token_id": Data(hash.prefix(8)).base64EncodedString(),
      "encrypted_push_registration": try registration.box(to: publicKey),
    ]
  }
}
