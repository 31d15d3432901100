package import NIOCore
import NIOHPACK
import NIOSSL

/// The only handler above TLS: speaks HTTP/2 and matches answers to requests by their streams.
///
/// Requests and answers are HEADERS and DATA without streaming, and all output of one turn of the event loop
/// is written as one buffer. swift-nio's general HTTP/2 handler costs twice as much per request.
package final class HTTP2ConnectionHandler: ChannelInboundHandler, ConnectionHandler {
  package typealias InboundIn = ByteBuffer
  package typealias OutboundOut = ByteBuffer

  private static let maximumUnreadReplies = 1000

  /// A request under way, and the part of its answer that has come.
  private final class Stream {
    let pending: PendingRequest
    let started: NIODeadline
    var status: Int?
    var headers = HPACKHeaders()
    var body = ByteBuffer()

    init(_ pending: PendingRequest, started: NIODeadline) {
      self.pending = pending
      self.started = started
    }
  }

  private let id: ConnectionID
  private let owner: any HTTP2ConnectionOwner
  private let limits: Limits
  private var input = HTTP2Input()
  private var output = HTTP2Output()
  private var streams: [HTTP2StreamID: Stream] = [:]
  private var nextStream: HTTP2StreamID = 1
  private var context: ChannelHandlerContext?
  private var connection: HTTP2Connection?
  private var health: ConnectionHealth
  private var idleTimer: IdleTimer
  private var isCheckScheduled = false
  private var pings: UInt64 = 0
  /// The number of replies to PING and SETTINGS that the peer has not read.
  private var unreadReplies = 0
  private var isDraining = false
  private var hasSettings = false
  private var hasEnded = false
  /// The failure to report if the connection ends before the peer's SETTINGS have come.
  private var failure = ConnectionFailure.handshakeClosed

  package init(id: ConnectionID, owner: any HTTP2ConnectionOwner, limits: Limits = Limits()) {
    self.id = id
    self.owner = owner
    self.limits = limits
    self.health = ConnectionHealth(limits: limits.health, now: .now())
    idleTimer = IdleTimer(limit: limits.idle)
  }

  // MARK: Requests

  /// Sends requests, with one flush for all.
  package func start(_ pendingRequests: [PendingRequest]) {
    guard let context, let connection, !hasEnded, !isDraining else {
      for pending in pendingRequests { owner.unprocessed(pending, on: id) }
      return
    }
    let now = NIODeadline.now()
    if streams.isEmpty {
      health.wake(now: now)
      idleTimer.stop()
    }
    for pending in pendingRequests {
      let stream = nextStream
      guard pending.begin(at: .init(connection: connection, id: stream)) else {
        owner.finished(pending, on: id, .failure(.cancelled))
        continue
      }
      nextStream += 2
      streams[stream] = Stream(pending, started: now)
      output.send(pending.request, on: stream)
      input.allowance.earn(FrameAllowance.perRequest)
    }
    flush()
    startIdleTimer()
    // Stream ids run out at 2^31; another connection takes over long before.
    if nextStream > 1 << 30 { drain() }
    scheduleHealthCheck(context)
  }

  /// Cancels the stream of a request that has already ended.
  package func reset(_ stream: HTTP2StreamID, timedOut: Bool) {
    guard let taken = streams.removeValue(forKey: stream) else { return }
    _ = output.discardUnsent(of: stream)
    output.reset(stream)
    flush()
    if timedOut {
      carryOut(health.timedOut(sent: taken.started, now: .now()))
    }
    owner.finished(taken.pending, on: id, .failure(.timeout))
    startIdleTimer()
  }

  /// Ends the stream with an answer, whole or cut.
  ///
  /// - Parameter isOpen: whether the peer may still send on it.
  private func answer(_ stream: HTTP2StreamID, isCut: Bool = false, isOpen: Bool = false) {
    guard let taken = streams.removeValue(forKey: stream) else { return }
    // The answer came before the whole request was sent: the rest is not needed.
    if output.discardUnsent(of: stream) || isOpen { output.reset(stream) }
    health.answered(now: .now())
    guard let status = taken.status else {
      owner.finished(taken.pending, on: id, .failure(.streamReset))
      return
    }
    let response = ProviderResponse(
      status: status, headers: taken.headers, body: taken.body, isCut: isCut, connection: id)
    owner.finished(taken.pending, on: id, .success(response))
    startIdleTimer()
  }

  /// Reports that the peer certainly did not process the request.
  private func unprocessed(_ stream: HTTP2StreamID) {
    guard let taken = streams.removeValue(forKey: stream) else { return }
    _ = output.discardUnsent(of: stream)
    owner.unprocessed(taken.pending, on: id)
  }

  /// Starts the idle timer if no request is under way.
  private func startIdleTimer() {
    guard limits.idle != nil, streams.isEmpty, let context else { return }
    idleTimer.start(on: context.eventLoop) { [weak self] in
      if self?.streams.isEmpty == true { self?.close() }
    }
  }

  private func flush() {
    guard let context, output.bytes.readableBytes > 0 else { return }
    context.writeAndFlush(wrapOutboundOut(output.bytes), promise: nil)
    output.clear()
  }

  // MARK: The connection

  /// Refuses new requests; the pool closes the connection after the last one.
  private func drain() {
    guard !isDraining else { return }
    isDraining = true
    owner.draining(id)
  }

  /// Sends a PING, unless one is unanswered.
  package func ping() {
    guard let context, health.pingSentAt == nil, !hasEnded else { return }
    health.pingSent(now: .now())
    pings += 1
    output.ping(pings, isAnswer: false)
    flush()
    scheduleHealthCheck(context)
  }

  private func pingAnswered() {
    health.pingAnswered()
    owner.alive(id)
  }

  private func settings(streams: Int?) {
    guard !hasSettings else {
      if let streams { owner.limitChanged(id, streams: streams) }
      return
    }
    hasSettings = true
    startIdleTimer()
    if let connection { owner.opened(connection, streams: streams ?? .max) }
  }

  /// Closes the connection. Requests under way fail, except those whose answer has begun.
  package func close(_ failure: TransportFailure = .connectionLost) {
    guard !hasEnded else { return }
    hasEnded = true
    for (stream, open) in streams.sorted(by: { $0.key < $1.key }) {
      guard open.status == nil else {
        answer(stream, isCut: true)
        continue
      }
      streams[stream] = nil
      owner.finished(open.pending, on: id, .failure(failure))
    }
    owner.closed(id, wasUp: hasSettings, failure: hasSettings ? failure : .unconnected(self.failure))
    context?.closeAtOnce()
  }

  private func carryOut(_ verdict: ConnectionHealth.Verdict) {
    switch verdict {
    case .healthy: break
    case .ping:
      ping()
      owner.suspected(id)
    case .replace: drain()
    case .dead: close(.silent)
    }
  }

  /// Checks the connection's health at intervals while requests are under way.
  private func scheduleHealthCheck(_ context: ChannelHandlerContext) {
    guard !isCheckScheduled else { return }
    isCheckScheduled = true
    context.eventLoop.assumeIsolated().scheduleTask(in: limits.health.tick) {
      self.isCheckScheduled = false
      guard !self.hasEnded else { return }
      self.carryOut(self.health.check(underWay: self.streams.count, now: .now()))
      if !self.streams.isEmpty || self.health.pingSentAt != nil, !self.hasEnded {
        self.scheduleHealthCheck(context)
      }
    }
  }

  /// Counts a reply to PING or SETTINGS. A peer that causes replies and does not read them is disconnected.
  private func countReply() throws {
    unreadReplies = context?.channel.isWritable == true ? 0 : unreadReplies + 1
    guard unreadReplies <= Self.maximumUnreadReplies else { throw HTTP2Input.Violation() }
  }

  // MARK: The peer's frames

  private func read(_ frame: HTTP2Input.Frame) throws {
    switch frame {
    case .headers(let headers, let stream, let endsStream): read(headers, on: stream, endsStream)
    case .data(let data, let stream, let endsStream): read(data, on: stream, endsStream)
    case .reset(let stream, let code): closed(stream, code)
    case .goAway(let last): goAway(last)
    case .settings(let settings):
      try countReply()
      output.apply(settings)
      self.settings(streams: settings.streams)
    case .window(let stream, let increment): try output.updateWindow(of: stream, by: increment)
    case .ping(let data):
      try countReply()
      output.ping(data, isAnswer: true)
    case .pong: pingAnswered()
    }
  }

  private func read(_ headers: HPACKHeaders, on id: HTTP2StreamID, _ endsStream: Bool) {
    guard let stream = streams[id] else { return }
    // Later header blocks are trailers; a status below 200 is informational.
    if stream.status == nil, let status = headers.first(name: ":status").flatMap({ Int($0) }), status >= 200 {
      stream.status = status
      stream.headers = headers
      input.allowance.earn(headers.count)
    }
    if endsStream { answer(id) }
  }

  private func read(_ data: ByteBuffer, on id: HTTP2StreamID, _ endsStream: Bool) {
    guard let stream = streams[id] else { return }
    guard stream.body.readableBytes + data.readableBytes <= ProviderResponse.maximumBody else {
      answer(id, isCut: true, isOpen: true)
      return
    }
    if data.readableBytes > 0 { input.allowance.earn(1) }
    if stream.body.readableBytes == 0 { stream.body = data } else { stream.body.writeImmutableBuffer(data) }
    if endsStream { answer(id) }
  }

  /// The peer has closed the stream before the answer was complete.
  private func closed(_ stream: HTTP2StreamID, _ code: UInt32) {
    let refused: UInt32 = 7
    if code == refused {
      unprocessed(stream)
    } else {
      // With a status it counts as an answer, perhaps a cut one; without, as a reset.
      answer(stream, isCut: true)
    }
  }

  /// The peer accepts no more streams and has not processed those above `last` (RFC 9113 section 6.8). Peers
  /// often send a first GOAWAY with the highest possible id, and the real one in a second.
  private func goAway(_ last: HTTP2StreamID) {
    drain()
    for stream in streams.keys.filter({ $0 > last }).sorted() { unprocessed(stream) }
  }

  // MARK: Channel events

  package func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    connection = HTTP2Connection(id: id, eventLoop: context.eventLoop, handler: self)
    context.eventLoop.assumeIsolated().scheduleTask(in: limits.handshake) {
      guard !self.hasSettings else { return }
      self.failure = .handshakeTimeout
      self.close()
    }
    flush()
  }

  package func handlerRemoved(context: ChannelHandlerContext) {
    close()
    self.context = nil
    connection = nil
  }

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !hasEnded else { return }
    input.append(unwrapInboundIn(data))
    do {
      while !hasEnded, let frame = try input.next() { try read(frame) }
    } catch {
      failure = .http2NotOffered
      close()
    }
  }

  package func channelReadComplete(context: ChannelHandlerContext) {
    health.received(now: .now())
    if let credit = input.credit() { output.writeWindowUpdate(credit) }
    if !hasEnded { flush() }
    context.fireChannelReadComplete()
  }

  package func channelInactive(context: ChannelHandlerContext) {
    close()
    context.fireChannelInactive()
  }

  package func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // TLS 1.3: the peer may refuse the handshake after it is complete here.
    if let error = error as? NIOSSLError, !hasSettings { failure = ConnectionFailure(error) ?? failure }
    close()
  }
}
