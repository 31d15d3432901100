public import Foundation

/// Carries a call to the gateway: follows no redirects, and gives up after half a minute, or ``GatewayAnswer/maximumBody`` bytes.
public typealias Transport = @Sendable (GatewayCall) async throws -> GatewayAnswer

/// A request to the gateway.
public struct GatewayCall: Sendable {
  /// Such as `GET`, and the whole address.
  public let method, url: String
  /// `Authorization`, the subscription's secret, is for the gateway alone.
  public let headers: [String: String]
  /// JSON; nil if there is no body.
  public let body: Data?
}

/// The gateway's answer.
public struct GatewayAnswer: Sendable {
  /// In bytes.
  public static let maximumBody = 65_536
  let status: Int
  let headers: [String: String]
  let body: Data

  /// - Parameter headers: with names in any case.
  public init(status: Int, headers: [(String, String)], body: Data) {
    self.status = status
    self.headers = Dictionary(headers.map { ($0.lowercased(), $1) }) { first, _ in first }
    self.body = body
  }

  /// A parameter of a header, as in `Crypto-Key: dh=...;p256ecdsa=...`: bytes in base64url.
  func bytes(_ name: String, in header: String) -> Data? {
    let parameters = (headers[header] ?? "").split { ";,".contains($0) }.map { part in
      part.split(separator: "=", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
    }
    return parameters.first { $0.count == 2 && $0[0].lowercased() == name }
      .flatMap { Base64URL.decode($0[1].trimmingCharacters(in: ["\"", "="])) }
  }
}
