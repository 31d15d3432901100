internal import Crypto
internal import Foundation
internal import HTTP
internal import Sealing

/// What a phone is to push proxies: the hash of a text that only the server knows, and the user's signature over
/// that text (`Documentation/Protocols/Nextcloud.md` 2.2).
struct DeviceIdentity: Sendable {
  /// PHP's `json_encode([cloudId, tokenId])`.
  let preimage: [UInt8]

  /// The identity of the phone that has signed in with an app password.
  init(cloudID: String, appPassword: Int64) {
    preimage = JSON.array([.string(cloudID), .integer(appPassword)]).php()
  }

  /// SHA-512 of the preimage, in base64.
  var identifier: String { Base64.encode(Array(SHA512.hash(data: Data(preimage)))) }

  /// The signature, in base64: over the preimage and not the identifier, which proxies take as its digest.
  func signature(by key: RSAPrivateKey) -> String { Base64.encode(key.sign(preimage)) }

  /// `userid@host[:port][/webroot]` of a user at an instance.
  static func cloudID(of username: String, at url: String) -> String {
    let host = url.range(of: "://").map { url[$0.upperBound...] } ?? url[...]
    return "\(username)@\(NextcloudRegistration.trimmed(String(host)))"
  }
}
