import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport
import Testing

@testable import HTTPClient

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
}
