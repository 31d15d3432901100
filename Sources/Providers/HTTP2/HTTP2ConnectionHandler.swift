import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOTLS

/// What a connection reports to its pool. Called on the connection's event loop.
protocol HTTP2ConnectionOwner: Sendable {
  func opened(_ connection: HTTP2Connection, streams: Int)
  func limitChanged(_ id: ConnectionID, streams: Int)
  func draining(_ id: ConnectionID)
  func suspected(_ id: ConnectionID)
  func alive(_ id: ConnectionID)
  func finished(_ pending: PendingRequest, on id: ConnectionID, _ ending: PendingRequest.Ending)
  /// The peer certainly did not process the request.
  func unprocessed(_ pending: PendingRequest, on id: ConnectionID)
  /// Reported once. `failure` says why, where the connection was never up.
  func closed(_ id: ConnectionID, failure: TransportFailure?)
}

/// The one handler above NIO's HTTP/2 codec: all requests of a connection, told apart by stream.
///
/// NIO's stream multiplexer is not used: a channel with a pipeline of its own per request costs
/// more than all the rest, and a request here is one HEADERS and one DATA frame.
final class HTTP2ConnectionHandler: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame
  typealias OutboundOut = HTTP2Frame

  struct Limits: Sendable {
    var health = ConnectionHealth.Limits()
    /// From the start of TLS to the peer's SETTINGS.
    var handshake = TimeAmount.seconds(10)
  }

  /// A request under way.
  struct Stream {
    let pending: PendingRequest
    let started: NIODeadline
    /// Whether the request has gone out whole.
    var isSent = false
    var status: Int?
    var headers = HPACKHeaders()
    var body = ByteBuffer()
  }

  let id: ConnectionID
  let owner: any HTTP2ConnectionOwner
  private let limits: Limits
  var streams: [HTTP2StreamID: Stream] = [:]
  private var nextStream = HTTP2StreamID(1)
  private var context: ChannelHandlerContext?
  private var connection: HTTP2Connection?
  private var health: ConnectionHealth
  private var ticking = false
  private var pings: UInt64 = 0
  var isDraining = false
  private var hasSettings = false
  private var hasEnded = false
  private var failure = TransportFailure.connectFailed

  init(id: ConnectionID, owner: any HTTP2ConnectionOwner, limits: Limits = Limits()) {
    self.id = id
    self.owner = owner
    self.limits = limits
    self.health = ConnectionHealth(limits: limits.health, now: .now())
  }

  // MARK: Requests

  /// Sends requests, with one flush for all.
  func start(_ pendingRequests: [PendingRequest]) {
    guard let context, let connection, !hasEnded, !isDraining else {
      for pending in pendingRequests { owner.unprocessed(pending, on: id) }
      return
    }
    let now = NIODeadline.now()
    if streams.isEmpty { health.wake(now: now) }
    for pending in pendingRequests {
      let stream = nextStream
      guard pending.begin(at: .init(connection: connection, stream: stream)) else {
        owner.finished(pending, on: id, .failure(.cancelled))
        continue
      }
      nextStream = stream.advanced(by: 2)
      streams[stream] = Stream(pending: pending, started: now)
      write(pending.request, on: stream, context)
    }
    context.flush()
    // Ids are used up after a thousand million requests; long before that another connection takes over.
    if nextStream > HTTP2StreamID(1 << 30) { drain() }
    tick(context)
  }

  private func write(_ request: ProviderRequest, on stream: HTTP2StreamID, _ context: ChannelHandlerContext) {
    let head = HTTP2Frame(streamID: stream, payload: .headers(.init(headers: request.headers)))
    let body = HTTP2Frame(
      streamID: stream, payload: .data(.init(data: .byteBuffer(request.body), endStream: true)))
    context.write(wrapOutboundOut(head), promise: nil)
    let sent = context.eventLoop.makePromise(of: Void.self)
    sent.futureResult.assumeIsolated().whenComplete { result in
      switch result {
      case .success: self.streams[stream]?.isSent = true
      case .failure(let error): self.notSent(stream, error)
      }
    }
    context.write(wrapOutboundOut(body), promise: sent)
  }

  /// The codec would not take the request: it never left. A closed channel is another matter:
  /// then part of it may have left, and `end` decides.
  private func notSent(_ stream: HTTP2StreamID, _ error: any Error) {
    guard error is any NIOHTTP2Error, !(error is NIOHTTP2Errors.StreamClosed), let taken = take(stream) else {
      return
    }
    context?.writeAndFlush(
      wrapOutboundOut(HTTP2Frame(streamID: stream, payload: .rstStream(.cancel))), promise: nil)
    owner.unprocessed(taken.pending, on: id)
  }

  /// Gives a stream up whose request has ended already.
  func reset(_ stream: HTTP2StreamID, timedOut: Bool) {
    guard let taken = take(stream), let context else { return }
    let frame = HTTP2Frame(streamID: stream, payload: .rstStream(.cancel))
    context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
    if timedOut {
      act(on: health.timedOut(sent: taken.started, now: .now()))
    }
    owner.finished(taken.pending, on: id, .failure(.timeout))
  }

  /// The stream ends with an answer, whole or cut.
  func answer(_ stream: HTTP2StreamID, reset: Bool = false) {
    guard let taken = take(stream) else { return }
    if reset || !taken.isSent {
      // The answer came before the request was out: the rest of it is not wanted.
      let frame = HTTP2Frame(streamID: stream, payload: .rstStream(.cancel))
      context?.writeAndFlush(wrapOutboundOut(frame), promise: nil)
    }
    health.answered(now: .now())
    guard let status = taken.status else {
      owner.finished(taken.pending, on: id, .failure(.streamReset))
      return
    }
    let response = ProviderResponse(status: status, headers: taken.headers, body: taken.body, connection: id)
    owner.finished(taken.pending, on: id, .success(response))
  }

  /// Removes the stream from the books; whoever takes it reports its end.
  func take(_ stream: HTTP2StreamID) -> Stream? {
    streams.removeValue(forKey: stream)
  }

  // MARK: The connection

  /// Takes no new requests; the pool closes it when the last has ended.
  func drain() {
    guard !isDraining else { return }
    isDraining = true
    owner.draining(id)
  }

  /// Sends a PING unless one is out.
  func ask() {
    guard let context, health.asked == nil, !hasEnded else { return }
    health.ask(now: .now())
    pings += 1
    let frame = HTTP2Frame(
      streamID: .rootStream, payload: .ping(HTTP2PingData(withInteger: pings), ack: false))
    context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
    tick(context)
  }

  func pong() {
    health.pong()
    owner.alive(id)
  }

  func settings(streams: Int?) {
    guard !hasSettings else {
      if let streams { owner.limitChanged(id, streams: streams) }
      return
    }
    hasSettings = true
    if let connection { owner.opened(connection, streams: streams ?? .max) }
  }

  /// Ends the connection: what is under way is lost, but where an answer has begun.
  func end() {
    guard !hasEnded else { return }
    hasEnded = true
    for stream in streams.keys.sorted() {
      guard streams[stream]?.status == nil else {
        answer(stream)
        continue
      }
      guard let taken = take(stream) else { continue }
      owner.finished(taken.pending, on: id, .failure(.connectionLost))
    }
    owner.closed(id, failure: hasSettings ? nil : failure)
    context?.close(promise: nil)
  }

  private func act(on verdict: ConnectionHealth.Verdict) {
    switch verdict {
    case .well: break
    case .ask:
      ask()
      owner.suspected(id)
    case .replace: drain()
    case .dead: end()
    }
  }

  /// Looks after the connection while there is something to look after.
  private func tick(_ context: ChannelHandlerContext) {
    guard !ticking else { return }
    ticking = true
    context.eventLoop.assumeIsolated().scheduleTask(in: limits.health.tick) {
      self.ticking = false
      guard !self.hasEnded else { return }
      self.act(on: self.health.check(underWay: self.streams.count, now: .now()))
      if !self.streams.isEmpty || self.health.asked != nil, !self.hasEnded { self.tick(context) }
    }
  }

  // MARK: Channel events

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    connection = HTTP2Connection(id: id, eventLoop: context.eventLoop, handler: self)
    context.eventLoop.assumeIsolated().scheduleTask(in: limits.handshake) {
      if !self.hasSettings { self.end() }
    }
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    end()
    self.context = nil
    connection = nil
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    read(unwrapInboundIn(data))
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    health.heard(now: .now())
    context.fireChannelReadComplete()
  }

  func channelInactive(context: ChannelHandlerContext) {
    end()
    context.fireChannelInactive()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case let event as StreamClosedEvent:
      closed(event.streamID, event.reason)
    case let event as NIOHTTP2WindowUpdatedEvent where event.streamID == .rootStream:
      if let window = event.inboundWindowSize { widen(window, context) }
    case TLSUserEvent.handshakeCompleted(let negotiated) where negotiated != "h2":
      failure = .tlsFailed
      end()
    default:
      break
    }
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // These concern one stream, and its promise or its end tells of them.
    if error is NIOHTTP2Errors.CreatedStreamAfterGoaway || error is NIOHTTP2Errors.StreamClosed
      || error is NIOHTTP2Errors.NoSuchStream || error is NIOHTTP2Errors.StreamError
    {
      return
    }
    if !(error is any NIOHTTP2Error), !(error is ChannelError), !(error is IOError) {
      failure = .tlsFailed
    }
    end()
  }

  /// Gives the peer back what its answers used up of the connection's window.
  private func widen(_ window: Int, _ context: ChannelHandlerContext) {
    let full = 65_535
    guard window < full / 2, !hasEnded else { return }
    let frame = HTTP2Frame(streamID: .rootStream, payload: .windowUpdate(windowSizeIncrement: full - window))
    context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
  }
}
