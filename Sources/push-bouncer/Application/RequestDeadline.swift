import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Closes a connection on which a request does not arrive whole in time, be it that nothing comes at
/// all or a byte now and then: a client must not hold a connection for nothing.
///
/// The clock runs from the opening of the connection, or the end of the last answer, to the end of
/// the next request. It stands still only while a request that is here whole waits for its answer: an
/// answer may also end before its request, which then still has to arrive.
final class RequestDeadline: ChannelInboundHandler, ChannelOutboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart

  private let timeout: TimeAmount
  private var timer: Scheduled<Void>?
  /// Requests that have arrived whole, less answers that have ended.
  private var waiting = 0

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
    if case .end = unwrapInboundIn(data) { count(1, context) }
    context.fireChannelRead(data)
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if case .end = unwrapOutboundIn(data) { count(-1, context) }
    context.write(data, promise: promise)
  }

  func channelInactive(context: ChannelHandlerContext) {
    stop()
    context.fireChannelInactive()
  }

  private func count(_ change: Int, _ context: ChannelHandlerContext) {
    waiting += change
    if waiting > 0 { stop() } else { start(context) }
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
