import CryptoExtras
import Foundation
import HTTPClient
import NIOCore
import NIOFoundationCompat
import NIOHPACK

/// Access tokens from Google for a service account (RFC 7523, Google "Using OAuth 2.0 for Server
/// to Server Applications").
enum GoogleOAuth {
  static let scope = "https://www.googleapis.com/auth/firebase.messaging"
  /// How long before its end a token is renewed.
  static let margin: TimeInterval = 300
  static let timeout = TimeAmount.seconds(10)
  /// A younger token is not replaced when FCM refuses it: a newer one would be refused as well.
  static let limits = TokenCache.Limits(minimumAge: 30)

  /// Times in whole seconds: Google takes no fractions.
  private struct Claims: Encodable {
    let iss: String
    let scope: String
    let aud: String
    let iat: Int
    let exp: Int
  }

  private struct Granted: Decodable {
    var accessToken: String
    var expiresIn: Double

    enum CodingKeys: String, CodingKey {
      case accessToken = "access_token"
      case expiresIn = "expires_in"
    }
  }

  private struct Refused: Decodable {
    var error: String
  }

  /// A request for a new token; nil if the credential's key is unusable.
  static func request(for credential: FCMCredential, at origin: Origin, issued: Date) -> ProviderRequest? {
    guard let assertion = assertion(for: credential, issued: Int(issued.timeIntervalSince1970)) else {
      return nil
    }
    let path = credential.tokenURI.path(percentEncoded: true)
    return ProviderRequest(
      headers: [
        ":method": "POST", ":scheme": origin.scheme, ":authority": origin.authority,
        ":path": path.isEmpty ? "/" : path,
        "content-type": "application/x-www-form-urlencoded",
      ],
      body: ByteBuffer(
        string: "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"))
  }

  static func read(status: Int, body: ByteBuffer, issued: Date) -> Result<AccessToken, TokenFailure> {
    if status == 200, let granted = try? JSONDecoder().decode(Granted.self, from: body),
      !granted.accessToken.isEmpty, granted.accessToken.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
    {
      let end = issued.addingTimeInterval(min(max(granted.expiresIn, 0), 86_400))
      return .success(
        AccessToken(
          authorization: "Bearer \(granted.accessToken)", issuedAt: issued,
          renewAt: end.addingTimeInterval(-margin), expiresAt: end.addingTimeInterval(-10)))
    }
    // Only an OAuth error body counts as a refusal. Anything else counts as an outage.
    guard (400..<500).contains(status), status != 408, status != 429,
      let refused = try? JSONDecoder().decode(Refused.self, from: body)
    else { return .failure(.unavailable(.tokenUnavailable)) }
    return .failure(.refused(Reason(providerName: refused.error)))
  }

  private static func assertion(for credential: FCMCredential, issued: Int) -> String? {
    let claims = Claims(
      iss: credential.clientEmail, scope: scope, aud: credential.tokenURI.absoluteString, iat: issued,
      exp: issued + 3600)
    let key = try? _RSA.Signing.PrivateKey(pemRepresentation: credential.privateKey)
    guard let key else { return nil }
    return try? JWT.sign(header: ["alg": "RS256", "kid": credential.privateKeyID], claims: claims) {
      try key.signature(for: $0, padding: .insecurePKCS1v1_5).rawRepresentation
    }
  }
}

extension Internet {
  /// Uses a connection of its own, since a token is needed once an hour.
  func accessToken(
    for credential: FCMCredential, now: @escaping @Sendable () -> Date
  ) async -> Result<AccessToken, TokenFailure> {
    let issued = now()
    guard let origin = Origin(credential.tokenURI) else { return .failure(.unavailable(.tokenUnavailable)) }
    guard let request = GoogleOAuth.request(for: credential, at: origin, issued: issued) else {
      return .failure(.refused(.invalidGrant))
    }
    var limits = pool
    limits.answerTimeout = .zero
    let pool = http2Pool(
      connector(to: ProviderPeer(provider: .fcm, origin: origin), tls: webTLS), limits
    ) { _ in }
    let answer = await pool.send(request, deadline: .now() + GoogleOAuth.timeout)
    await pool.shutdown(deadline: .now())
    switch answer {
    case .ended(.success(let response)):
      return GoogleOAuth.read(status: response.status, body: response.body, issued: issued)
    case .ended(.failure(.unconnected(let failure))): return .failure(.unavailable(failure.signInReason))
    case .ended(.failure(.timeout)), .ended(.failure(.unanswered)), .underWay:
      return .failure(.unavailable(.signInTimeout))
    case .ended(.failure): return .failure(.unavailable(.tokenUnavailable))
    }
  }
}
