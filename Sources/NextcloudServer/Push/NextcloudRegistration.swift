internal import Crypto
internal import Foundation
internal import HTTP
internal import NextcloudProxy
internal import Sealing

/// A phone that gets a Nextcloud user's pushes, as it has registered with the server side
/// (`Documentation/Protocols/Nextcloud.md` 5.3).
struct NextcloudRegistration: Sendable, Hashable {
  /// What a phone sends, checked.
  struct Description: Sendable, Hashable {
    /// The row of its user.
    var user: Int64
    /// The app password that it has signed in with: there is one registration of each.
    var appPassword: Int64
    /// As proxies know it: 64 bytes in base64.
    var deviceIdentifier: String
    /// The public key that its pushes are encrypted with, in PEM as it was sent.
    var deviceKey: String
    /// SHA-512 of its push token, in lower-case hex.
    var pushTokenHash: String
    /// The proxy as it was named.
    var proxyServer: String
    var appKind: NextcloudApp.Kind

    /// The proxy without slashes at its end, as the sender calls it.
    var proxyURL: String { NextcloudRegistration.trimmed(proxyServer) }
  }

  let id: Int64
  let description: Description
  /// When it did so last, in whole milliseconds: one that was renewed since does not end.
  let registeredAt: Date

  /// A proxy's URL without slashes at its end.
  static func trimmed(_ proxy: String) -> String {
    String(proxy[..<(proxy.lastIndex { $0 != "/" }.map(proxy.index(after:)) ?? proxy.startIndex)])
  }
}

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
