import Foundation
import NIOCore
import NIOFoundationCompat
import NIOHTTP1

/// Serves FCM, its OAuth endpoint and the control interface, over either version of HTTP.
final class FCMPortHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private static let longestBody = 65_536

  private let fcm: FCMService
  private let control: ControlService
  /// The connection that the stream or the requests are on.
  private let connection: any Channel
  private var head: HTTPRequestHead?
  private var body = ByteBuffer()

  init(fcm: FCMService, control: ControlService, connection: any Channel) {
    self.connection = connection
    self.fcm = fcm
    self.control = control
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      self.head = head
      body.clear()
    case .body(var bytes):
      if body.readableBytes <= Self.longestBody { body.writeBuffer(&bytes) }
    case .end: finish(context)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }

  private func finish(_ context: ChannelHandlerContext) {
    guard let head else { return }
    let request = FCMPortRequest(head: head, body: Data(buffer: body))
    guard body.readableBytes <= Self.longestBody else {
      return send(.google(413, "INVALID_ARGUMENT", "Request is too large."), false, context)
    }
    if request.path == "/_control" || request.path.hasPrefix("/_control/") {
      let me = NIOLoopBound((self, context), eventLoop: context.eventLoop)
      let control = control
      context.eventLoop.makeFutureWithTask { await control.answer(request) }.whenSuccess { answer in
        let (handler, context) = me.value
        handler.later(answer, false, context)
      }
      return
    }
    if request.path == "/token" {
      if fcm.plan.faults.outage { return connection.close(promise: nil) }
      let port = connection.localAddress?.port ?? 0
      return later(fcm.oauth(request, port: port), false, context)
    }
    let fate = fcm.plan.next()
    if fate.drops { return connection.close(promise: nil) }
    if fate.resets { return context.close(promise: nil) }
    if fate.isNeverAnswered { return }
    later(fcm.send(request, fate: fate), fate.goesAway, context)
  }

  private func later(_ answer: Answer, _ isLast: Bool, _ context: ChannelHandlerContext) {
    guard context.channel.isActive else { return }
    guard answer.delayMilliseconds > 0 else { return send(answer, isLast, context) }
    let me = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.eventLoop.scheduleTask(in: .milliseconds(Int64(answer.delayMilliseconds))) {
      let (handler, context) = me.value
      if context.channel.isActive { handler.send(answer, isLast, context) }
    }
  }

  private func send(_ answer: Answer, _ isLast: Bool, _ context: ChannelHandlerContext) {
    var headers = HTTPHeaders(answer.headers.map { ($0.name, $0.value) })
    headers.add(name: "content-length", value: String(answer.body?.readableBytes ?? 0))
    let version = head?.version ?? .http1_1
    if isLast, version.major == 1 { headers.add(name: "connection", value: "close") }
    let status = HTTPResponseStatus(statusCode: answer.status)
    context.write(wrapOutboundOut(.head(.init(version: version, status: status, headers: headers))), promise: nil)
    if let body = answer.body { context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil) }
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }
}
