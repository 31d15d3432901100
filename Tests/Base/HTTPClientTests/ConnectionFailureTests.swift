import Foundation
import Logging
import NIOCore
import NIOPosix
import TestServers
import TestSupport
import Testing

@testable import HTTPClient

@Suite("Connections that cannot be opened", .timeLimit(.minutes(10)))
struct ConnectionFailureTests {
  /// Why a request gets no connection.
  private static func failure(
    port: Int, host: String = "127.0.0.1", proxy: String? = nil, handshake: TimeAmount = .seconds(10),
    within seconds: Double = 30
  ) async throws -> ConnectionFailure? {
    var limits = HTTP2ConnectionHandler.Limits()
    limits.handshake = handshake
    let pool = HTTP2Pool(
      connector: Connector(
        host: host, port: port, tls: try Connector.tls(caFile: try TestCertificate.shared.get().caFile),
        proxy: try proxy.map { try #require(URL(string: $0).flatMap { Proxy($0) }) }, limits: limits),
      group: MultiThreadedEventLoopGroup.singleton, limits: .init(answerTimeout: .zero, attempts: 1),
      logger: .init(label: "test"))
    let result = await pool.status("/", within: seconds)
    await pool.shutdown(deadline: .now())
    guard case .failure(.unconnected(let failure)) = result else { return nil }
    return failure
  }

  /// A port that does this with each connection.
  private static func listener(
    _ act: @escaping @Sendable (any Channel) -> Void = { _ in }
  ) async throws -> TestListener {
    try await TestListener.start(certificate: nil) { pipeline, _ in
      try pipeline.addHandler(OnData(act: act))
    }
  }

  /// Acts when the peer has sent something.
  private final class OnData: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let act: @Sendable (any Channel) -> Void

    init(act: @escaping @Sendable (any Channel) -> Void) { self.act = act }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { act(context.channel) }
  }

  private static func closedPort() async throws -> Int {
    let listener = try await listener()
    try await listener.stop()
    return listener.port
  }

  @Test func `say that a name has no address, and that a connection is refused`() async throws {
    #expect(try await Self.failure(port: 443, host: "nobody.invalid") == .nameNotResolved)
    #expect(try await Self.failure(port: Self.closedPort()) == .connectionRefused)
  }

  @Test
  func `say that a host takes the connection and then is silent, also where the caller waits less long`()
    async throws
  {
    let silent = try await Self.listener()
    #expect(
      try await Self.failure(port: silent.port, handshake: .milliseconds(300)) == .handshakeTimeout)
    #expect(try await Self.failure(port: silent.port, within: 0.5) == .handshakeTimeout)
  }

  @Test func `say that a host closes the connection, speaks no TLS, or no HTTP/2`() async throws {
    let closing = try await Self.listener { $0.close(promise: nil) }
    #expect(try await Self.failure(port: closing.port) == .handshakeClosed)
    let plain = try await Self.listener {
      $0.writeAndFlush(ByteBuffer(string: "HTTP/1.1 400 Bad Request\r\n\r\n"), promise: nil)
    }
    #expect(try await Self.failure(port: plain.port) == .notTLS)
    let old = try await TestListener.start(
      certificate: try TestCertificate.shared.get(), protocols: ["http/1.1"]
    ) { _, _ in }
    #expect(try await Self.failure(port: old.port) == .http2NotOffered)
  }

  @Test(
    arguments: [
      (407, .proxyUnauthorized), (403, .proxyForbidden), (502, .proxyCannotConnect), (404, .proxyRefused),
    ] as [(Int, ConnectionFailure)])
  func `name the proxy that refuses, by its status`(_ status: Int, _ failure: ConnectionFailure) async throws
  {
    let server = try await TestServer.start { _ in [.answer(200)] }
    let proxy = try await TestProxy.start(status: status)
    #expect(
      try await Self.failure(port: server.port, proxy: "http://127.0.0.1:\(proxy.port)") == failure)
    #expect(server.connections == 0)
  }

  @Test func `name a proxy that cannot be called or says nothing`() async throws {
    let proxies: [(String, ConnectionFailure)] = [
      ("http://127.0.0.1:\(try await Self.closedPort())", .proxyConnectionRefused),
      ("http://nobody.invalid:3128", .proxyNameNotResolved),
    ]
    for (proxy, failure) in proxies {
      #expect(try await Self.failure(port: 443, proxy: proxy) == failure)
    }
    let silent = try await Self.listener()
    #expect(
      try await Self.failure(port: 443, proxy: "http://127.0.0.1:\(silent.port)", within: 0.5)
        == .proxyTimeout)
  }
}
