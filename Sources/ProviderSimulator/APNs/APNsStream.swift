import NIOCore
import NIOHPACK
import NIOHTTP2

/// One notification on its HTTP/2 stream.
final class APNsStream: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame.FramePayload
  typealias OutboundOut = HTTP2Frame.FramePayload

  /// More than this is too large whatever the push type.
  private static let longestBody = 6000

  private let service: APNsService
  private let connection: HTTP2Connection
  private let session: APNsService.Session
  private var headers: HPACKHeaders?
  private var body = ByteBuffer()

  init(service: APNsService, connection: HTTP2Connection, session: APNsService.Session) {
    self.service = service
    self.connection = connection
    self.session = session
  }

  func handlerAdded(context: ChannelHandlerContext) {
    connection.streamOpened()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    connection.streamClosed()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .headers(let frame):
      if headers == nil { headers = frame.headers }
      if frame.endStream { finish(context) }
    case .data(let frame):
      if case .byteBuffer(var bytes) = frame.data, body.readableBytes <= Self.longestBody {
        body.writeBuffer(&bytes)
      }
      if frame.endStream { finish(context) }
    default: break
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }

  private func finish(_ context: ChannelHandlerContext) {
    guard let headers else { return }
    let fate = service.plan.next()
    if fate.drops { return connection.channel.close(promise: nil) }
    if fate.resets { return context.writeAndFlush(wrapOutboundOut(.rstStream(.internalError)), promise: nil) }
    if fate.isNeverAnswered { return }
    let wasAuthenticated = session.isAuthenticated
    let answer = service.answer(headers, body: body, fate: fate, session: session)
    if !wasAuthenticated, session.isAuthenticated { connection.allow(streams: 1000) }
    guard answer.delayMilliseconds > 0 else { return send(answer, fate, context) }
    let me = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.eventLoop.scheduleTask(in: .milliseconds(Int64(answer.delayMilliseconds))) {
      let (stream, context) = me.value
      if context.channel.isActive { stream.send(answer, fate, context) }
    }
  }

  private func send(_ answer: Answer, _ fate: FaultPlan.Fate, _ context: ChannelHandlerContext) {
    var headers: HPACKHeaders = [":status": String(answer.status)]
    for (name, value) in answer.headers { headers.add(name: name, value: value) }
    if fate.goesAway, let id = try? context.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID) {
      connection.goAway(after: id)
    }
    if let body = answer.body {
      context.write(wrapOutboundOut(.headers(.init(headers: headers))), promise: nil)
      context.writeAndFlush(wrapOutboundOut(.data(.init(data: .byteBuffer(body), endStream: true))), promise: nil)
    } else {
      context.writeAndFlush(wrapOutboundOut(.headers(.init(headers: headers, endStream: true))), promise: nil)
    }
  }
}
