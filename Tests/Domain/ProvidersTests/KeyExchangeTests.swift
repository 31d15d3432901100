import Foundation
import KeyExchange
import MetricsTestKit
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport
import Testing

@testable import HTTPClient
@testable import Providers

@Suite("Key exchanges of TLS")
struct KeyExchangeTests {
  private final class Seen: Sendable {
    let all = Mutex<[String]>([])

    func note(_ side: String) -> (KeyExchange) -> Void {
      { keyExchange in self.all.withLock { $0.append("\(side) \(keyExchange.rawValue)") } }
    }
  }

  /// A connection between our client's settings and a server that takes these groups.
  ///
  /// - Parameter chunk: how many bytes the client reads at a time.
  private static func connect(
    _ curves: [NIOTLSCurve]?, _ version: TLSVersion? = nil, chunk: Int = 2048
  ) async throws -> Set<String> {
    let certificate = try TestCertificate.shared.get()
    var configuration = certificate.configuration
    configuration.curves = curves
    configuration.maximumTLSVersion = version
    let serverTLS = try NIOSSLContext(configuration: configuration)
    let clientTLS = try Connector.tls(caFile: certificate.caFile)
    let seen = Seen()
    let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandlers([
            KeyExchangeObserver(.server, onKeyExchange: seen.note("server")),
            NIOSSLServerHandler(context: serverTLS),
          ])
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    let client = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: chunk))
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandlers([
            KeyExchangeObserver(.client, onKeyExchange: seen.note("client")),
            NIOSSLClientHandler.proving("localhost", context: clientTLS),
          ])
        }
      }
      .connect(host: "127.0.0.1", port: server.localAddress?.port ?? 0).get()
    await eventually("both sides") { seen.all.withLock { $0.count } == 2 }
    // Not waited for: the handshake may not be over.
    client.close(promise: nil)
    try await server.close()
    return Set(seen.all.withLock { $0 })
  }

  @Test(arguments: [2048, 1]) func `are post-quantum between our own client and server`(chunk: Int)
    async throws
  {
    let both: Set<String> = ["client X25519MLKEM768", "server X25519MLKEM768"]
    #expect(try await Self.connect(nil, chunk: chunk) == both)
  }

  @Test func `are told of servers that can only do less`() async throws {
    #expect(try await Self.connect([.x25519]) == ["client X25519", "server X25519"])
    // The client offers no key of this group at first, and is asked for one.
    #expect(try await Self.connect([.secp384r1]) == ["client P-384", "server P-384"])
    #expect(try await Self.connect([.secp256r1], chunk: 1) == ["client P-256", "server P-256"])
    #expect(try await Self.connect(nil, .tlsv12) == ["client other", "server other"])
  }

  @Test func `are counted for each leg, from 0 on`() throws {
    let test = TestMetrics()
    let metrics = ProviderMetrics(factory: test)
    for _ in 1...2 { metrics.connected(.webPush, by: .x25519MLKEM768) }
    metrics.connected(.fcm, by: .other)
    func count(_ leg: String, _ group: String) throws -> Int64 {
      try test.expectCounter("push_bouncer_tls_key_exchange_total", [("leg", leg), ("group", group)])
        .totalValue
    }
    #expect(try count("webpush", "X25519MLKEM768") == 2 && count("webpush", "other") == 0)
    #expect(try count("fcm", "other") == 1 && count("apns", "X25519MLKEM768") == 0)
  }

  @Test func `of providers are told by leg`() async throws {
    let server = try await PushProvidersTests.answering()
    let providers = try APNsTests.providers(server)
    #expect(providers.keyExchange(.apns) == nil)
    #expect(await APNsTests.send(APNsTests.push(), providers) == .delivered)
    #expect(providers.keyExchange(.apns) == .x25519MLKEM768)
    #expect(providers.keyExchange(.fcm) == nil)
  }
}
