import Crypto
import Foundation
import NIOCore

/// What a push service is shown (RFC 8292): a JSON Web Token for its origin, and the key that has signed it.
enum VAPIDToken {
  /// From making it to its `exp`, in seconds; a push service takes none that is good for more than a day.
  static let lifetime: TimeInterval = 12 * 3600
  /// A token that is refused is not replaced sooner: another one would be refused, too.
  static let limits = TokenCache.Limits(minimumAge: 600)

  /// A token for an origin, as `https://push.example.org`.
  static func make(
    for origin: String, by webPush: PushProviders.Configuration.WebPush, now: Date
  ) -> Result<AccessToken, TokenFailure> {
    var claims = ByteBuffer()
    claims.writeStaticString(#"{"aud":"#)
    claims.writeJSON(origin)
    claims.writeString(#","exp":\#(Int((now.timeIntervalSince1970 + lifetime).rounded(.down))),"sub":"#)
    claims.writeJSON(webPush.contact)
    claims.writeStaticString("}")
    let header = Base64URL.encode(#"{"typ":"JWT","alg":"ES256"}"#.utf8)
    let signed = "\(header).\(Base64URL.encode(claims.readableBytesView))"
    guard let signature = try? webPush.key.privateKey.signature(for: Data(signed.utf8)) else {
      return .failure(.refused(.vapidRefused))
    }
    let token = "\(signed).\(Base64URL.encode(signature.rawRepresentation))"
    return .success(
      AccessToken(
        authorization: "vapid t=\(token), k=\(webPush.key.publicKey)", issuedAt: now,
        renewAt: now.addingTimeInterval(lifetime / 2), expiresAt: now.addingTimeInterval(lifetime - 1800)))
  }
}
