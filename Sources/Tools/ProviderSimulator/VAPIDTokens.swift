import Crypto
import Foundation
import Providers

/// Checks who sends (RFC 8292).
final class VAPIDTokens: Sendable {
  private struct Claims: Decodable {
    let aud: String
    /// In whole seconds: a fraction does not decode.
    let exp: Int
    let sub: String
  }

  private struct Credentials {
    let token: String
    let key: Data
  }

  /// By the whole text of the `authorization` field.
  private let known = KnownTokens<(claims: Claims, key: Data)>()

  /// Throws what is wrong with an `authorization` field at `now`.
  ///
  /// - Parameters:
  ///   - origin: whom the token must be for; its port may be missing.
  ///   - key: the key that the subscription was made with.
  ///   - isNew: called for a good token not seen before.
  func check(
    _ authorization: [String], origin: String, key: Data, now: Date, isNew: () -> Void
  ) throws(Refusal) {
    guard let field = authorization.first, authorization.count == 1 else {
      throw .webPush(401, "MissingVAPID", "one field Authorization is needed (RFC 8292 3)")
    }
    let (claims, signer) = try known.claims(of: field) { () throws(Refusal) in
      guard let credentials = Self.parse(field) else {
        throw .webPush(401, "MissingVAPID", "Authorization must be: vapid t=TOKEN, k=KEY (RFC 8292 3)")
      }
      let claims = try Self.verify(credentials)
      isNew()
      return (claims, credentials.key)
    }
    guard claims.aud == origin || claims.aud == Self.withoutPort(origin) else {
      throw .webPush(401, "InvalidAudience", "aud must be \(origin) (RFC 8292 2)")
    }
    let left = Double(claims.exp) - now.timeIntervalSince1970
    guard left > 0 else { throw .webPush(401, "ExpiredToken", "exp has passed") }
    guard left <= 86400 else { throw .webPush(401, "InvalidExpiry", "exp is more than 24 hours ahead") }
    guard signer == key else {
      throw .webPush(403, "KeyMismatch", "the subscription was made with another key (RFC 8292 4.2)")
    }
  }

  /// The origin as some libraries write it into `aud`: PHP's minishlink/web-push, with which Nextcloud sends, leaves the
  /// port out. The real services are at port 443, where that makes no difference.
  private static func withoutPort(_ origin: String) -> String {
    "https://\(URL(string: origin)?.host() ?? "")"
  }

  /// `vapid t=..., k=...`, in either order, each once; other parameters are ignored.
  private static func parse(_ field: String) -> Credentials? {
    let parts = field.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, parts[0].lowercased() == "vapid" else { return nil }
    var values: [String: String] = [:]
    for parameter in parts[1].split(separator: ",") {
      let pair = parameter.split(separator: "=", maxSplits: 1)
      guard pair.count == 2 else { return nil }
      let name = pair[0].trimmingCharacters(in: .whitespaces).lowercased()
      var value = pair[1].trimmingCharacters(in: .whitespaces)
      if value.count >= 2, value.hasPrefix("\""), value.hasSuffix("\"") {
        value = String(value.dropFirst().dropLast())
      }
      guard values.updateValue(value, forKey: name) == nil else { return nil }
    }
    guard let token = values["t"], let key = values["k"].flatMap(Base64URL.decodeUnpadded) else { return nil }
    return Credentials(token: token, key: key)
  }

  private static func verify(_ credentials: Credentials) throws(Refusal) -> Claims {
    guard credentials.key.count == 65,
      let key = try? P256.Signing.PublicKey(x963Representation: credentials.key)
    else { throw .webPush(401, "InvalidKey", "k is no uncompressed point on P-256 in base64url") }
    guard let jwt = CompactJWT(credentials.token), jwt.isSigned(by: key) else {
      throw .webPush(401, "InvalidSignature", "t is no JWT that k has signed with ES256")
    }
    guard let claims = try? JSONDecoder().decode(Claims.self, from: jwt.claims) else {
      throw .webPush(401, "InvalidClaims", "t must have aud, exp (in whole seconds) and sub")
    }
    guard isContact(claims.sub) else {
      throw .webPush(401, "InvalidSubject", "sub must be a mailto: or https: URI (RFC 8292 2.1)")
    }
    return claims
  }

  private static func isContact(_ text: String) -> Bool {
    guard let url = URL(string: text) else { return false }
    return switch url.scheme {
    case "mailto": text.split(separator: "@", omittingEmptySubsequences: false).count == 2
    case "https": url.host()?.isEmpty == false
    default: false
    }
  }
}
