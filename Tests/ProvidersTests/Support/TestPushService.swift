import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport

/// A push service that speaks HTTP/1.1 only, over TLS, and answers what the test wants.
final class TestPushService: Sendable {
  struct Request: Sendable {
    /// Which connection it came over, from 1.
    let connection: Int
    let path: String
    let headers: HTTPHeaders
    let body: ByteBuffer
  }

  enum Answer: Sendable {
    case status(Int, HTTPHeaders = [:])
    /// The same, and the connection is closed.
    case last(Int)
    /// None.
    case nothing
    /// 200 with a body that does not end.
    case endless
    /// The connection is closed.
    case drop
  }

  final class Log: Sendable {
    struct State {
      var requests: [Request] = []
      var connections = 0
      var open: [ObjectIdentifier: any Channel] = [:]
      var written = 0
    }

    let state = Mutex(State())
  }

  let port: Int
  private let channel: any Channel
  private let log: Log

  static func start(
    certificate: TestCertificate? = nil, address: String = "127.0.0.1",
    answer: @escaping @Sendable (Request) -> Answer = { _ in .status(201) }
  ) async throws -> TestPushService {
    let log = Log()
    let tls = try NIOSSLContext(configuration: (certificate ?? TestCertificate.shared.get()).configuration)
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelInitializer { channel in
        let connection = log.state.withLock { log in
          log.connections += 1
          log.open[ObjectIdentifier(channel)] = channel
          return log.connections
        }
        channel.closeFuture.whenComplete { _ in
          log.state.withLock { log in _ = log.open.removeValue(forKey: ObjectIdentifier(channel)) }
        }
        return channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          try pipeline.addHandler(NIOSSLServerHandler(context: tls))
          try pipeline.configureHTTPServerPipeline()
          try pipeline.addHandler(Handler(connection: connection, log: log, answer: answer))
        }
      }
      .bind(host: address, port: 0).get()
    return TestPushService(channel, log)
  }

  private init(_ channel: any Channel, _ log: Log) {
    self.channel = channel
    self.log = log
    port = channel.localAddress?.port ?? 0
  }

  var requests: [Request] { log.state.withLock { $0.requests } }
  var connections: Int { log.state.withLock { $0.connections } }
  var openConnections: Int { log.state.withLock { $0.open.count } }
  /// Bytes of endless bodies that were handed to the network.
  var written: Int { log.state.withLock { $0.written } }

  func stop() async throws {
    try await channel.close()
    for channel in log.state.withLock({ Array($0.open.values) }) { channel.close(promise: nil) }
  }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let connection: Int
    private let log: Log
    private let answer: @Sendable (Request) -> Answer
    private var head: HTTPRequestHead?
    private var body = ByteBuffer()

    init(connection: Int, log: Log, answer: @escaping @Sendable (Request) -> Answer) {
      (self.connection, self.log, self.answer) = (connection, log, answer)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      switch unwrapInboundIn(data) {
      case .head(let head):
        self.head = head
        body = ByteBuffer()
      case .body(let part): body.writeImmutableBuffer(part)
      case .end:
        guard let head else { return }
        let request = Request(connection: connection, path: head.uri, headers: head.headers, body: body)
        log.state.withLock { $0.requests.append(request) }
        reply(answer(request), context)
      }
    }

    private func reply(_ answer: Answer, _ context: ChannelHandlerContext) {
      switch answer {
      case .status(let status, let headers): send(status, headers, context)
      case .last(let status): send(status, ["connection": "close"], context)
      case .nothing: break
      case .drop: context.close(promise: nil)
      case .endless:
        context.write(wrapOutboundOut(.head(.init(version: .http1_1, status: .ok))), promise: nil)
        pour(context)
      }
    }

    private func send(_ status: Int, _ headers: HTTPHeaders, _ context: ChannelHandlerContext) {
      var headers = headers
      headers.add(name: "content-length", value: "0")
      context.write(
        wrapOutboundOut(.head(.init(version: .http1_1, status: .init(statusCode: status), headers: headers))),
        promise: nil)
      context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    /// Goes on as fast as it is read.
    private func pour(_ context: ChannelHandlerContext) {
      let part = ByteBuffer(repeating: 0x20, count: 65_536)
      context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(part)))).assumeIsolated().whenSuccess {
        self.log.state.withLock { $0.written += part.readableBytes }
        // Not at once: it may have been written before anybody asked.
        context.eventLoop.assumeIsolated().execute { self.pour(context) }
      }
    }
  }
}
