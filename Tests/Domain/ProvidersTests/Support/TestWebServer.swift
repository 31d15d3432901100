import NIOCore
import NIOHTTP1
import TestServers
import TestSupport

/// An HTTP/1.1 server: a push service, Google's OAuth endpoint, or FCM as a simulator speaks it in clear.
struct TestWebServer: TestListening {
  struct Request: Sendable {
    /// Which connection it came over, from 1.
    let connection: Int
    let path: String
    let headers: HTTPHeaders
    let body: ByteBuffer
  }

  struct Answer: Sendable {
    var status = 200
    var headers: HTTPHeaders = [:]
    var body = ""
    var delay: TimeAmount = .zero
    var end = End.whole

    enum End {
      case whole
      /// The body is ten bytes shorter than the head says.
      case cut
      /// Nothing is answered at all.
      case nothing
    }

    static func status(_ status: Int, _ headers: HTTPHeaders = [:]) -> Answer {
      Answer(status: status, headers: headers)
    }

    /// The connection is closed afterwards.
    static func last(_ status: Int) -> Answer { .status(status, ["connection": "close"]) }
    static let nothing = Answer(end: .nothing)
  }

  let listener: TestListener
  private let log: Shared<[Request]>

  /// A push service, which speaks over TLS.
  static func start(
    certificate: TestCertificate? = nil, address: String = "127.0.0.1",
    answer: @escaping @Sendable (Request) -> Answer = { _ in .status(201) }
  ) async throws -> TestWebServer {
    try await start(address, certificate ?? TestCertificate.shared.get(), answer)
  }

  static func startInClear(answer: @escaping @Sendable (Request) -> Answer) async throws -> TestWebServer {
    try await start("127.0.0.1", nil, answer)
  }

  private static func start(
    _ address: String, _ certificate: TestCertificate?, _ answer: @escaping @Sendable (Request) -> Answer
  ) async throws -> TestWebServer {
    let log = Shared<[Request]>([])
    let listener = try await TestListener.start(address: address, certificate: certificate) {
      pipeline, connection in
      try pipeline.configureHTTPServerPipeline()
      try pipeline.addHandler(Handler(connection: connection, log: log, answer: answer))
    }
    return TestWebServer(listener: listener, log: log)
  }

  var requests: [Request] { log.withLock { $0 } }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let connection: Int
    private let log: Shared<[Request]>
    private let answer: @Sendable (Request) -> Answer
    private var head: HTTPRequestHead?
    private var body = ByteBuffer()

    init(connection: Int, log: Shared<[Request]>, answer: @escaping @Sendable (Request) -> Answer) {
      (self.connection, self.log, self.answer) = (connection, log, answer)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      switch unwrapInboundIn(data) {
      case .head(let head): (self.head, body) = (head, ByteBuffer())
      case .body(let part): body.writeImmutableBuffer(part)
      case .end:
        guard let head else { return }
        let request = Request(connection: connection, path: head.uri, headers: head.headers, body: body)
        log.withLock { $0.append(request) }
        let answer = answer(request)
        context.eventLoop.assumeIsolated().scheduleTask(in: answer.delay) { self.write(answer, context) }
      }
    }

    private func write(_ answer: Answer, _ context: ChannelHandlerContext) {
      guard answer.end != .nothing else { return }
      let missing = answer.end == .cut ? 10 : 0
      var headers = answer.headers
      headers.add(name: "content-length", value: String(answer.body.utf8.count + missing))
      let head = HTTPResponseHead(
        version: .http1_1, status: .init(statusCode: answer.status), headers: headers)
      context.write(wrapOutboundOut(.head(head)), promise: nil)
      let body = wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: answer.body))))
      context.writeAndFlush(body, promise: nil)
      if answer.end == .whole { context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil) }
    }
  }
}
