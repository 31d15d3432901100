import Crypto
import CryptoExtras
import Foundation
import HTTP
import Providers
import Synchronization

/// Google's OAuth endpoint: a signed assertion in, an access token out (RFC 7523; Google: "Using OAuth 2.0 for Server
/// to Server Applications").
final class AccessTokens: Sendable {
  /// RFC 6749 5.2.
  struct Failure: Error {
    let error: String
    let description: String

    var json: JSON { ["error": .string(error), "error_description": .string(description)] }

    static func invalidGrant(_ description: String) -> Failure {
      Failure(error: "invalid_grant", description: description)
    }
  }

  private struct Claims: Decodable {
    let iss: String
    let scope: String
    let aud: String
    let iat: Int
    let exp: Int
  }

  private static let scopes: Set<Substring> = [
    "https://www.googleapis.com/auth/firebase.messaging", "https://www.googleapis.com/auth/cloud-platform",
  ]

  private let key: _RSA.Signing.PublicKey
  private let credentials: Credentials
  private let lifetime: Int
  /// The expiry of each token.
  private let issued = Mutex<[String: Date]>([:])

  init(_ credentials: Credentials, lifetime: Int) {
    self.credentials = credentials
    self.lifetime = lifetime
    key = credentials.serviceAccountKey.publicKey
  }

  /// The answer to a form.
  func issue(form: [String: String], port: Int, now: Date) throws(Failure) -> JSON {
    guard form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer" else {
      throw Failure(
        error: "unsupported_grant_type", description: "Invalid grant_type: \(form["grant_type"] ?? "")")
    }
    guard let text = form["assertion"], let jwt = CompactJWT(text), jwt.header.alg == "RS256",
      let claims = try? JSONDecoder().decode(Claims.self, from: jwt.claims)
    else { throw Failure.invalidGrant("Bad JWT.") }
    guard claims.iss == credentials.clientEmail else {
      throw Failure.invalidGrant("Invalid grant: account not found")
    }
    guard [nil, credentials.serviceAccountKeyID].contains(jwt.header.kid),
      key.isValidSignature(
        .init(rawRepresentation: jwt.signature), for: SHA256.hash(data: jwt.signedBytes),
        padding: .insecurePKCS1v1_5)
    else { throw Failure.invalidGrant("Invalid JWT Signature.") }
    let own = ["https", "http"].flatMap { scheme in
      ["127.0.0.1", "localhost"].map { "\(scheme)://\($0):\(port)/token" }
    }
    guard own.contains(claims.aud) || claims.aud == "https://oauth2.googleapis.com/token" else {
      throw Failure.invalidGrant("Invalid JWT: Failed audience check.")
    }
    let seconds = now.timeIntervalSince1970
    // Google accepts a clock that is a little fast, but no more.
    guard claims.exp > claims.iat, claims.exp - claims.iat <= 3600, Double(claims.iat) <= seconds + 300,
      Double(claims.exp) > seconds
    else {
      throw Failure.invalidGrant(
        "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
          + "Check your iat and exp values in the JWT claim.")
    }
    guard claims.scope.split(separator: " ").contains(where: Self.scopes.contains) else {
      throw Failure(error: "invalid_scope", description: "Invalid OAuth scope or ID token audience provided.")
    }
    return issue(now: now)
  }

  private func issue(now: Date) -> JSON {
    let token = "ya29.simulator-" + Base64URL.encode((0..<32).map { _ in UInt8.random(in: .min ... .max) })
    issued.withLock { issued in
      if issued.count >= 10_000 { issued = issued.filter { $0.value > now } }
      issued[token] = now.addingTimeInterval(Double(lifetime))
    }
    return [
      "access_token": .string(token), "expires_in": .integer(Int64(lifetime)), "token_type": "Bearer",
    ]
  }

  /// Whether an `authorization` field has an access token that was issued here and has not expired.
  func accepts(_ authorization: String?, now: Date) -> Bool {
    guard let authorization, authorization.prefix(7).lowercased() == "bearer " else { return false }
    let token = String(authorization.dropFirst(7))
    return issued.withLock { $0[token] }.map { $0 > now } ?? false
  }

  /// Revokes every token issued so far.
  func revokeAll() {
    issued.withLock { $0.removeAll() }
  }
}
