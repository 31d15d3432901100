public import Foundation

/// Carries a call to the gateway. It follows no redirects, takes no longer than half a minute, and gives up if an answer is
/// longer than ``GatewayAnswer/maximumBody``.
public typealias Transport = @Sendable (GatewayCall) async throws -> GatewayAnswer

/// A request to the gateway.
public struct GatewayCall: Sendable {
  /// `GET`, `POST`, `PUT` or `DELETE`.
  public let method: String
  /// The whole address.
  public let url: String
  /// Header fields; `Authorization` has the subscription's secret.
  public let headers: [String: String]
  /// JSON; nil if there is no body.
  public let body: Data?
}

/// The gateway's answer.
public struct GatewayAnswer: Sendable {
  /// No answer is longer, in bytes.
  public static let maximumBody = 65_536

  /// The status of HTTP.
  public let status: Int
  /// Header fields by their names in lower case.
  let headers: [String: String]
  /// The body.
  public let body: Data

  /// - Parameter headers: with names in any case.
  public init(status: Int, headers: [String: String], body: Data) {
    self.status = status
    self.headers = Dictionary(headers.map { ($0.key.lowercased(), $0.value) }) { first, _ in first }
    self.body = body
  }

  /// A parameter of a header such as `Crypto-Key: dh=...;p256ecdsa=...`: bytes in base64url.
  func bytes(_ name: String, in header: String) -> Data? {
    for part in (headers[header] ?? "").split(whereSeparator: { ";,".contains($0) }) {
      let pair = part.split(separator: "=", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
      if pair.count == 2, pair[0].lowercased() == name {
        return Base64URL.decode(pair[1].trimmingCharacters(in: CharacterSet(charactersIn: "\"=")))
      }
    }
    return nil
  }
}
