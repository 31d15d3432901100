import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Closes a connection on which no whole request arrives in time, whether nothing comes at all or a byte now and
/// then: a client must not hold a connection for nothing.
///
/// The clock runs from the opening of the connection, or the end of the last answer, to the end of
/// the next request. It stands still only while a whole request waits for its answer. (An answer may also end
/// before its request does; then the rest of that request has to arrive in time.)
///
/// When the listener ends (`ChannelShouldQuiesceEvent`), each connection ends with its next answer, which says
/// so. A request that has begun is waited for as long as it goes on. A connection without one yet is given a moment,
/// since chat servers open a connection for one request and send that once; one that has been answered before only
/// as long as another request may be on its way already.
final class RequestDeadline: ChannelInboundHandler, ChannelOutboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// How long an ending connection is silent before it is given up.
  private static let (endTimeout, nextRequestTimeout) = (TimeAmount.seconds(2), TimeAmount.milliseconds(100))

  private var timeout: TimeAmount
  /// When the awaited request must have arrived; nil while none is awaited.
  private var deadline: NIODeadline?
  private var timer: (task: Scheduled<Void>, fires: NIODeadline)?
  /// Requests that have begun, less answers that have ended.
  private var open = 0
  /// Requests that have arrived whole, less answers that have ended.
  private var waiting = 0
  private var wasUsed = false
  private var isEnding = false
  private let connections: OpenConnections?
  private var connection: OpenConnection?

  /// - Parameter connections: is told which connections are being answered.
  init(timeout: TimeAmount, _ connections: OpenConnections? = nil) {
    self.timeout = timeout
    self.connections = connections
  }

  func handlerAdded(context: ChannelHandlerContext) {
    connection = connections?.connection(of: context.channel)
    start(context)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    stop()
    timer?.task.cancel()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard event is ChannelShouldQuiesceEvent else { return context.fireUserInboundEventTriggered(event) }
    isEnding = true
    timeout = wasUsed && open == 0 ? Self.nextRequestTimeout : Self.endTimeout
    if waiting <= 0 { start(context) }
    if open > 0 { endWithAnswer(context) }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let part = unwrapInboundIn(data)
    switch part {
    case .head:
      open += 1
      wasUsed = true
      if isEnding { timeout = Self.endTimeout }
    case .body: break
    case .end: count(1, context)
    }
    if isEnding, waiting <= 0 { start(context) }
    context.fireChannelRead(data)
    if isEnding, case .head = part { endWithAnswer(context) }
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    var data = data
    switch unwrapOutboundIn(data) {
    case .head(var response) where isEnding && response.status.kind != .informational:
      response.headerFields[.connection] = "close"
      data = wrapOutboundOut(.head(response))
    case .head, .body: break
    case .end:
      open -= 1
      count(-1, context)
    }
    context.write(data, promise: promise)
  }

  func channelInactive(context: ChannelHandlerContext) {
    stop()
    context.fireChannelInactive()
  }

  /// Hummingbird's handler closes the connection when every request that it has seen is answered, and at once
  /// if there is none.
  private func endWithAnswer(_ context: ChannelHandlerContext) {
    context.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
  }

  private func count(_ change: Int, _ context: ChannelHandlerContext) {
    waiting += change
    connection?.isAnswering = waiting > 0
    if waiting > 0 { stop() } else { start(context) }
  }

  private func start(_ context: ChannelHandlerContext) {
    deadline = context.eventLoop.now + timeout
    if let timer, let deadline, timer.fires <= deadline { return }
    set(context)
  }

  private func stop() { deadline = nil }

  /// One timer goes on from request to request, and looks again where the deadline has moved: setting and cancelling
  /// one for each costs more than all the rest of this handler.
  private func set(_ context: ChannelHandlerContext) {
    timer?.task.cancel()
    timer = nil
    guard let deadline else { return }
    let task = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { self.fire(context) }
    timer = (task, deadline)
  }

  private func fire(_ context: ChannelHandlerContext) {
    timer = nil
    guard let deadline else { return }
    guard deadline <= context.eventLoop.now else { return set(context) }
    if !isEnding { connections?.note(.timeout) }
    context.channel.close(promise: nil)
  }
}
