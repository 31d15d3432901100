import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import NIOTLS
import Synchronization

/// A bound port and its connections.
///
/// The simulator listens by itself, and not with Hummingbird as the service does, because its faults reach below a request:
/// GOAWAY after which earlier streams are still answered, RST_STREAM with a given code, SETTINGS that change on an open
/// connection, an answer without an end, a connection that falls silent or breaks off without TLS's closing message.
/// Hummingbird's HTTP/2 channel fixes the SETTINGS and shows a handler its request alone.
final class Listener: Sendable {
  /// What is spoken on the port: HTTP/2 or HTTP/1.1 over TLS, as the client chooses, unless these say otherwise.
  struct Options: Sendable {
    /// How many streams a client may open at first.
    var streams = 1000
    /// Apple's port: HTTP/2 also to clients that negotiate nothing, as aioapns does not.
    var isHTTP2Only = false
    /// HTTP/1.1 in clear, too: the first byte tells.
    var allowsClear = false
  }

  let port: Int
  private let server: any Channel
  private let connections: Connections

  /// Listens on 127.0.0.1.
  static func start(
    port: Int, _ options: Options, tls: NIOSSLContext, service: any Responder
  ) async throws -> Listener {
    let connections = Connections()
    let pipeline = Pipeline(options: options, tls: tls, service: service)
    let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.backlog, value: 1024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          connections.add(channel)
          if options.allowsClear {
            try channel.pipeline.syncOperations.addHandler(FirstByte(pipeline))
          } else {
            try pipeline.addTLS(to: channel)
          }
        }
      }
      .bind(host: "127.0.0.1", port: port).get()
    return Listener(server: server, connections: connections)
  }

  private init(server: any Channel, connections: Connections) {
    port = server.localAddress?.port ?? 0
    self.server = server
    self.connections = connections
  }

  /// Closes every connection, not the port.
  func closeConnections() async {
    await connections.closeAll()
  }

  /// Closes the port and every connection.
  func close() async {
    try? await server.close()
    await connections.closeAll()
  }

  /// Breaks a connection off: closed below TLS, which would say goodbye and wait for the peer's.
  static func breakOff(_ channel: any Channel) {
    channel.eventLoop.execute {
      guard let tls = try? channel.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self)
      else { return channel.close(promise: nil) }
      tls.close(promise: nil)
    }
  }
}

/// The connections of a listener, so that they can be closed.
private final class Connections: Sendable {
  private let open = Mutex<[ObjectIdentifier: any Channel]>([:])

  func add(_ channel: any Channel) {
    let id = ObjectIdentifier(channel)
    open.withLock { $0[id] = channel }
    channel.closeFuture.whenComplete { _ in self.open.withLock { $0[id] = nil } }
  }

  func closeAll() async {
    for channel in open.withLock({ Array($0.values) }) {
      Listener.breakOff(channel)
      try? await channel.closeFuture.get()
    }
  }
}

/// How a connection's handlers are put together.
private struct Pipeline: Sendable {
  let options: Listener.Options
  let tls: NIOSSLContext
  let service: any Responder

  func addTLS(to channel: any Channel) throws {
    try channel.pipeline.syncOperations.addHandlers([
      NIOSSLServerHandler(context: tls),
      ApplicationProtocolNegotiationHandler { result, channel in
        channel.eventLoop.makeCompletedFuture {
          if options.isHTTP2Only || result == .negotiated("h2") {
            try addHTTP2(to: channel)
          } else {
            try addHTTP1(to: channel)
          }
        }
      },
    ])
  }

  func addHTTP1(to channel: any Channel) throws {
    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withErrorHandling: true)
    try channel.pipeline.syncOperations.addHandlers(
      HTTP1Frames(), Exchange(service: service, connection: Connection(channel: channel, isHTTP2: false)))
  }

  private func addHTTP2(to channel: any Channel) throws {
    let connection = Connection(channel: channel, isHTTP2: true)
    let bound = NIOLoopBound(connection, eventLoop: channel.eventLoop)
    var settings = NIOHTTP2Handler.ConnectionConfiguration()
    settings.initialSettings = [
      .init(parameter: .maxConcurrentStreams, value: options.streams),
      .init(parameter: .maxHeaderListSize, value: 8000),
    ]
    settings.targetWindowSize = 1 << 24
    // Apple's and Google's servers do not close a connection because of many control frames, so the simulator
    // must not either.
    settings.controlFrameRateLimit.maximumCount = .max
    settings.maximumBufferedControlFrames = 100_000
    settings.maximumConnectionGlitches = .max
    settings.maximumSequentialEmptyDataFrames = 100
    var stream = NIOHTTP2Handler.StreamConfiguration()
    stream.streamResetFrameRateLimit.maximumCount = .max
    stream.streamErrorRateLimit.maximumCount = .max
    try channel.pipeline.syncOperations.addHandler(
      NIOHTTP2Handler(
        mode: .server, eventLoop: channel.eventLoop, connectionConfiguration: settings,
        streamConfiguration: stream
      ) { [service] stream in
        stream.eventLoop.makeCompletedFuture {
          try stream.pipeline.syncOperations.addHandler(
            Exchange(service: service, connection: bound.value))
        }
      })
    service.opened(connection)
  }
}

/// Tells TLS from clear text by a connection's first byte: a TLS record of the handshake starts with 0x16 (RFC 8446 5.1).
private final class FirstByte: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer

  private let pipeline: Pipeline

  init(_ pipeline: Pipeline) {
    self.pipeline = pipeline
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let bytes = unwrapInboundIn(data)
    guard let first = bytes.getInteger(at: bytes.readerIndex, as: UInt8.self) else { return }
    do {
      if first == 0x16 {
        try pipeline.addTLS(to: context.channel)
      } else {
        try pipeline.addHTTP1(to: context.channel)
      }
    } catch {
      return context.close(promise: nil)
    }
    context.fireChannelRead(data)
    context.fireChannelReadComplete()
    context.pipeline.syncOperations.removeHandler(self, promise: nil)
  }
}
