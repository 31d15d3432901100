import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import NIOHTTP1
import Providers
import TestSupport
import Testing
import ZulipServer

@testable import HTTPClient
@testable import Operator
@testable import Server

/// Tests that an attacker between this service and a foreign push proxy learns nothing of its requests.
@Suite struct ProxyTrustTests {
  /// Whether a call, made as those of notifications are, is answered; `caFile` is what is trusted.
  private func isAnswered(_ host: OthersHost, trusting caFile: String) async throws -> Bool {
    let client = OutgoingClient(configuration: .outgoing(try providers(caFile))) { _ in true }
    var request = HTTPClientRequest(url: "https://\(host.name)/notifications")
    request.headers.add(name: "X-Nextcloud-Subscription-Key", value: "secret")
    let answer = try? await client.execute(request, limit: 1000, timeout: longestWait)
    await client.shutdown()
    return answer != nil
  }

  private func providers(_ caFile: String) throws -> ProvidersSettings {
    try Configuration.load(
      file: nil, environment: [:], overrides: ["providers.ca_file": caFile], workingDirectory: "/"
    ).0.providers
  }

  @Test func `A push proxy that shows who it is, is called`() async throws {
    try await OthersHost.run(ciphers: "ECDHE+AESGCM") { host in
      let isAnswered = try await isAnswered(host, trusting: host.caFile)
      #expect(isAnswered)
      #expect(host.seen.count == 1)
    }
  }

  @Test(arguments: ["RSA+AESGCM", "RSA+AES", "ECDHE+AES+SHA1"])
  func `One that cannot keep what it is told is told nothing`(ciphers: String) async throws {
    try await OthersHost.run(ciphers: ciphers) { host in
      let isAnswered = try await isAnswered(host, trusting: host.caFile)
      #expect(!isAnswered)
      #expect(host.seen.isEmpty)
    }
  }

  @Test(arguments: ["untrusted", "expired", "of another", "of its address"])
  func `One that cannot show who it is is told nothing`(certificate: String) async throws {
    let name = certificate == "of another" ? "elsewhere.example.org" : nil
    let end = certificate == "expired" ? Date() - 60 : Date() + 3600
    let address: [UInt8]? = certificate == "of its address" ? [127, 0, 0, 1] : nil
    try await OthersHost.run(certified: name, at: address, until: end) { host in
      try await OthersHost.run { other in
        let trusted = certificate == "untrusted" ? other : host
        let isAnswered = try await isAnswered(host, trusting: trusted.caFile)
        #expect(!isAnswered)
        #expect(host.seen.isEmpty)
      }
    }
  }

  @Test(arguments: [nil, [127, 0, 0, 1]] as [[UInt8]?])
  func `Another's bouncer has to show its name, too`(address: [UInt8]?) async throws {
    try await OthersHost.run(at: address) { host in
      try await HTTPClient.withHTTPClient(configuration: .outgoing(try providers(host.caFile))) { client in
        let bouncer = BouncerClient(
          url: try #require(URL(string: host.url)), id: "id", key: "secret", client: client)
        _ = try? await bouncer.upload([])
        #expect(host.seen.isEmpty == (address != nil))
      }
    }
  }
}
