import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import NIOTLS
import Synchronization

/// A bound port and its connections.
final class Listener: Sendable {
  /// What is spoken on the port.
  enum Kind: Sendable {
    /// HTTP/2 over TLS only, with this many streams at first.
    case http2(initialStreams: Int)
    /// HTTP/2 or HTTP/1.1 over TLS, as the client chooses.
    case tls(streams: Int)
    /// HTTP/2 or HTTP/1.1 over TLS, or HTTP/1.1 in clear: the first byte tells.
    case any
  }

  let port: Int
  private let server: any Channel
  private let connections: Connections

  /// Listens on 127.0.0.1.
  static func start(port: Int, kind: Kind, tls: NIOSSLContext, service: any Responder) async throws
    -> Listener
  {
    let connections = Connections()
    let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.backlog, value: 1024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          connections.add(channel)
          try channel.pipeline.syncOperations.addHandler(SocketEnd())
          switch kind {
          case .http2, .tls: try Pipeline.addTLS(to: channel, kind: kind, tls: tls, service: service)
          case .any:
            try channel.pipeline.syncOperations.addHandler(FirstByte(kind: kind, tls: tls, service: service))
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
      SocketEnd.close(channel)
      try? await channel.closeFuture.get()
    }
  }
}

/// Stands at the socket's end of the pipeline, where a connection can be broken off: a close from the other end would
/// have TLS say goodbye and wait for the peer's.
final class SocketEnd: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer

  static func close(_ channel: any Channel) {
    channel.eventLoop.execute {
      guard let context = try? channel.pipeline.syncOperations.context(handlerType: SocketEnd.self) else {
        return
      }
      context.close(promise: nil)
    }
  }
}

/// How a connection's handlers are put together.
enum Pipeline {
  static func addTLS(to channel: any Channel, kind: Listener.Kind, tls: NIOSSLContext, service: any Responder)
    throws
  {
    try channel.pipeline.syncOperations.addHandlers([
      NIOSSLServerHandler(context: tls),
      ApplicationProtocolNegotiationHandler { result, channel in
        channel.eventLoop.makeCompletedFuture {
          switch (result, kind) {
          case (_, .http2(let streams)):
            // Apple speaks HTTP/2 also to clients that negotiate nothing, as aioapns does not.
            try addHTTP2(to: channel, streams: streams, service: service)
          case (.negotiated("h2"), .tls(let streams)):
            try addHTTP2(to: channel, streams: streams, service: service)
          case (.negotiated("h2"), .any):
            try addHTTP2(to: channel, streams: 1000, service: service)
          case (_, .any), (_, .tls):
            try addHTTP1(to: channel, service: service)
          }
        }
      },
    ])
  }

  static func addHTTP1(to channel: any Channel, service: any Responder) throws {
    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withErrorHandling: true)
    try channel.pipeline.syncOperations.addHandler(
      HTTP1Handler(service: service, connection: Connection(channel: channel)))
  }

  private static func addHTTP2(to channel: any Channel, streams: Int, service: any Responder) throws {
    let connection = Connection(channel: channel)
    let bound = NIOLoopBound(connection, eventLoop: channel.eventLoop)
    var settings = NIOHTTP2Handler.ConnectionConfiguration()
    settings.initialSettings = [
      .init(parameter: .maxConcurrentStreams, value: streams),
      .init(parameter: .maxHeaderListSize, value: 8000),
    ]
    settings.targetWindowSize = 1 << 24
    // A service of Apple's or Google's size does not break off for being talked to much; so neither may its double.
    settings.controlFrameRateLimit.maximumCount = .max
    settings.maximumBufferedControlFrames = 100_000
    settings.maximumConnectionGlitches = .max
    settings.maximumSequentialEmptyDataFrames = 100
    var stream = NIOHTTP2Handler.StreamConfiguration()
    stream.streamResetFrameRateLimit.maximumCount = .max
    stream.streamErrorRateLimit.maximumCount = .max
    try channel.pipeline.syncOperations.addHandlers([
      RawFrames(connection),
      NIOHTTP2Handler(
        mode: .server, eventLoop: channel.eventLoop, connectionConfiguration: settings,
        streamConfiguration: stream
      ) { stream in
        stream.eventLoop.makeCompletedFuture {
          try stream.pipeline.syncOperations.addHandler(
            HTTP2StreamHandler(service: service, connection: bound.value))
        }
      },
    ])
    service.opened(connection)
  }
}

/// Tells TLS from clear text by a connection's first byte: a TLS record of the handshake starts with 0x16 (RFC 8446 5.1).
private final class FirstByte: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer

  private let kind: Listener.Kind
  private let tls: NIOSSLContext
  private let service: any Responder

  init(kind: Listener.Kind, tls: NIOSSLContext, service: any Responder) {
    self.kind = kind
    self.tls = tls
    self.service = service
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let bytes = unwrapInboundIn(data)
    guard let first = bytes.getInteger(at: bytes.readerIndex, as: UInt8.self) else { return }
    do {
      if first == 0x16 {
        try Pipeline.addTLS(to: context.channel, kind: kind, tls: tls, service: service)
      } else {
        try Pipeline.addHTTP1(to: context.channel, service: service)
      }
    } catch {
      return context.close(promise: nil)
    }
    context.fireChannelRead(data)
    context.fireChannelReadComplete()
    context.pipeline.syncOperations.removeHandler(self, promise: nil)
  }
}
