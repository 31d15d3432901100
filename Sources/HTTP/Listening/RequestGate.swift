import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Decides what is read of a connection, and how long it may take.
///
/// - Each request has to arrive whole in time, counted from the opening of the connection or the end of the last answer.
///   The clock stands still only while a whole request waits for its answer.
/// - A body that is not short is read when the handler asks for it. Whoever sent `Expect: 100-continue` is told to go on
///   then (RFC 9110 10.1.1), or gets the final answer without having sent the body.
/// - Nothing is read while a few requests are unanswered.
/// - The connection ends with the answer to a request that ends HTTP on it (CONNECT, an upgrade) and to the last of too
///   many requests in one go, and after what is no request. Nothing is read after those.
/// - When the listener ends (`ChannelShouldQuiesceEvent`), the connection ends with its next answer, which says so. A
///   request that has begun is waited for as long as it goes on. A connection without one has a moment, since chat
///   servers open a connection for one request and send that once; one that was answered before has as long as another
///   request may be on its way.
final class RequestGate: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// Reading stops at so many unanswered requests. One read may bring more of them.
  private static let enough = 8
  /// What follows so many requests in one go is left to another connection (RFC 9112 9.3.2).
  static let most = 64
  /// How long a connection may be silent once the listener ends.
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
  private var isListenerEnding = false

  /// Whether the body of the latest request waits to be asked for.
  private var isBodyHeld = false
  /// Whether the sender of that body waits for `100 Continue`.
  private var isContinueExpected = false
  /// Whether a read was asked for that is held back.
  private var isReadHeld = false
  /// Whether nothing counts that follows the latest request.
  private var isLast = false
  /// Whether nothing is read any more.
  private var isOver = false
  /// Whether the connection closes with the present answer.
  private var endsWithAnswer = false

  /// nil in tests where there are no bytes.
  private var door: Door?

  init(timeout: TimeAmount) {
    self.timeout = timeout
  }

  func handlerAdded(context: ChannelHandlerContext) {
    door = try? context.pipeline.syncOperations.handler(type: Door.self)
    startClock(context)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    deadline = nil
    timer?.task.cancel()
  }

  func channelInactive(context: ChannelHandlerContext) {
    deadline = nil
    context.fireChannelInactive()
  }

  // MARK: Requests

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isOver else { return }
    door?.requestGoesOn()
    switch unwrapInboundIn(data) {
    case .head(let request):
      open += 1
      wasUsed = true
      let framing = BodyFraming(request)
      isBodyHeld = framing.isToBeAskedFor
      isContinueExpected =
        isBodyHeld && framing.expectation?.dropping(prefix: "100-continue")?.isEmpty == true
      isLast =
        isListenerEnding || request.method == .connect || request.headerFields[.upgrade] != nil
        || open == Self.most
      if isListenerEnding { timeout = Self.endTimeout }
    case .body: isContinueExpected = false
    case .end:
      countWaiting(1, context)
      if isLast { end() }
      releaseBody(context)
    }
    if isListenerEnding, waiting <= 0 { startClock(context) }
    context.fireChannelRead(data)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    end()
    context.fireErrorCaught(error)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard event is ChannelShouldQuiesceEvent else { return context.fireUserInboundEventTriggered(event) }
    isListenerEnding = true
    timeout = wasUsed && open == 0 ? Self.nextRequestTimeout : Self.endTimeout
    if waiting <= 0 { startClock(context) }
    guard open > 0 else { return }
    isLast = true
    if waiting == open { end() }
  }

  private func end() {
    isOver = true
    door?.stopReading()
  }

  func read(context: ChannelHandlerContext) {
    if mayRead { context.read() } else { isReadHeld = true }
  }

  private var mayRead: Bool { !isBodyHeld && !isOver && open < Self.enough }

  private func releaseBody(_ context: ChannelHandlerContext) {
    (isBodyHeld, isContinueExpected) = (false, false)
    readIfHeld(context)
  }

  private func readIfHeld(_ context: ChannelHandlerContext) {
    guard isReadHeld, mayRead else { return }
    isReadHeld = false
    context.read()
  }

  // MARK: Answers

  func triggerUserOutboundEvent(
    context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
  ) {
    guard event is BodyWanted else { return context.triggerUserOutboundEvent(event, promise: promise) }
    // In the middle of the answer to an earlier request there is no place for another, and nobody waits for one.
    if isContinueExpected, open == 1 {
      context.writeAndFlush(wrapOutboundOut(.head(HTTPResponse(status: .continue))), promise: nil)
    }
    releaseBody(context)
    promise?.succeed()
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .head(var response)
    where open == 1 && (isContinueExpected || isLast) && response.status.kind != .informational:
      // A body that was expected may still come, and cannot be told from another request.
      endsWithAnswer = true
      response.headerFields[.connection] = "close"
      context.write(wrapOutboundOut(.head(response)), promise: promise)
    case .head, .body: context.write(data, promise: promise)
    case .end:
      open -= 1
      countWaiting(-1, context)
      guard endsWithAnswer || isLast && open == 0 else {
        // The rest of a body that nobody asked for is read and thrown away.
        if open == 0 { releaseBody(context) } else { readIfHeld(context) }
        return context.write(data, promise: promise)
      }
      let promise = promise ?? context.eventLoop.makePromise()
      let channel = context.channel
      promise.futureResult.whenComplete { _ in channel.close(mode: .output, promise: nil) }
      context.write(data, promise: promise)
    }
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    if mode != .input { door?.closeWhenSent() }
    context.close(mode: mode, promise: promise)
  }

  // MARK: The clock

  private func countWaiting(_ change: Int, _ context: ChannelHandlerContext) {
    waiting += change
    door?.connection?.isAnswering = waiting > 0
    if waiting > 0 { deadline = nil } else { startClock(context) }
  }

  private func startClock(_ context: ChannelHandlerContext) {
    deadline = context.eventLoop.now + timeout
    if let timer, let deadline, timer.fires <= deadline { return }
    setTimer(context)
  }

  /// One timer goes on from request to request, and looks again where the deadline has moved: setting and cancelling
  /// one for each costs more than all the rest of this handler.
  private func setTimer(_ context: ChannelHandlerContext) {
    timer?.task.cancel()
    timer = nil
    guard let deadline else { return }
    let task = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) {
      self.timer = nil
      guard let deadline = self.deadline else { return }
      guard deadline <= context.eventLoop.now else { return self.setTimer(context) }
      if !self.isListenerEnding { self.door?.note(.timeout) }
      context.channel.close(promise: nil)
    }
    timer = (task, deadline)
  }
}
