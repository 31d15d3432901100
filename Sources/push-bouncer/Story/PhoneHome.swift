import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import Wire

/// The provider simulator's control endpoint, where virtual phones get what was pushed to them.
struct PhoneHome {
  let url: String
  let client: HTTPClient

  /// A client that trusts one more certificate authority.
  static func client(ca: String?) throws -> HTTPClient {
    var configuration = HTTPClient.Configuration.singletonConfiguration
    if let ca {
      var tls = TLSConfiguration.makeClientConfiguration()
      tls.additionalTrustRoots = [.certificates(try NIOSSLCertificate.fromPEMFile(ca))]
      configuration.tlsConfiguration = tls
    }
    return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }

  /// The number from which on deliveries are new.
  func next() async throws -> Int64 {
    try await get("deliveries?since=999999999999999")["next"]?.integer ?? 0
  }

  /// What has arrived since; waits for some seconds if nothing has.
  func deliveries(after seen: inout Int64) async throws -> [JSON] {
    let answer = try await get("deliveries?since=\(seen)&wait=5")
    seen = answer["next"]?.integer ?? seen
    guard case .array(let deliveries)? = answer["deliveries"] else { return [] }
    return deliveries
  }

  /// Waits for this many.
  func deliveries(_ count: Int, after seen: inout Int64) async throws -> [JSON] {
    var all: [JSON] = []
    for _ in 0..<3 where all.count < count { all += try await deliveries(after: &seen) }
    return all
  }

  /// Makes the providers answer so for a token from now on.
  func set(token: String, _ behaviour: JSON) async throws {
    var request = HTTPClientRequest(url: "\(url)/_control/tokens/\(token)")
    request.method = .PUT
    request.body = .bytes(ByteBuffer(bytes: behaviour.bytes))
    _ = try await answer(request)
  }

  private func get(_ path: String) async throws -> JSON {
    try await answer(HTTPClientRequest(url: "\(url)/_control/\(path)"))
  }

  private func answer(_ request: HTTPClientRequest) async throws -> JSON {
    let response = try await client.execute(request, timeout: .seconds(30))
    let body = try await response.body.collect(upTo: 16 << 20)
    guard response.status == .ok else {
      throw CommandError(
        "the simulator answered \(response.status.code): \(String(buffer: body).prefix(200))")
    }
    return (try? JSON.parse(body)) ?? .null
  }
}
