import NIOCore
import NIOHPACK
import NIOHTTP1

/// A connection to a peer that speaks only HTTP/1.1, with one request at a time. The pool sees it as a
/// connection with one stream.
final class HTTP1ConnectionHandler: ChannelInboundHandler, ConnectionHandler {
  typealias InboundIn = HTTPClientResponsePart
  typealias OutboundOut = HTTPClientRequestPart

  private struct Exchange {
    let pending: PendingRequest
    let stream: HTTP2StreamID
    var head: HTTPResponseHead?
    var body = ByteBuffer()
  }

  /// Limits of an answer's headers and trailers.
  private static var headLimits: NIOHTTPDecoderLimitConfiguration {
    var limits = NIOHTTPDecoderLimitConfiguration()
    limits.maxHeaderFieldSize = 8192
    limits.maxHeaderListSize = HTTP2Input.longestHeaders
    limits.maxHeaderFieldCount = 100
    return limits
  }

  private let id: ConnectionID
  private let owner: any HTTP2ConnectionOwner
  private let allowance: HeadAllowance
  private var context: ChannelHandlerContext?
  private var connection: HTTP2Connection?
  private var exchange: Exchange?
  private var idleTimer: IdleTimer
  private var nextStream: HTTP2StreamID = 1
  private var hasEnded = false

  private init(
    _ id: ConnectionID, _ owner: any HTTP2ConnectionOwner, _ limits: HTTP2ConnectionHandler.Limits,
    _ allowance: HeadAllowance
  ) {
    self.id = id
    self.owner = owner
    self.allowance = allowance
    idleTimer = IdleTimer(limit: limits.idle)
  }

  static func handlers(
    _ id: ConnectionID, _ owner: any HTTP2ConnectionOwner, _ limits: HTTP2ConnectionHandler.Limits
  ) -> [any ChannelHandler] {
    let allowance = HeadAllowance()
    return [
      allowance, HTTPRequestEncoder(),
      ByteToMessageHandler(HTTPResponseDecoder(limitConfiguration: headLimits)),
      HTTP1ConnectionHandler(id, owner, limits, allowance),
    ]
  }

  // MARK: Requests

  func start(_ pendingRequests: [PendingRequest]) {
    for pending in pendingRequests { start(pending) }
  }

  private func start(_ pending: PendingRequest) {
    guard let context, let connection, exchange == nil, !hasEnded else {
      return owner.unprocessed(pending, on: id)
    }
    let stream = nextStream
    guard pending.begin(at: .init(connection: connection, id: stream)) else {
      return owner.finished(pending, on: id, .failure(.cancelled))
    }
    nextStream += 2
    exchange = Exchange(pending: pending, stream: stream)
    allowance.requestBegan()
    idleTimer.stop()
    let body = pending.request.body()
    let head = Self.head(of: pending.request, length: body.readableBytes)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }

  private static func head(of request: ProviderRequest, length: Int) -> HTTPRequestHead {
    var headers = HTTPHeaders()
    var path = "/"
    var method = HTTPMethod.POST
    for (name, value, _) in request.headers {
      switch name {
      case ":authority": headers.add(name: "host", value: value)
      case ":path": path = value
      case ":method": method = HTTPMethod(rawValue: value)
      case _ where name.hasPrefix(":"): break
      default: headers.add(name: name, value: value)
      }
    }
    headers.replaceOrAdd(name: "content-length", value: "\(length)")
    return HTTPRequestHead(version: .http1_1, method: method, uri: path, headers: headers)
  }

  func reset(_ stream: HTTP2StreamID, timedOut: Bool) {
    guard let taken = exchange, taken.stream == stream else { return }
    exchange = nil
    owner.finished(taken.pending, on: id, .failure(.timeout))
    // A late answer would be mistaken for the answer to the next request.
    close(.connectionLost)
  }

  /// HTTP/1.1 has no PING, so this reports the connection as alive at once.
  func ping() {
    if !hasEnded { owner.alive(id) }
  }

  func close(_ failure: TransportFailure) {
    guard !hasEnded else { return }
    hasEnded = true
    if let taken = exchange {
      exchange = nil
      if let head = taken.head {
        answer(taken, head, isCut: true)
      } else {
        owner.finished(taken.pending, on: id, .failure(failure))
      }
    }
    owner.closed(id, wasUp: true, failure: failure)
    context?.closeAtOnce()
  }

  private func answer(_ exchange: Exchange, _ head: HTTPResponseHead, isCut: Bool) {
    let response = ProviderResponse(
      status: Int(head.status.code), headers: HPACKHeaders(httpHeaders: head.headers), body: exchange.body,
      isCut: isCut, connection: id)
    owner.finished(exchange.pending, on: id, .success(response))
  }

  /// Completes the request with the answer that was read, whole or cut at the limit.
  private func finish(isReusable: Bool, isCut: Bool = false) {
    guard let taken = exchange, let head = taken.head else { return }
    exchange = nil
    if !isReusable {
      // Reported before the answer, so that the pool does not reuse the connection.
      hasEnded = true
      owner.draining(id)
    }
    answer(taken, head, isCut: isCut)
    guard isReusable else {
      owner.closed(id, wasUp: true, failure: .connectionLost)
      context?.closeAtOnce()
      return
    }
    startIdleTimer()
  }

  private func startIdleTimer() {
    guard let context else { return }
    idleTimer.start(on: context.eventLoop) { [weak self] in self?.close(.connectionLost) }
  }

  // MARK: Channel events

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    let connection = HTTP2Connection(id: id, eventLoop: context.eventLoop, handler: self)
    self.connection = connection
    startIdleTimer()
    owner.opened(connection, streams: 1)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    close(.connectionLost)
    self.context = nil
    connection = nil
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !hasEnded else { return }
    switch unwrapInboundIn(data) {
    case .head(let head):
      // Either no request was sent, or the peer switches protocols (101), after which the decoder would
      // buffer everything.
      guard exchange != nil, head.status.code >= 200 else { return close(.connectionLost) }
      exchange?.head = head
      allowance.headArrived()
    case .body(var part):
      let room = ProviderResponse.maximumBody - (exchange?.body.readableBytes ?? 0)
      if let slice = part.readSlice(length: min(part.readableBytes, room)) {
        exchange?.body.writeImmutableBuffer(slice)
      }
      if part.readableBytes > 0 { finish(isReusable: false, isCut: true) }
    case .end:
      finish(isReusable: exchange?.head?.isKeepAlive ?? false)
    }
  }

  func channelInactive(context: ChannelHandlerContext) {
    close(.connectionLost)
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    close(.connectionLost)
  }
}
