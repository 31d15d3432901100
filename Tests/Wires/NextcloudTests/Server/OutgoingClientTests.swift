import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import Registrations
import Synchronization
import TestSupport
import Testing

@testable import HTTPClient
@testable import Providers
@testable import SQL

/// Calls to hosts whose names come from outside.
@Suite struct OutgoingClientTests {
  private final class Checked: Sendable {
    private let state = Mutex<Set<String>>([])
    var addresses: Set<String> { state.withLock { $0 } }
    func add(_ address: String) { state.withLock { _ = $0.insert(address) } }
  }

  private func with(
    isAllowed: @escaping @Sendable (String) -> Bool = { _ in true },
    _ test: @escaping @Sendable (OutgoingClient, OthersHost) async throws -> Void
  ) async throws {
    try await OthersHost.runProxy { host in
      let client = OutgoingClient(configuration: .init(), isAllowed: isAllowed)
      try await withCleanUp {
        try await test(client, host)
      } cleanUp: {
        await client.shutdown()
      }
    }
  }

  private func get(
    _ url: String, by client: OutgoingClient, isTrusted: Bool = false, limit: Int = 100,
    timeout: Duration = longestWait
  ) async throws -> OutgoingClient.Response {
    try await client.execute(
      HTTPClientRequest(url: url), isTrusted: isTrusted, limit: limit, timeout: timeout)
  }

  @Test func `every address of a name is checked before any is called`() async throws {
    let checked = Checked()
    try await with(isAllowed: { address in
      checked.add(address)
      return false
    }) { client, host in
      for name in ["localhost", "127.0.0.1", "127.1", "0x7f000001", "2130706433"] {
        await #expect(throws: OutgoingClient.HostError.forbiddenAddress) {
          try await get("http://\(name):\(host.port)/x", by: client)
        }
      }
      #expect(checked.addresses.contains("127.0.0.1"))
      await #expect(throws: OutgoingClient.HostError.forbiddenAddress) {
        try await get("http://[::1]:\(host.port)/x", by: client)
      }
      #expect(checked.addresses.contains("::1"))
      await #expect(throws: OutgoingClient.HostError.noHost) { try await get("http:///x", by: client) }
      #expect(host.seen.isEmpty)
      // Whom the operator has named may be anywhere.
      let answer = try await get("http://localhost:\(host.port)/x", by: client, isTrusted: true)
      #expect(answer.status == 200)
    }
  }

  @Test func `a name is called at the address that can be connected to`() async throws {
    try await OthersHost.runProxy { host in
      let client = OutgoingClient(
        configuration: .init(), resolve: { _ in ["::1", "127.0.0.9", "127.0.0.1"] }, isAllowed: { _ in true })
      try await withCleanUp {
        for _ in 0..<3 {
          let answer = try await get("http://host.example:\(host.port)/x", by: client)
          #expect(answer.status == 200)
        }
        #expect(host.seen.map(\.path) == ["/x", "/x", "/x"])
      } cleanUp: {
        await client.shutdown()
      }
    }
  }

  @Test func `no more is read and no longer waited than the caller wants`() async throws {
    try await with { client, host in
      host.reply(200, String(repeating: "x", count: 101))
      await #expect(throws: NIOTooManyBytesError.self) { try await get(host.url + "/x", by: client) }
      let answer = try await get(host.url + "/x", by: client, limit: 101)
      #expect(answer.body.readableBytes == 101)
      let barrier = Barrier()
      host.reply { _ in
        await barrier.wait()
        return OthersHost.response(200, "")
      }
      await #expect(throws: HTTPClientError.deadlineExceeded) {
        try await get(host.url + "/x", by: client, timeout: .milliseconds(100))
      }
      barrier.open()
    }
  }

  @Test func `nothing is called after the end`() async throws {
    try await with { client, host in
      await client.shutdown()
      await #expect(throws: HTTPClientError.alreadyShutdown) { try await get(host.url + "/x", by: client) }
      #expect(host.seen.isEmpty)
    }
  }
}
