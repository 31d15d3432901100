internal import Crypto
internal import Foundation
internal import HTTPTypes
public import Hummingbird

/// A secret that opens endpoints to whoever shows it as `Authorization: Bearer` (RFC 6750).
public struct BearerToken: Sendable {
  private let hash: SHA256Digest
  private let name: String

  /// - Parameter name: the key of the configuration that holds it, for who comes without.
  public init(_ token: String, name: String) {
    hash = Self.hash(token[...])
    self.name = name
  }

  /// Refuses with 401 a request that does not show the token.
  public func check(_ request: Request) throws(APIError) {
    let shown = request.headers[.authorization].flatMap { $0.dropping(prefix: "bearer ") }
    // Hashes are of one length, and comparing them takes the same time wherever they differ.
    guard let shown, Self.hash(shown) == hash else {
      throw APIError(
        .unauthorized, code: "UNAUTHORIZED", "Not logged in: \(name) wanted as a bearer token",
        headers: [.wwwAuthenticate: "Bearer"])
    }
  }

  private static func hash(_ text: Substring) -> SHA256Digest { SHA256.hash(data: Data(text.utf8)) }
}
