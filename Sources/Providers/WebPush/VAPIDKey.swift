package import Crypto
package import Foundation

/// The key pair that tells push services who sends (RFC 8292). Subscriptions are bound to it: it is made once and kept.
package struct VAPIDKey: Sendable {
  let privateKey: P256.Signing.PrivateKey

  /// A new one.
  package init() { privateKey = P256.Signing.PrivateKey() }

  /// The one with this secret of 32 bytes.
  ///
  /// - Throws: swift-crypto's error if it is none.
  package init(rawRepresentation: some ContiguousBytes) throws {
    privateKey = try P256.Signing.PrivateKey(rawRepresentation: rawRepresentation)
  }

  /// The secret, 32 bytes.
  package var rawRepresentation: Data { privateKey.rawRepresentation }

  /// The public key as apps subscribe with it: base64url of the uncompressed point, 87 characters.
  package var publicKey: String { Base64URL.encode(privateKey.publicKey.x963Representation) }
}
