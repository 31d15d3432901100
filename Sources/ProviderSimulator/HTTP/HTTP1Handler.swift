import NIOCore
import NIOHPACK
import NIOHTTP1

/// One HTTP/1.1 connection: gathers a request at a time, does what the service says.
final class HTTP1Handler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let service: any Responder
  private let connection: Connection
  private var request: Request?
  private var keepAlive = true

  init(service: any Responder, connection: Connection) {
    self.service = service
    self.connection = connection
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      keepAlive = head.isKeepAlive
      request = Request(
        method: head.method.rawValue, path: head.uri, authority: head.headers.first(name: "host") ?? "",
        headers: HPACKHeaders(httpHeaders: head.headers, normalizeHTTPHeaders: true))
    case .body(var bytes):
      guard let length = request?.body.readableBytes, length <= Connection.bodyLimit else { return }
      request?.body.writeBuffer(&bytes)
    case .end:
      end(context: context)
    }
  }

  private func end(context: ChannelHandlerContext) {
    guard let request else { return }
    self.request = nil
    connection.requests += 1
    guard request.body.readableBytes <= Connection.bodyLimit else {
      return answer(Reply(status: 413), context: context)
    }
    switch service.respond(to: request, on: connection) {
    case .answer(let reply, let delay) where delay == .zero:
      answer(reply, context: context)
    case .answer(let reply, let delay):
      let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
      context.eventLoop.scheduleTask(in: delay) { bound.value.0.answer(reply, context: bound.value.1) }
    case .later(let work):
      let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
      context.eventLoop.makeFutureWithTask(work).whenSuccess {
        bound.value.0.answer($0, context: bound.value.1)
      }
    case .reset, .dropConnection:
      // HTTP/1.1 cannot end one request alone.
      SocketEnd.close(connection.channel)
    case .ignore:
      break
    case .freezeConnection:
      connection.freeze()
    }
  }

  private func answer(_ reply: Reply, context: ChannelHandlerContext) {
    var headers = HTTPHeaders()
    for (name, value) in reply.headers { headers.add(name: name, value: value) }
    if !reply.isEndless { headers.add(name: "content-length", value: String(reply.body.readableBytes)) }
    let closing = !keepAlive || reply.headers.contains { $0.name == "connection" }
    if !keepAlive { headers.replaceOrAdd(name: "connection", value: "close") }
    let head = HTTPResponseHead(
      version: .http1_1, status: HTTPResponseStatus(statusCode: reply.status), headers: headers)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(.byteBuffer(reply.body))), promise: nil)
    if reply.isEndless { return pour(context: context) }
    let done = context.writeAndFlush(wrapOutboundOut(.end(nil)))
    if closing {
      let channel = connection.channel
      done.whenComplete { _ in channel.close(promise: nil) }
    }
  }

  /// Writes on as the client reads, until it closes.
  private func pour(context: ChannelHandlerContext) {
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(Reply.filler)))).whenSuccess {
      bound.value.1.eventLoop.execute { bound.value.0.pour(context: bound.value.1) }
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}
