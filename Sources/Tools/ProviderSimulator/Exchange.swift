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

/// Carries out a service's actions on an HTTP/2 stream, or on an HTTP/1.1 connection one request at a time.
/// It handles frames directly, because in benchmarks the simulator must cost little compared with the
/// service.
final class Exchange: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame.FramePayload
  typealias OutboundOut = HTTP2Frame.FramePayload

  private let service: any Responder
  private let connection: Connection
  private var request: Request?
  /// Whether only the head of the answer is wanted: to HEAD services answer as to GET.
  private var isHead = false
  /// Whether the connection counts the stream as open.
  private var isOpen = false

  init(service: any Responder, connection: Connection) {
    self.service = service
    self.connection = connection
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .headers(let frame):
      if request == nil { begin(frame.headers, context: context) }
      if frame.endStream { serve(context: context) }
    case .data(let frame):
      if case .byteBuffer(var bytes) = frame.data { request?.append(&bytes) }
      if frame.endStream { serve(context: context) }
    default: break
    }
  }

  private func begin(_ headers: HPACKHeaders, context: ChannelHandlerContext) {
    if connection.isHTTP2, !isOpen {
      let stream = try? context.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID)
      guard connection.opened(stream: stream.map { Int($0) } ?? 0) else { return }
      isOpen = true
    }
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

  private func serve(context: ChannelHandlerContext) {
    guard var request else { return }
    isHead = request.method == "HEAD"
    if isHead { request.method = "GET" }
    // The next one on this connection; an HTTP/2 stream has none.
    if !connection.isHTTP2 { self.request = nil }
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
    case .reset(let code) where connection.isHTTP2:
      context.writeAndFlush(wrapOutboundOut(.rstStream(code)), promise: nil)
    // HTTP/1.1 cannot end one request alone.
    case .reset, .dropConnection: Listener.breakOff(connection.channel)
    case .ignore: break
    case .freezeConnection: connection.freeze()
    }
  }

  private func answer(_ reply: Reply, context: ChannelHandlerContext) {
    guard isOpen || !connection.isHTTP2 else { return }
    var headers = HPACKHeaders()
    headers.reserveCapacity(reply.headers.count + 2)
    headers.add(name: ":status", value: String(reply.status))
    for (name, value) in reply.headers { headers.add(name: name, value: value) }
    if !connection.isHTTP2, !reply.isEndless {
      headers.add(name: "content-length", value: String(reply.body.readableBytes))
    } else if !connection.isHTTP2, isHead {
      // Without a length the encoder ends the content that is not there with an empty chunk.
      headers.add(name: "connection", value: "close")
    }
    let ends = isHead || !reply.isEndless
    let hasBody = !isHead && reply.body.readableBytes > 0
    context.write(
      wrapOutboundOut(.headers(.init(headers: headers, endStream: ends && !hasBody))), promise: nil)
    if hasBody {
      context.write(
        wrapOutboundOut(.data(.init(data: .byteBuffer(reply.body), endStream: ends))), promise: nil)
    }
    context.flush()
    if !ends { pour(ByteBuffer(repeating: UInt8(ascii: " "), count: 16384), context: context) }
  }

  /// Writes on as the client reads, until it resets the stream or closes.
  private func pour(_ bytes: ByteBuffer, context: ChannelHandlerContext) {
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(.data(.init(data: .byteBuffer(bytes))))).whenSuccess {
      bound.value.1.eventLoop.execute { bound.value.0.pour(bytes, context: bound.value.1) }
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

/// Shows the requests of an HTTP/1.1 connection as the frames of HTTP/2 streams, one after the other.
final class HTTP1Frames: ChannelDuplexHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = HTTP2Frame.FramePayload
  typealias OutboundIn = HTTP2Frame.FramePayload
  typealias OutboundOut = HTTPServerResponsePart

  private var keepsAlive = true

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      keepsAlive = head.isKeepAlive
      var headers = HPACKHeaders([(":method", head.method.rawValue), (":path", head.uri)])
      headers.add(contentsOf: HPACKHeaders(httpHeaders: head.headers, normalizeHTTPHeaders: true))
      context.fireChannelRead(wrapInboundOut(.headers(.init(headers: headers))))
    case .body(let bytes): context.fireChannelRead(wrapInboundOut(.data(.init(data: .byteBuffer(bytes)))))
    case .end:
      context.fireChannelRead(wrapInboundOut(.data(.init(data: .byteBuffer(ByteBuffer()), endStream: true))))
    }
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .headers(let frame):
      var headers = HTTPHeaders(frame.headers.filter { !$0.name.hasPrefix(":") }.map { ($0.name, $0.value) })
      if !keepsAlive { headers.replaceOrAdd(name: "connection", value: "close") }
      keepsAlive = !headers.contains(name: "connection")
      let status = frame.headers.first(name: ":status").flatMap { Int($0) } ?? 500
      let head = HTTPResponseHead(
        version: .http1_1, status: HTTPResponseStatus(statusCode: status), headers: headers)
      context.write(wrapOutboundOut(.head(head)), promise: frame.endStream ? nil : promise)
      if frame.endStream { writeEnd(context: context, promise) }
    case .data(let frame):
      guard case .byteBuffer(let bytes) = frame.data else { return }
      context.write(wrapOutboundOut(.body(.byteBuffer(bytes))), promise: frame.endStream ? nil : promise)
      if frame.endStream { writeEnd(context: context, promise) }
    default: promise?.succeed()
    }
  }

  private func writeEnd(context: ChannelHandlerContext, _ promise: EventLoopPromise<Void>?) {
    let promise = promise ?? context.eventLoop.makePromise()
    // A request that has waited for this end is read within the call.
    let isLast = !keepsAlive
    context.write(wrapOutboundOut(.end(nil)), promise: promise)
    if isLast {
      let channel = context.channel
      promise.futureResult.whenComplete { _ in channel.close(promise: nil) }
    }
  }
}
