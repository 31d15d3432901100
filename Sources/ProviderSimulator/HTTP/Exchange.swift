import HTTP
import NIOCore
import NIOHPACK
import NIOHTTP1
import NIOHTTP2

/// A request as a service sees it, whichever HTTP brought it.
struct Request: Sendable {
  var method: String
  /// Path and query.
  var path: String
  /// The host and port that the request is for: `:authority`, or HTTP/1.1's `Host`.
  var authority: String
  /// Names in lower case, without pseudo-headers.
  var headers: HPACKHeaders
  var body = ByteBuffer()

  /// The largest body that is read; more is 413.
  static let bodyLimit = 1 << 20

  /// The path without the query.
  var pathOnly: Substring { path.prefix { $0 != "?" } }

  /// The parameters of the query; of a repeated one the last.
  var query: [String: String] { Self.fields(path.drop { $0 != "?" }.dropFirst().utf8) }

  /// The fields of a form; of a repeated one the last.
  var form: [String: String] { Self.fields(body.readableBytesView) }

  private static func fields(_ bytes: some Collection<UInt8>) -> [String: String] {
    Dictionary((Form.parse(bytes) ?? []).map { ($0.name.text, $0.value) }) { $1 }
  }

  fileprivate mutating func append(_ bytes: inout ByteBuffer) {
    let length = body.readableBytes
    guard length <= Self.bodyLimit else { return }
    if length == 0 { body = bytes } else { body.writeBuffer(&bytes) }
  }
}

/// An answer.
struct Reply: Sendable {
  var status: Int
  var headers: [(name: String, value: String)] = []
  var body = ByteBuffer()
  /// Filler follows the body, for as long as the client reads.
  var isEndless = false

  static func json(_ status: Int, _ body: JSON) -> Reply { json(status, ByteBuffer(bytes: body.bytes)) }

  static func json(_ status: Int, _ body: ByteBuffer) -> Reply {
    Reply(status: status, headers: [("content-type", "application/json; charset=UTF-8")], body: body)
  }

  /// The page of a proxy or an edge server in between.
  static func html(_ status: Int) -> Reply {
    Reply(
      status: status, headers: [("content-type", "text/html; charset=UTF-8")],
      body: ByteBuffer(string: "<!DOCTYPE html><html><head><title>Error \(status)</title></head></html>\n"))
  }
}

/// What a listener does with a request.
enum Action: Sendable {
  case answer(Reply, after: TimeAmount = .zero)
  /// An answer that has to be waited for.
  case later(@Sendable () async -> Reply)
  case reset(HTTP2ErrorCode)
  case dropConnection
  case ignore
  case freezeConnection
}

/// What one listener serves.
protocol Responder: Sendable {
  /// Called on the connection's event loop, once the request is there whole.
  func respond(to request: Request, on connection: Connection) -> Action
  /// Called for each new connection that speaks HTTP/2.
  func opened(_ connection: Connection)
}

extension Responder {
  func opened(_ connection: Connection) {}
}

/// Carries out what a service says, on one HTTP/2 stream or one HTTP/1.1 connection.
private protocol Exchange: ChannelInboundHandler {
  var service: any Responder { get }
  var connection: Connection { get }
  /// Writes an answer; the filler of an endless one follows.
  func write(_ reply: Reply, context: ChannelHandlerContext)
  /// One piece of an endless answer.
  func filler(_ bytes: ByteBuffer) -> OutboundOut
  func reset(_ code: HTTP2ErrorCode, context: ChannelHandlerContext)
}

extension Exchange {
  func serve(_ request: Request, context: ChannelHandlerContext) {
    connection.requests += 1
    guard request.body.readableBytes <= Request.bodyLimit else {
      return answer(Reply(status: 413), context: context)
    }
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    switch service.respond(to: request, on: connection) {
    case .answer(let reply, .zero):
      answer(reply, context: context)
    case .answer(let reply, let delay):
      context.eventLoop.scheduleTask(in: delay) { bound.value.0.answer(reply, context: bound.value.1) }
    case .later(let work):
      context.eventLoop.makeFutureWithTask(work).whenSuccess {
        bound.value.0.answer($0, context: bound.value.1)
      }
    case .reset(let code): reset(code, context: context)
    case .dropConnection: Listener.breakOff(connection.channel)
    case .ignore: break
    case .freezeConnection: connection.freeze()
    }
  }

  private func answer(_ reply: Reply, context: ChannelHandlerContext) {
    write(reply, context: context)
    if reply.isEndless { pour(ByteBuffer(repeating: UInt8(ascii: " "), count: 16384), context: context) }
  }

  /// Writes on as the client reads, until it resets the stream or closes.
  private func pour(_ bytes: ByteBuffer, context: ChannelHandlerContext) {
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(filler(bytes))).whenSuccess {
      bound.value.1.eventLoop.execute { bound.value.0.pour(bytes, context: bound.value.1) }
    }
  }
}

/// One HTTP/2 stream. Written on the frames themselves: as a provider in benchmarks, the simulator must cost little
/// beside the service.
final class HTTP2Exchange: ChannelInboundHandler, Exchange {
  typealias InboundIn = HTTP2Frame.FramePayload
  typealias OutboundOut = HTTP2Frame.FramePayload

  let service: any Responder
  let connection: Connection
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
      if case .byteBuffer(var bytes) = frame.data { request?.append(&bytes) }
      if frame.endStream { end(context: context) }
    default: break
    }
  }

  private func begin(_ headers: HPACKHeaders, context: ChannelHandlerContext) {
    let stream = try? context.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID)
    guard connection.opened(stream: stream.map { Int($0) } ?? 0) else { return }
    isOpen = true
    var request = Request(method: "", path: "", authority: "", headers: HPACKHeaders())
    request.headers.reserveCapacity(headers.count)
    for (name, value, _) in headers {
      switch name {
      case ":method": request.method = value
      case ":path": request.path = value
      case ":authority": request.authority = value
      case _ where name.hasPrefix(":"): break
      default: request.headers.add(name: name, value: value)
      }
    }
    if request.authority.isEmpty { request.authority = request.headers.first(name: "host") ?? "" }
    self.request = request
  }

  private func end(context: ChannelHandlerContext) {
    if let request { serve(request, context: context) }
  }

  fileprivate func write(_ reply: Reply, context: ChannelHandlerContext) {
    guard isOpen else { return }
    var headers = HPACKHeaders()
    headers.reserveCapacity(reply.headers.count + 1)
    headers.add(name: ":status", value: String(reply.status))
    for (name, value) in reply.headers { headers.add(name: name, value: value) }
    let ends = !reply.isEndless
    let hasBody = reply.body.readableBytes > 0
    context.write(
      wrapOutboundOut(.headers(.init(headers: headers, endStream: ends && !hasBody))), promise: nil)
    if hasBody {
      context.write(
        wrapOutboundOut(.data(.init(data: .byteBuffer(reply.body), endStream: ends))), promise: nil)
    }
    context.flush()
  }

  fileprivate func filler(_ bytes: ByteBuffer) -> OutboundOut { .data(.init(data: .byteBuffer(bytes))) }

  fileprivate func reset(_ code: HTTP2ErrorCode, context: ChannelHandlerContext) {
    context.writeAndFlush(wrapOutboundOut(.rstStream(code)), promise: nil)
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

/// One HTTP/1.1 connection, a request at a time.
final class HTTP1Exchange: ChannelInboundHandler, Exchange {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  let service: any Responder
  let connection: Connection
  private var request: Request?
  private var keepsAlive = true

  init(service: any Responder, connection: Connection) {
    self.service = service
    self.connection = connection
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      keepsAlive = head.isKeepAlive
      request = Request(
        method: head.method.rawValue, path: head.uri, authority: head.headers.first(name: "host") ?? "",
        headers: HPACKHeaders(httpHeaders: head.headers, normalizeHTTPHeaders: true))
    case .body(var bytes): request?.append(&bytes)
    case .end:
      guard let request else { return }
      self.request = nil
      serve(request, context: context)
    }
  }

  fileprivate func write(_ reply: Reply, context: ChannelHandlerContext) {
    var headers = HTTPHeaders(reply.headers.map { ($0.name, $0.value) })
    if !reply.isEndless { headers.add(name: "content-length", value: String(reply.body.readableBytes)) }
    let closes = !keepsAlive || headers.contains(name: "connection")
    if !keepsAlive { headers.replaceOrAdd(name: "connection", value: "close") }
    let head = HTTPResponseHead(
      version: .http1_1, status: HTTPResponseStatus(statusCode: reply.status), headers: headers)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(.byteBuffer(reply.body))), promise: nil)
    guard !reply.isEndless else { return }
    let done = context.writeAndFlush(wrapOutboundOut(.end(nil)))
    if closes {
      let channel = connection.channel
      done.whenComplete { _ in channel.close(promise: nil) }
    }
  }

  fileprivate func filler(_ bytes: ByteBuffer) -> OutboundOut { .body(.byteBuffer(bytes)) }

  /// HTTP/1.1 cannot end one request alone.
  fileprivate func reset(_ code: HTTP2ErrorCode, context: ChannelHandlerContext) {
    Listener.breakOff(connection.channel)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}
