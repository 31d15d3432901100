import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Decides when a connection is read, and enforces the time limit of requests.
///
/// - Each request has to arrive completely in time, counted from the opening of the connection or the end of
///   the last answer. The time stops only while a complete request waits for its answer.
/// - A long body is read only once the handler asks for it, and then a part each time that it asks. With
///   `Expect: 100-continue` the client is then told to continue (RFC 9110 10.1.1), or gets the final answer without
///   having sent the body.
/// - While a request is being answered nothing more is read, nor while the peer leaves answers unread: what would follow waits
///   at its sender, not in this process.
/// - The connection closes with the answer to a request that ends HTTP on it (CONNECT, an upgrade), with the
///   last of too many pipelined requests, and after malformed input. Nothing is read after those.
/// - When the listener shuts down (`ChannelShouldQuiesceEvent`), the connection closes with its next answer,
///   which says so. A request that has begun is completed. A connection that had no request yet stays open
///   for a moment, because chat servers open one per request and do not retry; one that had is kept for as
///   long as a next request may take to arrive.
final class RequestGate: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// The number of pipelined requests after which the connection closes (RFC 9112 9.3.2). One read may yield several.
  static let maximumPipelined = 16
  /// Bytes of a body that is worth a large receive buffer.
  private static let largeBody = 64 << 10
  /// How long a connection may be silent during shutdown before its first request.
  private static let shutdownTimeout = TimeAmount.seconds(2)
  /// How long a connection may be silent during shutdown after an answer.
  private static let nextRequestTimeout = TimeAmount.milliseconds(100)

  private var timeout: TimeAmount
  /// When the request being received must be complete; nil while none is expected.
  private var deadline: NIODeadline?
  private var timer: (task: Scheduled<Void>, fires: NIODeadline)?

  /// Requests that have begun, minus answers that have ended.
  private var open = 0
  /// Requests that are complete, minus answers that have ended.
  private var waiting = 0
  private var wasUsed = false
  private var isShuttingDown = false

  /// Whether the latest request's body is read only as it is asked for.
  private(set) var isBodyLong = false
  /// Whether more of that body is there to be read, and has not been asked for yet.
  private var isBodyHeld = false
  /// Its declared length.
  private var bodyLength = 0
  /// The part of a body that this read has yielded so far.
  private var part: ByteBuffer?
  /// Whether the client waits for `100 Continue` before it sends that body.
  private var isContinueExpected = false
  /// Whether a read was requested and held back.
  private var isReadHeld = false
  /// Whether the latest request is the last one on the connection.
  private var isLast = false
  private var isReadingStopped = false
  /// Whether the connection closes with the present answer.
  private var endsWithAnswer = false

  /// Nil in tests without bytes.
  private var connectionGuard: ConnectionGuard?

  init(timeout: TimeAmount) {
    self.timeout = timeout
  }

  func handlerAdded(context: ChannelHandlerContext) {
    connectionGuard = try? context.pipeline.syncOperations.handler(type: ConnectionGuard.self)
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
    guard !isReadingStopped else { return }
    connectionGuard?.requestContinues()
    switch unwrapInboundIn(data) {
    case .head(let request):
      open += 1
      wasUsed = true
      let framing = BodyFraming(request)
      isBodyLong = framing.isLong
      isBodyHeld = framing.isLong
      bodyLength = framing.length ?? 0
      isContinueExpected =
        isBodyHeld && framing.expectation?.dropping(prefix: "100-continue")?.isEmpty == true
      isLast =
        isShuttingDown || request.method == .connect || request.headerFields.contains(.upgrade)
        || request.headerFields.value(.connection) == "close" || open == Self.maximumPipelined
      if isShuttingDown { timeout = Self.shutdownTimeout }
    case .body(let bytes):
      isContinueExpected = false
      isBodyHeld = isBodyLong
      // However small its chunks are: each would take more memory than its bytes.
      if part?.writeImmutableBuffer(bytes) == nil { part = bytes }
    case .end:
      forwardPart(context)
      countWaiting(1, context)
      if isLast { stopReading() }
      isBodyLong = false
      releaseBody(context)
    }
    if isShuttingDown, waiting <= 0 { startClock(context) }
    if part == nil { context.fireChannelRead(data) }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    forwardPart(context)
    context.fireChannelReadComplete()
  }

  private func forwardPart(_ context: ChannelHandlerContext) {
    guard let bytes = part else { return }
    part = nil
    context.fireChannelRead(wrapInboundOut(.body(bytes)))
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    forwardPart(context)
    stopReading()
    context.fireErrorCaught(error)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard event is ChannelShouldQuiesceEvent else { return context.fireUserInboundEventTriggered(event) }
    isShuttingDown = true
    timeout = wasUsed && open == 0 ? Self.nextRequestTimeout : Self.shutdownTimeout
    if waiting <= 0 { startClock(context) }
    guard open > 0 else { return }
    isLast = true
    if waiting == open { stopReading() }
  }

  private func stopReading() {
    isReadingStopped = true
    connectionGuard?.stopReading()
  }

  func read(context: ChannelHandlerContext) {
    if mayRead(context) { context.read() } else { isReadHeld = true }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    readIfHeld(context)
    context.fireChannelWritabilityChanged()
  }

  private func mayRead(_ context: ChannelHandlerContext) -> Bool {
    !isBodyHeld && !isReadingStopped && waiting <= 0 && context.channel.isWritable
  }

  private func releaseBody(_ context: ChannelHandlerContext) {
    isBodyHeld = false
    isContinueExpected = false
    readIfHeld(context)
  }

  private func readIfHeld(_ context: ChannelHandlerContext) {
    guard isReadHeld, mayRead(context) else { return }
    isReadHeld = false
    context.read()
  }

  // MARK: Answers

  func triggerUserOutboundEvent(
    context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
  ) {
    guard event is BodyWanted else { return context.triggerUserOutboundEvent(event, promise: promise) }
    // While an earlier request is being answered, an informational answer cannot be sent.
    if isContinueExpected, open == 1 {
      context.writeAndFlush(wrapOutboundOut(.head(HTTPResponse(status: .continue))), promise: nil)
    }
    if isBodyHeld, bodyLength > Self.largeBody, connectionGuard?.enlargeReceiveBuffer() == true {
      // What it holds beyond this body nobody counts.
      isLast = true
    }
    bodyLength = 0
    releaseBody(context)
    promise?.succeed()
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .head(var response)
    where open == 1 && (isContinueExpected || isLast) && response.status.kind != .informational:
      // The body may still come, and would be taken for another request.
      endsWithAnswer = true
      response.headerFields[.connection] = "close"
      context.write(wrapOutboundOut(.head(response)), promise: promise)
    case .head, .body: context.write(data, promise: promise)
    case .end:
      open -= 1
      countWaiting(-1, context)
      guard endsWithAnswer || isLast && open == 0 else {
        // Reads and discards the rest of a body that nobody asked for.
        if open == 0 {
          isBodyLong = false
          releaseBody(context)
        } else {
          readIfHeld(context)
        }
        return context.write(data, promise: promise)
      }
      let promise = promise ?? context.eventLoop.makePromise()
      let channel = context.channel
      promise.futureResult.whenComplete { _ in channel.close(mode: .output, promise: nil) }
      context.write(data, promise: promise)
    }
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    if mode != .input { connectionGuard?.closeWhenSent() }
    context.close(mode: mode, promise: promise)
  }

  // MARK: The clock

  private func countWaiting(_ change: Int, _ context: ChannelHandlerContext) {
    waiting += change
    connectionGuard?.connection?.isAnswering = waiting > 0
    if waiting > 0 { deadline = nil } else { startClock(context) }
  }

  private func startClock(_ context: ChannelHandlerContext) {
    deadline = context.eventLoop.now + timeout
    if let timer, let deadline, timer.fires <= deadline { return }
    setTimer(context)
  }

  /// One timer serves many requests, and is set again if the deadline has moved when it fires. Setting and
  /// cancelling one per request would cost more than the rest of this handler.
  private func setTimer(_ context: ChannelHandlerContext) {
    timer?.task.cancel()
    timer = nil
    guard let deadline else { return }
    let task = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) {
      self.timer = nil
      guard let deadline = self.deadline else { return }
      guard deadline <= context.eventLoop.now else { return self.setTimer(context) }
      if !self.isShuttingDown { self.connectionGuard?.countClosed(.timeout) }
      context.channel.close(promise: nil)
    }
    timer = (task, deadline)
  }
}
