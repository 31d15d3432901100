package import AsyncHTTPClient
package import HTTP
import NIOCore
import NIOHTTP1
import NIOSSL

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
      guard let certificates = try? NIOSSLCertificate.fromPEMFile(ca), !certificates.isEmpty else {
        throw DemoError("\(ca) is no file with a certificate in PEM")
      }
      tls.additionalTrustRoots = [.certificates(certificates)]
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

  /// What has arrived since where a phone's messages come, others' among them; waits for some seconds if nothing has.
  ///
  /// - Parameter seen: apart for each subscription of Web Push, by its id, and under "" for all else.
  package func deliveries(
    to phone: VirtualPhone, at service: PushService, after seen: inout [Substring: Int64]
  ) async throws -> [JSON] {
    guard let newest = phone.subscriptions.last else {
      return try await deliveries(after: &seen["", default: 0])
    }
    var all: [JSON] = []
    for subscription in phone.subscriptions {
      all += try await service.messages(
        for: subscription, after: &seen[subscription.id, default: 0],
        wait: subscription.id == newest.id ? 5 : 0)
    }
    return all
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
