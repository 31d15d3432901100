import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Closes a connection on which a request does not arrive whole in time, be it that nothing comes at
/// all or a byte now and then: a client must not hold a connection for nothing.
///
/// The clock runs from the opening of the connection, or the end of the last answer, to the end of
/// the next request; while an answer is made it stands still.
final class RequestDeadline: ChannelInboundHandler, ChannelOutboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart

  private let timeout: TimeAmount
  private var timer: Scheduled<Void>?

  init(timeout: TimeAmount) {
    self.timeout = timeout
  }

  func handlerAdded(context: ChannelHandlerContext) {
    start(context)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    stop()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .end = unwrapInboundIn(data) { stop() }
    context.fireChannelRead(data)
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if case .end = unwrapOutboundIn(data) { start(context) }
    context.write(data, promise: promise)
  }

  func channelInactive(context: ChannelHandlerContext) {
    stop()
    context.fireChannelInactive()
  }

  private func start(_ context: ChannelHandlerContext) {
    stop()
    let channel = context.channel
    timer = context.eventLoop.scheduleTask(in: timeout) { channel.close(promise: nil) }
  }

  private func stop() {
    timer?.cancel()
    timer = nil
  }
}
