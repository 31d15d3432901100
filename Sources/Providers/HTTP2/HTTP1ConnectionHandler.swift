import Foundation
import NIOCore
import NIOHPACK
import NIOHTTP1

/// A connection to a peer that speaks HTTP/1.1 only: one request at a time. To its pool it is one with a single stream.
final class HTTP1ConnectionHandler: ChannelInboundHandler, ConnectionHandler {
  typealias InboundIn = HTTPClientResponsePart
  typealias OutboundOut = HTTPClientRequestPart

  private struct Exchange {
    let pending: PendingRequest
    let stream: HTTP2StreamID
    var head: HTTPResponseHead?
    var body = ByteBuffer()
  }

  let id: ConnectionID
  private let owner: any HTTP2ConnectionOwner
  private let limits: HTTP2ConnectionHandler.Limits
  private var context: ChannelHandlerContext?
  private var connection: HTTP2Connection?
  private var exchange: Exchange?
  private var idle: IdleClock
  private var nextStream: HTTP2StreamID = 1
  private var hasEnded = false

  init(id: ConnectionID, owner: any HTTP2ConnectionOwner, limits: HTTP2ConnectionHandler.Limits) {
    (self.id, self.owner, self.limits) = (id, owner, limits)
    idle = IdleClock(limit: limits.idle)
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
    guard pending.begin(at: .init(connection: connection, stream: stream)) else {
      return owner.finished(pending, on: id, .failure(.cancelled))
    }
    nextStream += 2
    exchange = Exchange(pending: pending, stream: stream)
    idle.end()
    let body = pending.request.body()
    let head = Self.head(of: pending.request, length: body.readableBytes)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }

  private static func head(of request: ProviderRequest, length: Int) -> HTTPRequestHead {
    var headers = HTTPHeaders()
    var path = "/"
    for (name, value, _) in request.headers {
      switch name {
      case ":authority": headers.add(name: "host", value: value)
      case ":path": path = value
      case _ where name.hasPrefix(":"): break
      default: headers.add(name: name, value: value)
      }
    }
    headers.replaceOrAdd(name: "content-length", value: "\(length)")
    return HTTPRequestHead(version: .http1_1, method: .POST, uri: path, headers: headers)
  }

  func reset(_ stream: HTTP2StreamID, timedOut: Bool) {
    guard let taken = exchange, taken.stream == stream else { return }
    exchange = nil
    owner.finished(taken.pending, on: id, .failure(.timeout))
    // What may still come would be taken for the next answer.
    end(.connectionLost)
  }

  /// There is nothing to ask with: whoever asks is told that the connection is there.
  func ask() {
    if !hasEnded { owner.alive(id) }
  }

  func end(_ failure: TransportFailure) {
    guard !hasEnded else { return }
    hasEnded = true
    if let taken = exchange {
      exchange = nil
      if let head = taken.head {
        answer(taken, head)
      } else {
        owner.finished(taken.pending, on: id, .failure(failure))
      }
    }
    owner.closed(id, wasUp: true, failure: failure)
    context?.closeAtOnce()
  }

  private func answer(_ exchange: Exchange, _ head: HTTPResponseHead) {
    let response = ProviderResponse(
      status: Int(head.status.code), headers: HPACKHeaders(httpHeaders: head.headers), body: exchange.body,
      connection: id)
    owner.finished(exchange.pending, on: id, .success(response))
  }

  /// The answer is here, whole or as much of it as is read.
  private func finish(isReusable: Bool) {
    guard let taken = exchange, let head = taken.head else { return }
    exchange = nil
    if !isReusable {
      // Told first: the pool must not take it for free.
      hasEnded = true
      owner.draining(id)
    }
    answer(taken, head)
    guard isReusable else {
      owner.closed(id, wasUp: true, failure: .connectionLost)
      context?.closeAtOnce()
      return
    }
    rest()
  }

  private func rest() {
    guard let context else { return }
    idle.begin(on: context.eventLoop) { [weak self] in self?.end(.connectionLost) }
  }

  // MARK: Channel events

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    let connection = HTTP2Connection(id: id, eventLoop: context.eventLoop, handler: self)
    self.connection = connection
    rest()
    owner.opened(connection, streams: 1)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    end(.connectionLost)
    self.context = nil
    connection = nil
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !hasEnded else { return }
    switch unwrapInboundIn(data) {
    case .head(let head):
      // Nobody has asked; or the peer leaves HTTP (101), and the decoder would keep all that follows.
      guard exchange != nil, head.status.code >= 200 else { return end(.connectionLost) }
      exchange?.head = head
    case .body(var part):
      let room = ProviderResponse.maximumBody - (exchange?.body.readableBytes ?? 0)
      if let slice = part.readSlice(length: min(part.readableBytes, room)) {
        exchange?.body.writeImmutableBuffer(slice)
      }
      if part.readableBytes > 0 { finish(isReusable: false) }
    case .end:
      finish(isReusable: exchange?.head?.isKeepAlive ?? false)
    }
  }

  func channelInactive(context: ChannelHandlerContext) {
    end(.connectionLost)
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    end(.connectionLost)
  }
}

/// An HTTP proxy that connects us through (RFC 9110 section 9.3.6).
struct Proxy: Sendable, Hashable {
  let host: String
  let port: Int
  /// `user:password`, where the proxy wants it.
  let userInfo: String?

  /// From `http://[user:password@]host:port`; nil for any other URL.
  init?(_ url: URL) {
    guard url.scheme == "http", let host = url.host(percentEncoded: false), !host.isEmpty else { return nil }
    self.host = host
    self.port = url.port ?? 80
    self.userInfo = url.user(percentEncoded: false).map {
      "\($0):\(url.password(percentEncoded: false) ?? "")"
    }
  }
}

/// Asks the proxy for the way through, and leaves the pipeline when it is open.
final class ProxyConnectHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundOut = ByteBuffer

  enum Failure: Error {
    case refused, tooLong, closed, timeout
  }

  private static let longestHead = 8192
  private static let timeout = TimeAmount.seconds(10)

  private let request: String
  private var done: ((Result<Void, any Error>) -> Void)?
  private var head = ByteBuffer()

  /// - Parameter done: called once, on the event loop; on success it adds the handlers that follow.
  init(proxy: Proxy, host: String, port: Int, done: @escaping (Result<Void, any Error>) -> Void) {
    let target = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    let authorization = proxy.userInfo.map {
      "Proxy-Authorization: Basic \(Data($0.utf8).base64EncodedString())\r\n"
    }
    self.request = "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n\(authorization ?? "")\r\n"
    self.done = done
  }

  func channelActive(context: ChannelHandlerContext) {
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: request)), promise: nil)
    context.eventLoop.assumeIsolated().scheduleTask(in: Self.timeout) {
      self.finish(.failure(Failure.timeout))
    }
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard done != nil else { return context.fireChannelRead(data) }
    head.writeImmutableBuffer(unwrapInboundIn(data))
    guard let end = head.readableBytesView.firstRange(of: Array("\r\n\r\n".utf8)) else {
      if head.readableBytes > Self.longestHead { finish(.failure(Failure.tooLong)) }
      return
    }
    let status = String(buffer: head).prefix { $0 != "\r\n" }.split(separator: " ")
    guard status.count >= 2, status[0].hasPrefix("HTTP/1."), status[1].count == 3, status[1].hasPrefix("2")
    else {
      return finish(.failure(Failure.refused))
    }
    head.moveReaderIndex(to: end.upperBound)
    finish(.success(()))
    if head.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(head)) }
    context.pipeline.syncOperations.removeHandler(self, promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    finish(.failure(Failure.closed))
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    finish(.failure(error))
    context.fireErrorCaught(error)
  }

  private func finish(_ result: Result<Void, any Error>) {
    done?(result)
    done = nil
  }
}
