public import Foundation
public import PushBouncerClient

#if canImport(Clibsodium)
  internal import Clibsodium
#else
  internal import CSodium
#endif

extension Registration {
  /// Seals a registration for the gateway, so that nobody between the app and push-bouncer sees the token. It is good for a day.
  ///
  /// - Parameter publicKey: the bouncer's, 32 bytes in base64, compiled into the app (`push-bouncer keys list`).
  public func sealed(to publicKey: String) throws -> Registration {
    .sealed(try Sodium.seal(sealable(audience: "webpush"), to: publicKey), to: publicKey)
  }
}

/// The key for which a Zulip server encrypts notifications, which an app makes and gives to it (SecretBox: XSalsa20 and
/// Poly1305). Zulip's apps make a new one each month, and keep the old one for a month more.
public struct ZulipPushKey: Codable, Sendable, Equatable, CustomStringConvertible {
  /// Names the key in notifications: `push_key_id`.
  public let id: UInt32
  /// 32 bytes.
  private let key: Data

  /// Makes a new one.
  public init() {
    id = .random(in: 0 ... .max)
    key = Sodium.randomBytes(32)
  }

  /// - Parameters:
  ///   - id: what names it in notifications.
  ///   - text: its form for the server (``text``); nil if that is not one of a key.
  public init?(id: UInt32, text: String) {
    guard let bytes = Data(base64Encoded: text), bytes.count == 33, bytes[0] == 0x31 else { return nil }
    self.id = id
    key = Data(bytes[1...])
  }

  /// For the server: a byte that says SecretBox, and the key, in base64.
  public var text: String { (Data([0x31]) + key).base64EncodedString() }

  /// Without the key.
  public var description: String { "ZulipPushKey(\(id))" }

  /// The text of a notification.
  ///
  /// - Parameter encrypted: the push's `encrypted_data`, base64 of nonce (24 bytes), MAC (16) and ciphertext.
  /// - Throws: ``PushError/unreadable``.
  public func open(_ encrypted: String) throws(PushError) -> Data {
    guard encrypted.utf8.count <= 8192, let sealed = Data(base64Encoded: encrypted),
      let text = Sodium.open(sealed, key: key)
    else { throw .unreadable }
    return text
  }
}

/// What a Zulip server's `POST /api/v1/mobile_push/register` takes, beside `device_id`.
public struct ZulipRegistration: Sendable {
  /// The form's fields.
  public let fields: [String: String]

  /// - Parameters:
  ///   - publicKey: the bouncer's, 32 bytes in base64, compiled into the app.
  ///   - key: the app's at this server; the same one when only the token has changed.
  public init(_ registration: Registration, key: ZulipPushKey, publicKey: String) throws {
    fields = [
      "push_key_id": String(key.id), "push_key": key.text, "token_kind": registration.kind ?? "",
      "token_id": Sodium.tokenID(registration.token ?? ""), "bouncer_public_key": publicKey,
      "encrypted_push_registration": try Sodium.seal(registration.sealable(), to: publicKey),
    ]
  }
}

extension Registration {
  /// What is sealed: its members, and when that was.
  ///
  /// - Parameter audience: nil for Zulip's bouncer.
  fileprivate func sealable(audience: String? = nil) throws -> Data {
    let content = Sealable(
      token: token, kind: kind, appID: appID, audience: audience, timestamp: Int(Date().timeIntervalSince1970)
    )
    return try JSONEncoder().encode(content)
  }
}

private struct Sealable: Encodable {
  enum CodingKeys: String, CodingKey {
    case token, audience, timestamp
    case kind = "token_kind"
    case appID = "ios_app_id"
  }

  let token, kind, appID, audience: String?
  /// Seconds since 1970.
  let timestamp: Int
}

/// The library libsodium.
private enum Sodium {
  private static let isReady: Void = {
    precondition(sodium_init() >= 0, "the system gives no random numbers")
  }()

  static func randomBytes(_ count: Int) -> Data {
    isReady
    var bytes = [UInt8](repeating: 0, count: count)
    randombytes_buf(&bytes, count)
    return Data(bytes)
  }

  /// A sealed box, in base64: only who has the private key can open it.
  static func seal(_ text: Data, to publicKey: String) throws -> String {
    isReady
    var box = [UInt8](repeating: 0, count: text.count + 48)
    guard let key = Data(base64Encoded: publicKey), key.count == 32,
      crypto_box_seal(&box, Array(text), UInt64(text.count), Array(key)) == 0
    else { throw PushError.malformed("the bouncer's public key") }
    return Data(box).base64EncodedString()
  }

  /// Opens a SecretBox; nil if it is sealed with another key, or was changed.
  static func open(_ sealed: Data, key: Data) -> Data? {
    isReady
    guard sealed.count >= 40, key.count == 32 else { return nil }
    let box = Array(sealed[24...])
    var text = [UInt8](repeating: 0, count: box.count - 16)
    return crypto_secretbox_open_easy(&text, box, UInt64(box.count), Array(sealed[..<24]), Array(key)) == 0
      ? Data(text) : nil
  }

  /// Zulip's `token_id`: the first 8 bytes of the token's SHA-256, in base64.
  static func tokenID(_ token: String) -> String {
    var hash = [UInt8](repeating: 0, count: 32)
    crypto_hash_sha256(&hash, Array(token.utf8), UInt64(token.utf8.count))
    return Data(hash[..<8]).base64EncodedString()
  }
}
