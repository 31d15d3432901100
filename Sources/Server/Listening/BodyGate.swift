import HTTPTypes
import NIOCore
import NIOHTTPTypes
import Wire

/// Leaves the body of a request with its sender until it is wanted, but for a short one: nobody makes this program
/// hold what it has not asked for.
///
/// Who asks first with `Expect: 100-continue`, as curl and PHP do with a large body, is told to go on then (RFC
/// 9110 10.1.1), or gets the final answer before any of the body is on its way.
final class BodyGate: ChannelInboundHandler, ChannelOutboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// Requests that have begun, less answers that have ended.
  private var open = 0
  /// Whether the body of the latest request waits to be wanted.
  private var isClosed = false
  /// Whether the sender of that body waits for a word.
  private var isExpected = false
  /// Whether more would be read if it were not for that.
  private var isReadHeld = false
  /// Whether the connection ends with the present answer, as nobody can say what would come next on it.
  private var endsWithAnswer = false

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let request):
      open += 1
      let framing = BodyFraming(request)
      isClosed = framing.isToBeAskedFor
      isExpected = isClosed && framing.expectation?.dropping(prefix: "100-continue")?.isEmpty == true
    case .body: isExpected = false
    case .end: pass(context)
    }
    context.fireChannelRead(data)
  }

  func read(context: ChannelHandlerContext) {
    if isClosed { isReadHeld = true } else { context.read() }
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
    case .head(var response) where open == 1 && isExpected && response.status.kind != .informational:
      // Whether the body comes all the same is up to its sender.
      endsWithAnswer = true
      response.headerFields[.connection] = "close"
      context.write(wrapOutboundOut(.head(response)), promise: promise)
    case .head, .body: context.write(data, promise: promise)
    case .end:
      open -= 1
      guard endsWithAnswer else {
        // What is left of the body is read, and left aside.
        if open == 0 { pass(context) }
        return context.write(data, promise: promise)
      }
      let promise = promise ?? context.eventLoop.makePromise()
      let channel = context.channel
      promise.futureResult.whenComplete { _ in channel.close(promise: nil) }
      context.write(data, promise: promise)
    }
  }

  private func pass(_ context: ChannelHandlerContext) {
    (isClosed, isExpected) = (false, false)
    guard isReadHeld else { return }
    isReadHeld = false
    context.read()
  }
}
