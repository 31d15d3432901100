import Crypto
import Foundation
import HTTP
import NextcloudProxy
import Sealing

/// A phone's registration for pushes of a Nextcloud user with the server side
/// (`Documentation/Protocols/Nextcloud.md` 5.3).
struct NextcloudRegistration: Sendable, Hashable {
  /// The validated contents of a registration.
  struct Description: Sendable, Hashable {
    /// Row id of the user.
    var user: Int64
    /// Id of the app password that the phone has signed in with; each has at most one registration.
    var appPassword: Int64
    /// SHA-512 that identifies it to proxies, 64 bytes in base64.
    var deviceIdentifier: String
    /// Public key for encrypting its pushes, in PEM as it was sent.
    var deviceKey: String
    /// SHA-512 of its push token, in lower-case hex.
    var pushTokenHash: String
    /// URL of the proxy as the phone named it.
    var proxyServer: String
    var appKind: NextcloudApp.Kind

    /// The proxy's URL without final slashes.
    var proxyURL: String { NextcloudRegistration.trimmed(proxyServer) }
  }

  let id: Int64
  let description: Description
  /// Time of the last registration, in whole milliseconds: an answer about an older one does not end it.
  let registeredAt: Date

  /// A URL without final slashes.
  static func trimmed(_ proxy: String) -> String {
    String(proxy[..<(proxy.lastIndex { $0 != "/" }.map(proxy.index(after:)) ?? proxy.startIndex)])
  }
}

/// The identity of a phone at push proxies: the hash of a text that only the server knows, and the user's
/// signature over that text (`Documentation/Protocols/Nextcloud.md` 2.2).
struct DeviceIdentity: Sendable {
  /// The text: PHP's `json_encode([cloudId, tokenId])`.
  let preimage: [UInt8]

  /// The identity of the phone signed in with an app password.
  init(cloudID: String, appPassword: Int64) {
    preimage = JSON.array([.string(cloudID), .integer(appPassword)]).php()
  }

  /// SHA-512 of the preimage, in base64.
  var identifier: String { Base64.encode(Array(SHA512.hash(data: Data(preimage)))) }

  /// The signature, in base64. It covers the preimage: proxies use the identifier as its digest.
  func signature(by key: RSAPrivateKey) -> String { Base64.encode(key.sign(preimage)) }

  /// `userid@host[:port][/webroot]` of a user at an instance.
  static func cloudID(of username: String, at url: String) -> String {
    let host = url.range(of: "://").map { url[$0.upperBound...] } ?? url[...]
    return "\(username)@\(NextcloudRegistration.trimmed(String(host)))"
  }
}
