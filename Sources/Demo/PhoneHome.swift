package import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOSSL
package import Wire

/// The provider simulator's control endpoint, where virtual phones get what was pushed to them.
package struct PhoneHome {
  package let url: String
  package let client: HTTPClient

  package init(url: String, client: HTTPClient) {
    (self.url, self.client) = (url, client)
  }

  /// A client that trusts one more certificate authority.
  package static func client(ca: String?) throws -> HTTPClient {
    var configuration = HTTPClient.Configuration.singletonConfiguration
    // Whoever waits in front of a terminal hears at once that nobody listens there.
    configuration.connectionPool.retryConnectionEstablishment = false
    if let ca {
      var tls = TLSConfiguration.makeClientConfiguration()
      tls.additionalTrustRoots = [.certificates(try NIOSSLCertificate.fromPEMFile(ca))]
      configuration.tlsConfiguration = tls
    }
    return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }

  /// The number from which on deliveries are new.
  package func next() async throws -> Int64 {
    try await get("deliveries?since=999999999999999")["next"]?.integer ?? 0
  }

  /// What has arrived since; waits for some seconds if nothing has.
  package func deliveries(after seen: inout Int64) async throws -> [JSON] {
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
    _ = try await control.call(.PUT, "tokens/\(token)", .json(behaviour))
  }

  private func get(_ path: String) async throws -> JSON {
    try await control.call(.GET, path, timeout: .seconds(30))
  }

  private var control: JSONService {
    JSONService(url: "\(url)/_control", credentials: .none, maximumBytes: 16 << 20, client: client)
  }
}
