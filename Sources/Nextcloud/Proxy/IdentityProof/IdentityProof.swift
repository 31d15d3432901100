internal import AsyncHTTPClient
internal import Foundation
internal import NIOHTTP1
internal import NIOSSL
internal import Registrations
internal import Sealing
internal import Wire

/// Asks a user's own server for the user's public key.
///
/// The server's name comes from outside, so the call is a small one: ``Wire/OutgoingClient`` sees to where
/// it goes, little is read, and soon enough it is over.
struct IdentityProof: Sendable {
  private static let maximumBytes = 16 * 1024

  private let client: OutgoingClient
  /// How long it may take in all.
  var timeout: Duration

  init(caFile: String?, allowPrivateAddresses: Bool, timeout: Duration = .seconds(5)) {
    var tls = TLSConfiguration.makeClientConfiguration()
    if let caFile { tls.additionalTrustRoots = [.file(caFile)] }
    client = OutgoingClient(configuration: .init(tlsConfiguration: tls)) {
      allowPrivateAddresses || IPAddress($0)?.isPublic == true
    }
    self.timeout = timeout
  }

  /// The key as the server tells it; nil if it tells none, be it as it may.
  func key(of cloudID: CloudID) async -> RSAPublicKey? {
    var request = HTTPClientRequest(url: cloudID.keyURL)
    request.headers.add(name: "User-Agent", value: "push-bouncer")
    request.headers.add(name: "Accept", value: "application/json")
    request.headers.add(name: "OCS-APIRequest", value: "true")
    guard
      let answer = try? await client.execute(request, limit: Self.maximumBytes, timeout: timeout),
      answer.status == 200, let body = try? JSON.parse(answer.body),
      let pem = body["ocs"]?["data"]?["public"]?.string
    else { return nil }
    return try? RSAPublicKey(pem: pem)
  }
}
