import Crypto
import Foundation
import Synchronization

/// Checks APNs' provider tokens (Apple, "Establishing a token-based connection to APNs").
final class ProviderTokenChecker: Sendable {
  private struct Header: Decodable {
    var alg: String
    var kid: String
  }

  private struct Claims: Decodable {
    var iss: String
    /// Apple takes whole seconds only.
    var iat: Int
  }

  private let key: P256.Signing.PublicKey
  private let keyID: String
  private let teamID: String
  /// Good tokens and when they were made: the same one comes with thousands of requests.
  private let known = Mutex<[String: Int]>([:])

  init(_ credentials: SimulatorCredentials) {
    key = credentials.apnsKey.publicKey
    keyID = credentials.keyID
    teamID = credentials.teamID
  }

  /// Whether a token made then is still good.
  static func isFresh(_ issuedAt: Int, now: Int) -> Bool {
    now - issuedAt < 3600
  }

  /// When a good token was made, and whether it is the first time that it is seen.
  func check(_ token: String, now: Int) -> Result<(issuedAt: Int, isNew: Bool), APNsRefusal> {
    if let issuedAt = known.withLock({ $0[token] }) {
      return Self.isFresh(issuedAt, now: now) ? .success((issuedAt, false)) : .failure(.expiredProviderToken)
    }
    guard let parts = JSONWebToken(token),
      let header = try? JSONDecoder().decode(Header.self, from: parts.header),
      let claims = try? JSONDecoder().decode(Claims.self, from: parts.claims),
      header.alg == "ES256", header.kid == keyID, claims.iss == teamID, claims.iat <= now,
      let signature = try? P256.Signing.ECDSASignature(rawRepresentation: parts.signature),
      key.isValidSignature(signature, for: parts.signingInput)
    else { return .failure(.invalidProviderToken) }
    guard Self.isFresh(claims.iat, now: now) else { return .failure(.expiredProviderToken) }
    let isNew = known.withLock { known in
      if known.count >= 1000 { known.removeAll() }
      return known.updateValue(claims.iat, forKey: token) == nil
    }
    return .success((claims.iat, isNew))
  }
}
