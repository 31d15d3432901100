import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// An HTTP/1.1 server in clear: Google's OAuth endpoint, and FCM as a simulator speaks it.
final class TestWebServer: Sendable {
  struct Request: Sendable {
    let path: String
    let headers: HTTPHeaders
    let body: String
  }

  struct Answer: Sendable {
    var status = 200
    var headers: HTTPHeaders = [:]
    var body = ""
    var delay: TimeAmount = .zero
    /// Only the head is sent.
    var isCut = false
  }

  let port: Int
  private let channel: any Channel
  private let log: Log

  final class Log: Sendable {
    let requests = Mutex<[Request]>([])
  }

  var requests: [Request] { log.requests.withLock { $0 } }

  static func start(answer: @escaping @Sendable (Request) -> Answer) async throws -> TestWebServer {
    let log = Log()
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.configureHTTPServerPipeline()
          try channel.pipeline.syncOperations.addHandler(TestWebHandler(log: log, answer: answer))
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    return TestWebServer(channel, log)
  }

  private init(_ channel: any Channel, _ log: Log) {
    self.channel = channel
    self.log = log
    port = channel.localAddress?.port ?? 0
  }

  func stop() async throws { try await channel.close() }
}

private final class TestWebHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let log: TestWebServer.Log
  private let answer: @Sendable (TestWebServer.Request) -> TestWebServer.Answer
  private var head: HTTPRequestHead?
  private var body = ""

  init(log: TestWebServer.Log, answer: @escaping @Sendable (TestWebServer.Request) -> TestWebServer.Answer) {
    self.log = log
    self.answer = answer
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head): (self.head, body) = (head, "")
    case .body(let buffer): body += String(buffer: buffer)
    case .end:
      guard let head else { return }
      let request = TestWebServer.Request(path: head.uri, headers: head.headers, body: body)
      log.requests.withLock { $0.append(request) }
      let answer = answer(request)
      context.eventLoop.assumeIsolated().scheduleTask(in: answer.delay) { self.write(answer, context) }
    }
  }

  private func write(_ answer: TestWebServer.Answer, _ context: ChannelHandlerContext) {
    var headers = answer.headers
    headers.add(name: "content-length", value: String(answer.body.utf8.count + (answer.isCut ? 10 : 0)))
    let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: answer.status), headers: headers)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: answer.body)))), promise: nil)
    if !answer.isCut { context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil) }
  }
}
