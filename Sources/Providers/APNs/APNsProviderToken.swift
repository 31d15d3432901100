import Foundation
import JWTKit

/// APNs' provider token (Apple, "Establishing a token-based connection to APNs"): ES256 over the
/// team and the time, valid for an hour, and not to be changed more often than every 20 minutes.
enum APNsProviderToken {
  /// When a token is replaced.
  static let lifetime: TimeInterval = 45 * 60
  /// When it serves no more: some minutes before Apple stops to take it.
  static let end: TimeInterval = 57 * 60
  /// The rules that Apple sets.
  static let limits = TokenCache.Limits(minimumAge: 20 * 60)

  /// `iat` in whole seconds: Apple takes no fractions.
  struct Claims: JWTPayload {
    var iss: String
    var iat: Int

    func verify(using algorithm: some JWTAlgorithm) {}
  }

  /// A new token.
  static func make(for credential: APNsCredential, now: Date) async -> Result<AccessToken, TokenFailure> {
    let issued = Int(now.timeIntervalSince1970)
    do {
      let keys = JWTKeyCollection()
      await keys.add(ecdsa: try ES256PrivateKey(pem: credential.privateKey))
      let token = try await keys.sign(
        Claims(iss: credential.teamID, iat: issued),
        header: ["alg": "ES256", "kid": .string(credential.keyID)])
      let date = Date(timeIntervalSince1970: TimeInterval(issued))
      return .success(
        AccessToken(
          authorization: "bearer \(token)", issuedAt: date, renewAt: date.addingTimeInterval(lifetime),
          expiresAt: date.addingTimeInterval(end)))
    } catch {
      return .failure(.refused(.invalidProviderToken))
    }
  }
}
