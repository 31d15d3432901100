package import Crypto
import Foundation
import PushBouncerClient

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
  /// - Throws: a `PushError` if it does not open.
  package func open(_ body: [UInt8]) throws -> [UInt8] {
    let keys = WebPushKeys(privateKey: key.rawRepresentation, authentication: Data(secret))
    return Array(try keys.open(EncryptedMessage(Data(body), encoding: "aes128gcm")))
  }

  package static func base64URL(_ bytes: some Sequence<UInt8>) -> String {
    Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
      .replacing("=", with: "")
  }
}
