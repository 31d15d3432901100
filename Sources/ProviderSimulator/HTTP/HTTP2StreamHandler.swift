import NIOCore
import NIOHPACK
import NIOHTTP2

/// One HTTP/2 stream: gathers a request, does what the service says.
final class HTTP2StreamHandler: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame.FramePayload
  typealias OutboundOut = HTTP2Frame.FramePayload

  private let service: any Responder
  private let connection: Connection
  private var request: Request?
  private var isOpen = false

  init(service: any Responder, connection: Connection) {
    self.service = service
    self.connection = connection
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .headers(let frame):
      if request == nil { begin(frame.headers, context: context) }
      if frame.endStream { end(context: context) }
    case .data(let frame):
      if case .byteBuffer(var bytes) = frame.data { append(&bytes) }
      if frame.endStream { end(context: context) }
    default: break
    }
  }

  private func begin(_ headers: HPACKHeaders, context: ChannelHandlerContext) {
    let stream = (try? context.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID)).map {
      Int($0)
    }
    guard connection.opened(stream: stream ?? 0) else { return }
    isOpen = true
    var method = ""
    var path = ""
    var authority: String?
    var fields = HPACKHeaders()
    fields.reserveCapacity(headers.count)
    for (name, value, _) in headers {
      switch name {
      case ":method": method = value
      case ":path": path = value
      case ":authority": authority = value
      case _ where name.hasPrefix(":"): break
      default: fields.add(name: name, value: value)
      }
    }
    request = Request(
      method: method, path: path, authority: authority ?? fields.first(name: "host") ?? "", headers: fields)
  }

  private func append(_ bytes: inout ByteBuffer) {
    guard let length = request?.body.readableBytes, length <= Connection.bodyLimit else { return }
    if length == 0 { request?.body = bytes } else { request?.body.writeBuffer(&bytes) }
  }

  private func end(context: ChannelHandlerContext) {
    guard let request else { return }
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
    case .reset(let code):
      context.writeAndFlush(wrapOutboundOut(.rstStream(code)), promise: nil)
    case .dropConnection:
      SocketEnd.close(connection.channel)
    case .ignore:
      break
    case .freezeConnection:
      connection.freeze()
    }
  }

  private func answer(_ reply: Reply, context: ChannelHandlerContext) {
    guard isOpen else { return }
    var headers = HPACKHeaders()
    headers.reserveCapacity(reply.headers.count + 1)
    headers.add(name: ":status", value: String(reply.status))
    for (name, value) in reply.headers { headers.add(name: name, value: value) }
    if reply.isEndless {
      context.write(wrapOutboundOut(.headers(.init(headers: headers))), promise: nil)
      context.write(wrapOutboundOut(.data(.init(data: .byteBuffer(reply.body)))), promise: nil)
      return pour(context: context)
    }
    let hasBody = reply.body.readableBytes > 0
    context.write(wrapOutboundOut(.headers(.init(headers: headers, endStream: !hasBody))), promise: nil)
    if hasBody {
      context.write(
        wrapOutboundOut(.data(.init(data: .byteBuffer(reply.body), endStream: true))), promise: nil)
    }
    context.flush()
  }

  /// Writes on as the client reads, until it resets the stream or closes.
  private func pour(context: ChannelHandlerContext) {
    guard isOpen else { return }
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(.data(.init(data: .byteBuffer(Reply.filler))))).whenSuccess {
      bound.value.1.eventLoop.execute { bound.value.0.pour(context: bound.value.1) }
    }
  }

  func channelInactive(context: ChannelHandlerContext) {
    close()
    context.fireChannelInactive()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    close()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }

  private func close() {
    guard isOpen else { return }
    isOpen = false
    connection.closedStream()
  }
}
