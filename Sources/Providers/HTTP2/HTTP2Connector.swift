import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOTLS
import Synchronization

/// Opens connections to one origin: TCP, the proxy's CONNECT where there is one, TLS, HTTP/2.
///
/// The name is resolved each time, so that a provider may move.
struct HTTP2Connector: Connector {
  let host: String
  let port: Int
  let tls: NIOSSLContext
  var proxy: Proxy?
  var limits = HTTP2ConnectionHandler.Limits()

  /// `:authority` of the requests.
  var authority: String {
    let name = host.contains(":") ? "[\(host)]" : host
    return port == 443 ? name : "\(name):\(port)"
  }

  /// The TLS settings of all connections: the system's trust roots and those in the file, HTTP/2 only unless told
  /// otherwise.
  static func tls(caFile: String?, protocols: [String] = ["h2"]) throws -> NIOSSLContext {
    var configuration = TLSConfiguration.outgoing(caFile: caFile)
    configuration.applicationProtocols = protocols
    return try NIOSSLContext(configuration: configuration)
  }

  func connect(_ id: ConnectionID, owner: any HTTP2ConnectionOwner, on eventLoop: any EventLoop) {
    ClientBootstrap(group: eventLoop)
      .connectTimeout(.seconds(5))
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          guard let proxy else { return try addHTTP2(id, owner, to: channel) }
          let handler = ProxyConnectHandler(proxy: proxy, host: host, port: port) { result in
            do {
              try result.get()
              try addHTTP2(id, owner, to: channel)
            } catch {
              owner.closed(id, wasUp: false, failure: .proxyRefused)
              channel.close(promise: nil)
            }
          }
          try channel.pipeline.syncOperations.addHandler(handler)
        }
      }
      .connect(host: proxy?.host ?? host, port: proxy?.port ?? port)
      .whenFailure { _ in owner.closed(id, wasUp: false, failure: .connectFailed) }
  }

  private func addHTTP2(_ id: ConnectionID, _ owner: any HTTP2ConnectionOwner, to channel: any Channel) throws
  {
    try channel.pipeline.syncOperations.addHandlers([
      NIOSSLClientHandler.proving(host, context: tls),
      HTTP2ConnectionHandler(id: id, owner: owner, limits: limits),
    ])
  }
}

/// Opens connections to one origin.
protocol Connector: Sendable {
  /// Opens a connection. What becomes of it is told to the owner, and the owner only.
  func connect(_ id: ConnectionID, owner: any HTTP2ConnectionOwner, on eventLoop: any EventLoop)
}

/// What speaks on a connection. To be used on its event loop.
protocol ConnectionHandler: AnyObject {
  /// Sends requests.
  func start(_ pendingRequests: [PendingRequest])
  /// Gives a stream up whose request has ended already.
  func reset(_ stream: HTTP2StreamID, timedOut: Bool)
  /// Asks for a sign of life.
  func ask()
  /// Ends the connection.
  func end(_ failure: TransportFailure)
}

/// A connection as the other threads see it: hands requests over to its event loop, many at a time.
final class HTTP2Connection: Sendable {
  let id: ConnectionID
  private let eventLoop: any EventLoop
  private let handler: NIOLoopBound<any ConnectionHandler>
  private let inbox = Mutex<[PendingRequest]>([])

  /// To be made on the handler's event loop.
  init(id: ConnectionID, eventLoop: any EventLoop, handler: any ConnectionHandler) {
    self.id = id
    self.eventLoop = eventLoop
    self.handler = NIOLoopBound(handler, eventLoop: eventLoop)
  }

  /// Sends the request. What comes while the event loop is busy goes out with one wake-up and one flush.
  func start(_ pending: PendingRequest) {
    let isFirst = inbox.withLock { inbox in
      inbox.append(pending)
      return inbox.count == 1
    }
    guard isFirst else { return }
    eventLoop.execute { [self] in
      let pendingRequests = inbox.withLock { inbox in
        defer { inbox = [] }
        return inbox
      }
      handler.value.start(pendingRequests)
    }
  }

  /// Gives the stream up: nobody waits for its answer.
  func reset(_ stream: HTTP2StreamID, timedOut: Bool) {
    eventLoop.execute { [handler] in handler.value.reset(stream, timedOut: timedOut) }
  }

  /// Asks for a sign of life.
  func probe() {
    eventLoop.execute { [handler] in handler.value.ask() }
  }

  /// Closes the connection, which has nothing under way.
  func close() {
    eventLoop.execute { [handler] in handler.value.end(.connectionLost) }
  }
}

/// Waits above TLS for what the peer speaks (ALPN, RFC 7301), and leaves its place to the handler of that: HTTP/2, or
/// HTTP/1.1 where nothing was agreed on.
final class NegotiationHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer

  /// Of the head of an answer over HTTP/1.1, and of what follows its body.
  private static var headLimits: NIOHTTPDecoderLimitConfiguration {
    var limits = NIOHTTPDecoderLimitConfiguration()
    limits.maxHeaderFieldSize = 8192
    limits.maxHeaderListSize = HTTP2Input.longestHeaders
    limits.maxHeaderFieldCount = 100
    return limits
  }

  private let id: ConnectionID
  private let owner: any HTTP2ConnectionOwner
  private let limits: HTTP2ConnectionHandler.Limits
  private var isDone = false

  init(id: ConnectionID, owner: any HTTP2ConnectionOwner, limits: HTTP2ConnectionHandler.Limits) {
    (self.id, self.owner, self.limits) = (id, owner, limits)
  }

  func handlerAdded(context: ChannelHandlerContext) {
    context.eventLoop.assumeIsolated().scheduleTask(in: limits.handshake) {
      self.fail(.tlsFailed, context)
    }
    if !context.channel.isActive { fail(.connectFailed, context) }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case TLSUserEvent.handshakeCompleted(let negotiated) = event, !isDone else {
      return context.fireUserInboundEventTriggered(event)
    }
    isDone = true
    let handlers: [any ChannelHandler] =
      negotiated == "h2"
      ? [HTTP2ConnectionHandler(id: id, owner: owner, limits: limits)]
      : [
        HTTPRequestEncoder(), ByteToMessageHandler(HTTPResponseDecoder(limitConfiguration: Self.headLimits)),
        HTTP1ConnectionHandler(id: id, owner: owner, limits: limits),
      ]
    let pipeline = context.pipeline.syncOperations
    do {
      try pipeline.addHandlers(handlers, position: .after(self))
    } catch {
      owner.closed(id, wasUp: false, failure: .connectFailed)
      context.closeAtOnce()
    }
    pipeline.removeHandler(context: context, promise: nil)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    fail(error is ChannelError || error is IOError ? .connectFailed : .tlsFailed, context)
  }

  func channelInactive(context: ChannelHandlerContext) {
    fail(.connectFailed, context)
    context.fireChannelInactive()
  }

  private func fail(_ failure: TransportFailure, _ context: ChannelHandlerContext) {
    guard !isDone else { return }
    isDone = true
    owner.closed(id, wasUp: false, failure: failure)
    context.closeAtOnce()
  }
}
