import NIOCore
import NIOHPACK
import NIOTLS

/// What a connection reports to its pool. Called on the connection's event loop.
protocol HTTP2ConnectionOwner: Sendable {
  func opened(_ connection: HTTP2Connection, streams: Int)
  func limitChanged(_ id: ConnectionID, streams: Int)
  func draining(_ id: ConnectionID)
  func suspected(_ id: ConnectionID)
  func alive(_ id: ConnectionID)
  func finished(
    _ pending: PendingRequest, on id: ConnectionID, _ ending: Result<ProviderResponse, TransportFailure>)
  /// The peer certainly did not process the request.
  func unprocessed(_ pending: PendingRequest, on id: ConnectionID)
  /// Reported once, with why.
  func closed(_ id: ConnectionID, wasUp: Bool, failure: TransportFailure)
}

/// The one handler above TLS: speaks HTTP/2, and tells the requests of a connection apart by their streams.
///
/// A request is HEADERS and DATA in one go, and so is an answer; all that is to be sent at a time goes out as one buffer.
/// With swift-nio's own handler, which is made for streams of every kind, a request costs twice as much.
final class HTTP2ConnectionHandler: ChannelInboundHandler, ConnectionHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private static let mostOwed = 1000

  struct Limits: Sendable {
    var health = ConnectionHealth.Limits()
    /// From the start of TLS to the peer's SETTINGS.
    var handshake = TimeAmount.seconds(10)
    /// How long nothing may be under way at present; nil: for ever.
    var idle: (@Sendable () -> TimeAmount)?
  }

  /// A request under way, and what has come of its answer.
  final class Stream {
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

  let id: ConnectionID
  let owner: any HTTP2ConnectionOwner
  private let limits: Limits
  var input = HTTP2Input()
  var output = HTTP2Output()
  var streams: [HTTP2StreamID: Stream] = [:]
  private var nextStream: HTTP2StreamID = 1
  private var context: ChannelHandlerContext?
  private var connection: HTTP2Connection?
  private var health: ConnectionHealth
  private var idle: IdleClock
  private var ticking = false
  private var pings: UInt64 = 0
  /// Answers of the connection's own that the peer has not taken.
  private var owed = 0
  private var isActive = false
  private var isDraining = false
  private var hasSettings = false
  private var hasEnded = false
  private var failure = TransportFailure.connectFailed

  init(id: ConnectionID, owner: any HTTP2ConnectionOwner, limits: Limits = Limits()) {
    self.id = id
    self.owner = owner
    self.limits = limits
    self.health = ConnectionHealth(limits: limits.health, now: .now())
    self.idle = IdleClock(limit: limits.idle)
  }

  // MARK: Requests

  /// Sends requests, with one flush for all.
  func start(_ pendingRequests: [PendingRequest]) {
    guard let context, let connection, !hasEnded, !isDraining else {
      for pending in pendingRequests { owner.unprocessed(pending, on: id) }
      return
    }
    let now = NIODeadline.now()
    if streams.isEmpty {
      health.wake(now: now)
      idle.end()
    }
    for pending in pendingRequests {
      let stream = nextStream
      guard pending.begin(at: .init(connection: connection, stream: stream)) else {
        owner.finished(pending, on: id, .failure(.cancelled))
        continue
      }
      nextStream += 2
      streams[stream] = Stream(pending, started: now)
      output.send(pending.request, on: stream)
      input.allowance.earn(FrameAllowance.perRequest)
    }
    flush()
    rest()
    // Ids are used up after a thousand million requests; long before that another connection takes over.
    if nextStream > 1 << 30 { drain() }
    tick(context)
  }

  /// Gives a stream up whose request has ended already.
  func reset(_ stream: HTTP2StreamID, timedOut: Bool) {
    guard let taken = streams.removeValue(forKey: stream) else { return }
    _ = output.forget(stream)
    output.reset(stream)
    flush()
    if timedOut {
      act(on: health.timedOut(sent: taken.started, now: .now()))
    }
    owner.finished(taken.pending, on: id, .failure(.timeout))
    rest()
  }

  /// The stream ends with an answer, whole or cut.
  ///
  /// - Parameter isOpen: whether the peer may have more to say on it.
  func answer(_ stream: HTTP2StreamID, isOpen: Bool) {
    guard let taken = streams.removeValue(forKey: stream) else { return }
    // An answer that came before the request was out: the rest of it is not wanted.
    if output.forget(stream) || isOpen { output.reset(stream) }
    health.answered(now: .now())
    guard let status = taken.status else {
      owner.finished(taken.pending, on: id, .failure(.streamReset))
      return
    }
    let response = ProviderResponse(status: status, headers: taken.headers, body: taken.body, connection: id)
    owner.finished(taken.pending, on: id, .success(response))
    rest()
  }

  /// The peer has certainly not processed the request.
  func unprocessed(_ stream: HTTP2StreamID) {
    guard let taken = streams.removeValue(forKey: stream) else { return }
    _ = output.forget(stream)
    owner.unprocessed(taken.pending, on: id)
  }

  /// Ends the connection after a while if nothing is under way.
  private func rest() {
    guard limits.idle != nil, streams.isEmpty, let context else { return }
    idle.begin(on: context.eventLoop) { [weak self] in
      if self?.streams.isEmpty == true { self?.end() }
    }
  }

  private func flush() {
    guard let context, isActive, output.bytes.readableBytes > 0 else { return }
    context.writeAndFlush(wrapOutboundOut(output.bytes), promise: nil)
    output.clear()
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
    output.ping(pings, isAnswer: false)
    flush()
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
    rest()
    if let connection { owner.opened(connection, streams: streams ?? .max) }
  }

  /// Ends the connection: what is under way is lost, but where an answer has begun.
  func end(_ failure: TransportFailure = .connectionLost) {
    guard !hasEnded else { return }
    hasEnded = true
    for (stream, open) in streams.sorted(by: { $0.key < $1.key }) {
      guard open.status == nil else {
        answer(stream, isOpen: false)
        continue
      }
      streams[stream] = nil
      owner.finished(open.pending, on: id, .failure(failure))
    }
    owner.closed(id, wasUp: hasSettings, failure: hasSettings ? failure : self.failure)
    context?.closeAtOnce()
  }

  private func act(on verdict: ConnectionHealth.Verdict) {
    switch verdict {
    case .well: break
    case .ask:
      ask()
      owner.suspected(id)
    case .replace: drain()
    case .dead: end(.silent)
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

  /// The peer is owed an answer of the connection's own. One that asks and asks and takes none is given up.
  func owe() throws {
    owed = context?.channel.isWritable == true ? 0 : owed + 1
    guard owed <= Self.mostOwed else { throw HTTP2Input.Violation() }
  }

  // MARK: Channel events

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    connection = HTTP2Connection(id: id, eventLoop: context.eventLoop, handler: self)
    context.eventLoop.assumeIsolated().scheduleTask(in: limits.handshake) {
      if !self.hasSettings { self.end() }
    }
    // Behind a proxy the channel is there already.
    if context.channel.isActive { begin() }
  }

  private func begin() {
    isActive = true
    flush()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    end()
    self.context = nil
    connection = nil
  }

  func channelActive(context: ChannelHandlerContext) {
    begin()
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !hasEnded else { return }
    input.append(unwrapInboundIn(data))
    do {
      while !hasEnded, let frame = try input.next() { try read(frame) }
    } catch {
      end()
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    health.heard(now: .now())
    if let credit = input.credit() { output.give(credit) }
    if !hasEnded { flush() }
    context.fireChannelReadComplete()
  }

  func channelInactive(context: ChannelHandlerContext) {
    end()
    context.fireChannelInactive()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case TLSUserEvent.handshakeCompleted(let negotiated) where negotiated != "h2":
      failure = .tlsFailed
      end()
    default:
      break
    }
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if !(error is ChannelError), !(error is IOError) {
      failure = .tlsFailed
    }
    end()
  }
}
