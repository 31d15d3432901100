import Crypto
import CryptoExtras
import Foundation

/// Google's OAuth endpoint: checks assertions (RFC 7523), gives out and recognises access tokens.
struct GoogleTokens: Sendable {
  static let scope = "https://www.googleapis.com/auth/firebase.messaging"

  private struct Header: Decodable {
    var alg: String
  }

  private struct Claims: Decodable {
    var iss: String
    var scope: String
    var aud: String
    var iat: Int
    var exp: Int
  }

  let credentials: SimulatorCredentials
  /// Seconds.
  let lifetime: Int

  /// Whether a form with an assertion earns a token; nil if it does, else what is wrong.
  func fault(in form: [String: String], audiences: Set<String>, now: Int) -> String? {
    guard form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer" else { return "unsupported grant type" }
    guard let parts = form["assertion"].flatMap(JSONWebToken.init),
      let header = try? JSONDecoder().decode(Header.self, from: parts.header), header.alg == "RS256",
      let claims = try? JSONDecoder().decode(Claims.self, from: parts.claims)
    else { return "Invalid JWT" }
    guard claims.iss == credentials.clientEmail else { return "Invalid grant: account not found" }
    let signature = _RSA.Signing.RSASignature(rawRepresentation: parts.signature)
    guard
      credentials.serviceAccountKey.publicKey.isValidSignature(
        signature, for: SHA256.hash(data: parts.signingInput), padding: .insecurePKCS1v1_5)
    else { return "Invalid JWT Signature." }
    guard claims.scope.split(separator: " ").contains(where: { $0 == Self.scope || $0.hasSuffix("/cloud-platform") })
    else { return "Invalid scope" }
    guard audiences.contains(claims.aud) else { return "Invalid audience" }
    guard claims.exp > now, claims.iat <= now + 300, claims.exp - claims.iat <= 3600 else {
      return "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."
    }
    return nil
  }

  /// A new access token.
  func issue(now: Int) -> String {
    let end = "\(now + lifetime).\(UUID().uuidString.prefix(8))"
    return "ya29.\(end).\(seal(end))"
  }

  /// Whether it is one of ours, still good.
  func isGood(_ token: Substring, now: Int) -> Bool {
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 4, parts[0] == "ya29", let end = Int(parts[1]), end > now else { return false }
    return seal("\(parts[1]).\(parts[2])") == parts[3]
  }

  private func seal(_ text: String) -> String {
    let code = HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: credentials.accessTokenKey)
    return code.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
  }
}
