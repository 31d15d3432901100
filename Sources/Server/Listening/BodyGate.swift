import HTTPTypes
import NIOCore
import NIOHTTPTypes
import Wire

/// Does not read the body of a request, unless it is short, before the handler asks for it, so that nobody can fill
/// this program's memory with bodies that it does not want.
///
/// A client that sends `Expect: 100-continue` first, as curl and PHP do with a large body, is told to continue when
/// the handler asks for the body (RFC 9110 10.1.1), or gets the final answer without having sent it.
final class BodyGate: ChannelInboundHandler, ChannelOutboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// Requests that have begun, less answers that have ended.
  private var open = 0
  /// Whether the body of the latest request is not yet asked for.
  private var isClosed = false
  /// Whether the sender of that body waits for `100 Continue`.
  private var isExpected = false
  /// Whether a read was asked for that is held back meanwhile.
  private var isReadHeld = false
  /// Whether the connection ends with the present answer, because what follows on it cannot be told apart.
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
        // The rest of the body is read and thrown away.
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
