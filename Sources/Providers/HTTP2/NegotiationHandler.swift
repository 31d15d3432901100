import NIOCore
import NIOHTTP1
import NIOTLS

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
