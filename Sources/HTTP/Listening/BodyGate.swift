import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Reads no more of a connection than is of use.
///
/// The body of a request, unless it is short, is not read before the handler asks for it, so that nobody can fill this
/// program's memory with bodies that it does not want. A client that sends `Expect: 100-continue` first, as curl and
/// PHP do with a large body, is told to continue when the handler asks for the body (RFC 9110 10.1.1), or gets the final
/// answer without having sent it.
///
/// Nothing is read while a few requests are unanswered already, and nothing ever after a request that ends HTTP on the
/// connection (CONNECT, an upgrade), after too many requests in one go, and after what is no request: the connection
/// closes with the answer.
final class BodyGate: ChannelInboundHandler, ChannelOutboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// So many requests may be unanswered before reading stops. What is read at a time may have more of them.
  private static let enough = 8
  /// More in one go are left to another connection (RFC 9112 9.3.2).
  static let most = 64

  /// Requests that have begun, less answers that have ended.
  private var open = 0
  /// Whether the body of the latest request is not yet asked for.
  private var isClosed = false
  /// Whether the sender of that body waits for `100 Continue`.
  private var isExpected = false
  /// Whether a read was asked for that is held back meanwhile.
  private var isReadHeld = false
  /// Whether the latest request is the last that is looked at.
  private var isLast = false
  /// Whether that has come, or what is no request.
  private var isOver = false
  /// Whether the connection ends with the present answer, because what follows on it cannot be told apart.
  private var endsWithAnswer = false
  /// nil where there are no bytes, in tests.
  private var door: Door?

  func handlerAdded(context: ChannelHandlerContext) {
    door = try? context.pipeline.syncOperations.handler(type: Door.self)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isOver else { return }
    door?.hear()
    switch unwrapInboundIn(data) {
    case .head(let request):
      open += 1
      let framing = BodyFraming(request)
      isClosed = framing.isToBeAskedFor
      isExpected = isClosed && framing.expectation?.dropping(prefix: "100-continue")?.isEmpty == true
      isLast = request.method == .connect || request.headerFields[.upgrade] != nil || open == Self.most
    case .body: isExpected = false
    case .end:
      if isLast { end() }
      pass(context)
    }
    context.fireChannelRead(data)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    end()
    context.fireErrorCaught(error)
  }

  private func end() {
    isOver = true
    door?.deafen()
  }

  func read(context: ChannelHandlerContext) {
    if mayRead { context.read() } else { isReadHeld = true }
  }

  private var mayRead: Bool { !isClosed && !isOver && open < Self.enough }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    if mode != .input { door?.leave() }
    context.close(mode: mode, promise: promise)
  }

  func triggerUserOutboundEvent(
    context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
  ) {
    guard event is BodyWanted else { return context.triggerUserOutboundEvent(event, promise: promise) }
    // In the middle of the answer to an earlier request there is no place for another; nobody waits there.
    if isExpected, open == 1 {
      context.writeAndFlush(wrapOutboundOut(.head(HTTPResponse(status: .continue))), promise: nil)
    }
    pass(context)
    promise?.succeed()
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .head(var response)
    where open == 1 && (isExpected || isLast) && response.status.kind != .informational:
      // Whether the body that is expected comes all the same is up to its sender.
      endsWithAnswer = true
      response.headerFields[.connection] = "close"
      context.write(wrapOutboundOut(.head(response)), promise: promise)
    case .head, .body: context.write(data, promise: promise)
    case .end:
      open -= 1
      guard endsWithAnswer else {
        // The rest of the body is read and thrown away.
        if open == 0 { pass(context) } else { go(context) }
        return context.write(data, promise: promise)
      }
      let promise = promise ?? context.eventLoop.makePromise()
      let channel = context.channel
      promise.futureResult.whenComplete { _ in channel.close(mode: .output, promise: nil) }
      context.write(data, promise: promise)
    }
  }

  private func pass(_ context: ChannelHandlerContext) {
    (isClosed, isExpected) = (false, false)
    go(context)
  }

  private func go(_ context: ChannelHandlerContext) {
    guard isReadHeld, mayRead else { return }
    isReadHeld = false
    context.read()
  }
}
