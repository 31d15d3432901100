import AsyncHTTPClient
import Foundation
import NIOSSL
import Synchronization
import TestServers
import TestSupport
import Testing

@testable import HTTPClient

@Suite("Hosts with several addresses")
struct AddressRaceTests {
  private static let addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.1"]

  /// Addresses that swallow packets, all but the last one.
  private static func silent(port: Int) throws -> [SilentAddress] {
    try addresses.dropLast().map { try SilentAddress($0, port: port) }
  }

  @Test func `A stranger's host is reached although four of its addresses swallow packets`() async throws {
    try await OthersHost.run(certified: "chat.example.org") { other in
      other.reply(200, "hello")
      let silent = try Self.silent(port: other.port)
      var tls = TLSConfiguration.makeClientConfiguration()
      tls.additionalTrustRoots = [.file(other.caFile)]
      let client = OutgoingClient(
        configuration: .init(tlsConfiguration: tls), resolve: { _ in Self.addresses }
      ) { _ in true }
      try await withCleanUp {
        for _ in 1...2 {
          let request = HTTPClientRequest(url: "https://chat.example.org:\(other.port)/x")
          // AsyncHTTPClient alone gives each address ten seconds.
          let answer = try await client.execute(request, limit: 100, timeout: .seconds(9))
          #expect(answer.status == 200)
        }
      } cleanUp: {
        await client.shutdown()
      }
      withExtendedLifetime(silent) {}
    }
  }

  @Test func `Families take turns, and one forbidden address is enough`() throws {
    let all = try HostAddresses.callable(["::1", "::2", "::3", "1.1.1.1", "2.2.2.2"]) { _ in true }
    #expect(all == ["::1", "1.1.1.1", "::2", "2.2.2.2", "::3"])
    #expect(try HostAddresses.callable(["1.1.1.1", "::1"]) { _ in true } == ["1.1.1.1", "::1"])
    #expect(try HostAddresses.callable((1...99).map { "1.1.1.\($0)" }) { _ in true }.count == 16)
    #expect(throws: OutgoingClient.HostError.forbiddenAddress) {
      try HostAddresses.callable(["1.1.1.1", "127.0.0.1"]) { $0 != "127.0.0.1" }
    }
  }

  @Test func `Connections that come too late are closed, and one failure of several is told`() async throws {
    let closed = Mutex<[String]>([])
    let isOver = Mutex(false)
    let (address, _) = try await AddressRace<String>.run(["slow", "quick"]) { address in
      if address == "slow" { await eventually { isOver.withLock(\.self) } }
      return address
    } close: { late in
      closed.withLock { $0.append(late) }
    }
    #expect(address == "quick")
    isOver.withLock { $0 = true }
    await eventually { closed.withLock { $0 } == ["slow"] }
    await #expect(throws: ConnectionFailure.connectionRefused) {
      _ = try await AddressRace<String>.run(["a", "b"]) { address in
        throw address == "a" ? ConnectionFailure.networkUnreachable : .connectionRefused
      } close: { _ in
      }
    }
  }
}
