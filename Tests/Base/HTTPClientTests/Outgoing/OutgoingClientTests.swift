import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import TestServers
import TestSupport
import Testing

@testable import HTTPClient

/// Calls of AsyncHTTPClient to hosts of strangers, over real TLS.
@Suite("Calls to hosts of strangers")
struct OutgoingClientTests {
  private static func configuration(_ caFile: String) -> HTTPClient.Configuration {
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.additionalTrustRoots = [.file(caFile)]
    return HTTPClient.Configuration(tlsConfiguration: tls)
  }

  /// Runs a test with a client to which every name is this machine.
  private static func withClient(_ caFile: String, _ test: (OutgoingClient) async throws -> Void) async throws
  {
    let client = OutgoingClient(configuration: configuration(caFile), resolve: { _ in ["127.0.0.1"] }) { _ in
      true
    }
    try await withCleanUp {
      try await test(client)
    } cleanUp: {
      await client.shutdown()
    }
  }

  private static func isRefusal(_ error: any Error) -> Bool {
    (error as? NIOSSLExtraError) == .failedToValidateHostname
  }

  @Test
  func `are made to a name that a certificate names, and to an address that one names`() async throws {
    for (name, address, host, isProven) in [
      (nil, [127, 0, 0, 1], "chat.example.org", false), (nil, [127, 0, 0, 1], "127.0.0.1", true),
      ("chat.example.org", nil, "chat.example.org", true),
      ("chat.example.org", nil, "CHAT.example.org.", true),
      ("*.example.org", nil, "chat.example.org", true), ("*.example.org", nil, "a.chat.example.org", false),
      ("c*.example.org", nil, "chat.example.org", false),
      ("other.example.org", nil, "chat.example.org", false),
      ("127.0.0.1", nil, "127.0.0.1", false),
    ] as [(String?, [UInt8]?, String, Bool)] {
      try await OthersHost.run(certified: name, at: address) { other in
        other.reply(200, "hello")
        try await Self.withClient(other.caFile) { client in
          // The second call is over the same connection.
          for _ in 1...2 {
            do {
              var request = HTTPClientRequest(url: "https://\(host):\(other.port)/x")
              request.method = .POST
              request.body = .bytes(ByteBuffer(repeating: 0x61, count: 100_000))
              let answer = try await client.execute(request, limit: 100, timeout: longestWait)
              #expect(answer.status == 200)
              #expect(isProven, "\(host) by \(name ?? "its address")")
            } catch {
              #expect(!isProven && Self.isRefusal(error), "\(host) by \(name ?? "its address"): \(error)")
            }
          }
        }
        #expect(other.seen.count == (isProven ? 2 : 0))
      }
    }
  }

  @Test
  func `are looked after where the operator has named the host, too`() async throws {
    try await OthersHost.run(at: [127, 0, 0, 1]) { other in
      try await Self.withClient(other.caFile) { client in
        await #expect(throws: NIOSSLExtraError.failedToValidateHostname) {
          _ = try await client.execute(
            HTTPClientRequest(url: "https://localhost:\(other.port)/x"), isTrusted: true, limit: 100,
            timeout: longestWait)
        }
      }
      #expect(other.seen.isEmpty)
    }
  }

  enum Flood: String, CaseIterable, Sendable {
    case switched, informational, endlessBody, endlessHead, endlessTrailer, unasked, nonsense

    var speech: FloodServer.Speech {
      let field = "a: \(String(repeating: "b", count: 60))\r\n".utf8
      let nothing = [UInt8](repeating: 0, count: 1024)
      let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      return switch self {
      case .switched:
        .init(
          "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".utf8, then: nothing)
      case .informational:
        .init("HTTP/1.1 100 Continue\r\n\r\n".utf8, then: "HTTP/1.1 103 Early Hints\r\n\r\n".utf8)
      case .endlessBody: .init("HTTP/1.1 200 OK\r\n\r\n".utf8, then: nothing)
      case .endlessHead: .init("HTTP/1.1 200 OK\r\n".utf8, then: field)
      case .endlessTrailer: .init("\(chunked)1\r\na\r\n0\r\n".utf8, then: field)
      case .unasked:
        .init("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8, then: "HTTP/1.1 200 X\r\n\r\n".utf8)
      case .nonsense: .init(nothing, then: nothing)
      }
    }
  }

  @Test(arguments: Flood.allCases)
  func `read no more than they want, and nothing of what is no answer`(_ flood: Flood) async throws {
    let certificate = try TestCertificate.shared.get()
    let server = try await FloodServer.start(certificate: certificate, flood.speech)
    try await Self.withClient(certificate.caFile) { client in
      let answer = try? await client.execute(
        HTTPClientRequest(url: "https://localhost:\(server.port)/"), limit: 1000, timeout: longestWait)
      #expect((answer == nil) == (flood != .unasked))
      await eventually("the connection's end") { server.openConnections == 0 }
      // What the kernel holds between the two, and no more.
      #expect(server.written < 16 << 20)
    }
  }
}
