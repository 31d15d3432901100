import Crypto
import Foundation
import Synchronization

/// Checks provider tokens (Apple: "Establishing a token-based connection to APNs"). One that was good is remembered,
/// so that a signature is checked once and not with each push.
final class ProviderTokens: Sendable {
  private struct Claims: Decodable {
    let iss: String
    /// Apple wants whole seconds: a fraction does not decode.
    let iat: Int
  }

  private let key: P256.Signing.PublicKey
  private let keyID: String
  private let teamID: String
  /// When each good token was issued.
  private let known = Mutex<[String: Int]>([:])

  init(_ credentials: Credentials) {
    key = credentials.apnsKey.publicKey
    keyID = credentials.keyID
    teamID = credentials.teamID
  }

  /// The key that the token of an `authorization` field names, good or not; nil where there is no such token.
  static func keyID(_ authorization: [String]) -> String? {
    authorization.first.flatMap { CompactJWT(String($0.dropFirst(7))) }?.header.kid
  }

  /// The token of an `authorization` field, good at `now`, and its key. `isNew` is called for one not seen before.
  func check(_ authorization: [String], now: Date, isNew: () -> Void) throws(APNsFailure) -> (
    token: String, keyID: String
  ) {
    guard let field = authorization.first else { throw .init(.missingProviderToken) }
    guard authorization.count == 1 else { throw .init(.duplicateHeaders) }
    guard field.count > 7, field.prefix(7).lowercased() == "bearer " else {
      throw .init(.missingProviderToken)
    }
    let token = String(field.dropFirst(7))
    let issuedAt: Int
    if let remembered = known.withLock({ $0[token] }) {
      issuedAt = remembered
    } else {
      issuedAt = try verify(token)
      known.withLock { known in
        if known.count >= 10_000 { known.removeAll() }
        known[token] = issuedAt
      }
      isNew()
    }
    let age = now.timeIntervalSince1970 - Double(issuedAt)
    guard age <= 3600 else { throw .init(.expiredProviderToken) }
    guard age >= 0 else { throw .init(.invalidProviderToken) }
    return (token, keyID)
  }

  private func verify(_ token: String) throws(APNsFailure) -> Int {
    guard let jwt = CompactJWT(token), jwt.header.alg == "ES256", jwt.header.kid == keyID,
      let signature = try? P256.Signing.ECDSASignature(rawRepresentation: jwt.signature),
      key.isValidSignature(signature, for: jwt.signedBytes),
      let claims = try? JSONDecoder().decode(Claims.self, from: jwt.claims), claims.iss == teamID
    else { throw .init(.invalidProviderToken) }
    return claims.iat
  }
}
