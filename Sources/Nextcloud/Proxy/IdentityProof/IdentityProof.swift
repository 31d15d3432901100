internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL
internal import Registrations
internal import Sealing
internal import Wire

/// Asks a user's own server for the user's public key.
///
/// The server's name comes from outside, so the call is a small one: the name is resolved first, only public
/// addresses are called, and the connection goes to the address that was checked, not to what the name may
/// mean a moment later; no redirect is followed, little is read, and soon enough it is over.
struct IdentityProof: Sendable {
  private static let maximumBytes = 16 * 1024

  let caFile: String?
  let allowPrivateAddresses: Bool
  /// How long it may take in all.
  var timeout = Duration.seconds(5)

  /// The key as the server tells it; nil if it tells none, be it as it may.
  func key(of cloudID: CloudID) async -> RSAPublicKey? {
    await withTaskGroup(of: RSAPublicKey?.self) { group in
      group.addTask { await self.call(cloudID) }
      group.addTask {
        try? await Task.sleep(for: self.timeout)
        return nil
      }
      defer { group.cancelAll() }
      return await group.next() ?? nil
    }
  }

  private func call(_ cloudID: CloudID) async -> RSAPublicKey? {
    let host = cloudID.host.host
    guard let address = await PublicAddress.resolve(host, allowPrivate: allowPrivateAddresses) else {
      return nil
    }
    let client = HTTPClient(configuration: clientConfiguration(connecting: host, to: address))
    let key = try? await ask(cloudID, client)
    // A server that does not answer may not say goodbye either: nobody waits for that.
    Task { try? await client.shutdown() }
    return key
  }

  private func ask(_ cloudID: CloudID, _ client: HTTPClient) async throws -> RSAPublicKey? {
    var request = HTTPClientRequest(url: cloudID.keyURL)
    request.headers.add(name: "User-Agent", value: "push-bouncer")
    request.headers.add(name: "Accept", value: "application/json")
    request.headers.add(name: "OCS-APIRequest", value: "true")
    let response = try await client.execute(request, timeout: TimeAmount(timeout))
    guard response.status == .ok else { return nil }
    let body = try JSON.parse(try await response.body.collect(upTo: Self.maximumBytes))
    guard let pem = body["ocs"]?["data"]?["public"]?.string else { return nil }
    return try RSAPublicKey(pem: pem)
  }

  private func clientConfiguration(connecting host: String, to address: String) -> HTTPClient.Configuration {
    var tls = TLSConfiguration.makeClientConfiguration()
    if let caFile { tls.additionalTrustRoots = [.file(caFile)] }
    var configuration = HTTPClient.Configuration(tlsConfiguration: tls, redirectConfiguration: .disallow)
    configuration.dnsOverride = [host: address]
    configuration.httpVersion = .http1Only
    configuration.timeout.connect = TimeAmount(timeout)
    configuration.connectionPool.retryConnectionEstablishment = false
    return configuration
  }
}
