import Foundation
package import NIOCore
package import NIOHPACK
package import NIOHTTP2
package import TestSupport

/// An HTTP/2 server over TLS that does to each request what the test wants, frame by frame.
package struct TestServer: TestListening {
  package struct Request: Sendable {
    /// Which connection it came over, from 1.
    package let connection: Int
    /// Which request of that connection it is, from 1.
    package let number: Int
    package let headers: HPACKHeaders
    package let body: String

    package var path: String { headers.first(name: ":path") ?? "" }
    package subscript(name: String) -> String? { headers.first(name: name) }
  }

  package enum Action: Sendable {
    case answer(Int, [(String, String)] = [], String = "")
    /// HEADERS and some DATA, but no end.
    case begin(Int, String)
    /// More DATA without an end.
    case data(String)
    case reset(HTTP2ErrorCode)
    /// The streams before this one were taken, this one and later ones were not.
    case goAwayBelow
    /// All streams that were opened until now are taken, later ones are not.
    case goAwayHere
    /// A first GOAWAY with the highest id there is.
    case goAwayNotice
    case announce(streams: Int)
    case drop
    case after(TimeAmount, [Action])
  }

  package struct Configuration: Sendable {
    /// What the first SETTINGS allow; nil leaves it out.
    var streams: Int?
    /// How long the server's first bytes of HTTP/2 are held back.
    var delaySettings: TimeAmount?
    /// What comes right after the SETTINGS.
    var greeting: [Action]
    /// Leaves everything unanswered, including PINGs, like a peer that has vanished.
    var isDeaf: Bool

    package init(
      streams: Int? = 1000, delaySettings: TimeAmount? = nil, greeting: [Action] = [], isDeaf: Bool = false
    ) {
      self.streams = streams
      self.delaySettings = delaySettings
      self.greeting = greeting
      self.isDeaf = isDeaf
    }
  }

  fileprivate struct Log {
    var requests: [Request] = []
    var mostStreams = 0
    var resets = 0
    var pings = 0
  }

  package let listener: TestListener
  fileprivate let log: Shared<Log>

  package static func start(
    _ configuration: Configuration = .init(), certificate: TestCertificate? = nil,
    react: @escaping @Sendable (Request) -> [Action]
  ) async throws -> TestServer {
    let log = Shared(Log())
    let listener = try await TestListener.start(
      certificate: certificate ?? TestCertificate.shared.get(), protocols: ["h2"]
    ) { pipeline, connection in
      var http2 = NIOHTTP2Handler.ConnectionConfiguration()
      http2.initialSettings =
        configuration.streams.map { [HTTP2Setting(parameter: .maxConcurrentStreams, value: $0)] } ?? []
      http2.maximumRecentlyResetStreams = 10_000
      http2.maximumConnectionGlitches = .max
      http2.controlFrameRateLimit.maximumCount = .max
      var stream = NIOHTTP2Handler.StreamConfiguration()
      stream.streamResetFrameRateLimit.maximumCount = .max
      if let delay = configuration.delaySettings { try pipeline.addHandler(HoldBack(delay)) }
      if configuration.isDeaf { try pipeline.addHandler(Deaf()) }
      try pipeline.addHandlers([
        NIOHTTP2Handler(mode: .server, connectionConfiguration: http2, streamConfiguration: stream),
        TestServerHandler(connection: connection, log: log, greeting: configuration.greeting, react: react),
      ])
    }
    return TestServer(listener: listener, log: log)
  }

  package var requests: [Request] { log.withLock { $0.requests } }
  /// The most requests that were under way at a time on one connection.
  package var mostStreams: Int { log.withLock { $0.mostStreams } }
  package var resets: Int { log.withLock { $0.resets } }
  package var pings: Int { log.withLock { $0.pings } }
}

private final class TestServerHandler: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame
  typealias OutboundOut = HTTP2Frame

  private let connection: Int
  private let log: Shared<TestServer.Log>
  private let greeting: [TestServer.Action]
  private let react: @Sendable (TestServer.Request) -> [TestServer.Action]
  private var open: [HTTP2StreamID: (headers: HPACKHeaders, body: String)] = [:]
  private var count = 0
  private var highest = HTTP2StreamID.rootStream
  /// Streams above are not looked at.
  private var last = HTTP2StreamID.maxID

  init(
    connection: Int, log: Shared<TestServer.Log>, greeting: [TestServer.Action],
    react: @escaping @Sendable (TestServer.Request) -> [TestServer.Action]
  ) {
    self.connection = connection
    self.log = log
    self.greeting = greeting
    self.react = react
  }

  func channelActive(context: ChannelHandlerContext) {
    perform(greeting, on: .rootStream, context)
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    guard frame.streamID <= last else { return }
    switch frame.payload {
    case .headers(let payload):
      highest = max(highest, frame.streamID)
      open[frame.streamID] = (payload.headers, "")
      if payload.endStream { received(frame.streamID, context) }
    case .data(let payload):
      if case .byteBuffer(let buffer) = payload.data { open[frame.streamID]?.body += String(buffer: buffer) }
      if payload.endStream { received(frame.streamID, context) }
    case .rstStream:
      log.withLock { $0.resets += 1 }
      open[frame.streamID] = nil
    case .ping(_, ack: false):
      log.withLock { $0.pings += 1 }
    default: break
    }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if let event = event as? NIOHTTP2WindowUpdatedEvent, event.streamID == .rootStream,
      let window = event.inboundWindowSize, window < 32_768
    {
      write(.windowUpdate(windowSizeIncrement: 65_535 - window), on: .rootStream, context)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {}

  private func received(_ stream: HTTP2StreamID, _ context: ChannelHandlerContext) {
    guard let (headers, body) = open[stream] else { return }
    count += 1
    let request = TestServer.Request(connection: connection, number: count, headers: headers, body: body)
    log.withLock { log in
      log.requests.append(request)
      log.mostStreams = max(log.mostStreams, open.count)
    }
    perform(react(request), on: stream, context)
  }

  private func perform(
    _ actions: [TestServer.Action], on stream: HTTP2StreamID, _ context: ChannelHandlerContext
  ) {
    for action in actions { perform(action, on: stream, context) }
  }

  private func perform(
    _ action: TestServer.Action, on stream: HTTP2StreamID, _ context: ChannelHandlerContext
  ) {
    switch action {
    case .answer(let status, let extra, let body):
      guard open.removeValue(forKey: stream) != nil else { return }
      let headers = HPACKHeaders([(":status", String(status))] + extra)
      write(.headers(.init(headers: headers, endStream: body.isEmpty)), on: stream, context)
      if !body.isEmpty {
        write(.data(.init(data: .byteBuffer(ByteBuffer(string: body)), endStream: true)), on: stream, context)
      }
    case .begin(let status, let body):
      write(.headers(.init(headers: [":status": String(status)])), on: stream, context)
      write(.data(.init(data: .byteBuffer(ByteBuffer(string: body)))), on: stream, context)
    case .data(let body):
      write(.data(.init(data: .byteBuffer(ByteBuffer(string: body)))), on: stream, context)
    case .reset(let code):
      open[stream] = nil
      write(.rstStream(code), on: stream, context)
    case .goAwayHere: goAway(highest, context)
    case .goAwayBelow: goAway(HTTP2StreamID(max(0, Int(stream) - 2)), context)
    case .goAwayNotice: goAway(.maxID, context)
    case .announce(let streams):
      let setting = HTTP2Setting(parameter: .maxConcurrentStreams, value: streams)
      write(.settings(.settings([setting])), on: .rootStream, context)
    case .drop:
      context.close(promise: nil)
    case .after(let delay, let actions):
      context.eventLoop.assumeIsolated().scheduleTask(in: delay) {
        self.perform(actions, on: stream, context)
      }
    }
  }

  private func goAway(_ last: HTTP2StreamID, _ context: ChannelHandlerContext) {
    self.last = last
    write(.goAway(lastStreamID: last, errorCode: .noError, opaqueData: nil), on: .rootStream, context)
  }

  private func write(
    _ payload: HTTP2Frame.FramePayload, on stream: HTTP2StreamID, _ context: ChannelHandlerContext
  ) {
    context.writeAndFlush(wrapOutboundOut(HTTP2Frame(streamID: stream, payload: payload)), promise: nil)
  }
}

/// Holds back what the server sends for a while after the connection is up.
private final class HoldBack: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer

  private let delay: TimeAmount
  private var held: [(NIOAny, EventLoopPromise<Void>?)]? = []

  init(_ delay: TimeAmount) {
    self.delay = delay
  }

  func handlerAdded(context: ChannelHandlerContext) {
    context.eventLoop.assumeIsolated().scheduleTask(in: delay) {
      let held = self.held ?? []
      self.held = nil
      for (data, promise) in held { context.write(data, promise: promise) }
      context.flush()
    }
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard held != nil else { return context.write(data, promise: promise) }
    held?.append((data, promise))
  }
}

/// Hears nothing, as a machine that is gone once it has said its SETTINGS. Nothing from the first byte on: the
/// client's first request may come together with its preface.
private final class Deaf: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {}
}
