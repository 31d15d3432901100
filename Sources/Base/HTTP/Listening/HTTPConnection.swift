import Basics
import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTP1

/// The last handler of a connection, after the parser. It gives the connection's requests, one after the other, to the task
/// that answers them, and sends the answers. When it reads and when it closes, ``RequestGate`` decides.
///
/// A request with a short body comes whole. The parts of a long one (``BodyFraming/isLong``) follow as they arrive, and no
/// more arrive than are asked for. While the peer leaves answers unread, it gets no further ones.
final class HTTPConnection: ChannelDuplexHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundIn = Never
  typealias OutboundOut = ByteBuffer

  private let gate: RequestGate
  private let date: HTTPDate
  private var context: ChannelHandlerContext?
  /// Requests that nobody has asked for yet; ``RequestGate`` limits how many.
  private var requests: [Incoming] = []
  /// What comes after them; nil while more may.
  private var end: Result<Incoming?, any Error>?
  private var waiting: Continuation<Incoming?, any Error>?
  /// Who waits until more may be written.
  private var full: CheckedContinuation<Void, any Error>?
  /// Whether a read was requested and held back.
  private var isReadHeld = false
  /// The request whose short body is arriving.
  private var incomplete: (head: HTTPRequest, framing: BodyFraming)?
  /// Where the parts of a long body go.
  private var parts: AsyncThrowingStream<ByteBuffer, any Error>.Continuation?
  /// What has arrived of a short body, or by one read of a long one: a part, however small its chunks are, as each would take
  /// more memory than its bytes.
  private var body = ByteBuffer()

  /// A request, and what its head says of its body.
  struct Incoming: Sendable {
    let request: Request
    let framing: BodyFraming
  }

  init(_ gate: RequestGate, _ date: HTTPDate) {
    self.gate = gate
    self.date = date
  }

  /// The next request; nil after the last one. To be called by one task, on the event loop.
  ///
  /// - Throws: an `HTTPParserError` if what follows is not HTTP, and the error with which the connection broke.
  func next() async throws -> Incoming? {
    try await withThrowingContinuation { continuation in
      waiting = continuation
      give()
    }
  }

  private func give() {
    guard waiting != nil, context?.channel.isWritable != false else { return }
    if !requests.isEmpty {
      answerWaiting(.success(requests.removeFirst()))
    } else if let end {
      answerWaiting(end)
    }
  }

  private func answerWaiting(_ result: Result<Incoming?, any Error>) {
    let continuation = waiting
    waiting = nil
    continuation?.resume(with: result)
  }

  private func take(_ head: HTTPRequest, _ framing: BodyFraming, _ body: RequestBody) {
    requests.append(Incoming(request: Request(head: head, body: body), framing: framing))
    give()
  }

  private func finish(_ result: Result<Incoming?, any Error>) {
    guard end == nil else { return }
    end = result
    incomplete = nil
    if case .failure(let error) = result { parts?.finish(throwing: error) } else { parts?.finish() }
    parts = nil
    give()
  }

  // MARK: The peer

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
    gate.end()
    finish(.success(nil))
    // Whoever waited for a peer that reads nothing waits no longer.
    give()
    resumeWriting()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !gate.isReadingStopped, end == nil else { return }
    switch unwrapInboundIn(data) {
    case .head(let head):
      guard let request = HTTPRequest(head) else { return fail(HTTPParserError.invalidHeaderToken) }
      begin(request, mayBeFollowed: head.mayBeFollowed)
    case .body(let bytes):
      gate.continue()
      // Usually the first part is the whole body.
      if body.readableBytes == 0 { body = bytes } else { body.writeImmutableBuffer(bytes) }
    case .end:
      // First the gate: the request may be answered at once.
      gate.complete()
      complete()
      readIfHeld(context)
    }
  }

  private func begin(_ request: HTTPRequest, mayBeFollowed: Bool) {
    let framing = BodyFraming(request)
    gate.begin(framing, mayBeFollowed: mayBeFollowed)
    guard framing.isLong else { return incomplete = (request, framing) }
    let (body, parts) = AsyncThrowingStream<ByteBuffer, any Error>.makeStream()
    self.parts = parts
    take(request, framing, RequestBody(asyncSequence: body))
  }

  private func complete() {
    if let (head, framing) = incomplete {
      incomplete = nil
      let whole = body
      body = ByteBuffer()
      return take(head, framing, RequestBody(buffer: whole))
    }
    forwardPart()
    parts?.finish()
    parts = nil
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    forwardPart()
    context.fireChannelReadComplete()
  }

  private func forwardPart() {
    guard let parts, body.readableBytes > 0 else { return }
    parts.yield(body)
    body = ByteBuffer()
  }

  private func fail(_ error: any Error) {
    forwardPart()
    gate.stopReading()
    guard let parts, error is HTTPParserError else { return finish(.failure(error)) }
    // Whoever reads the body says so in its answer, and nobody else.
    parts.finish(throwing: error)
    gate.endWithAnswer()
    finish(.success(nil))
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    fail(error)
    context.fireErrorCaught(error)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case is ChannelShouldQuiesceEvent: return gate.shutDown()
    case ChannelEvent.inputClosed: finish(.success(nil))
    default: break
    }
    context.fireUserInboundEventTriggered(event)
  }

  func channelInactive(context: ChannelHandlerContext) {
    gate.stopClock()
    finish(.success(nil))
    context.fireChannelInactive()
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    readIfHeld(context)
    give()
    resumeWriting()
    context.fireChannelWritabilityChanged()
  }

  func read(context: ChannelHandlerContext) {
    if gate.mayRead { context.read() } else { isReadHeld = true }
  }

  private func readIfHeld(_ context: ChannelHandlerContext) {
    guard isReadHeld, gate.mayRead else { return }
    isReadHeld = false
    context.read()
  }

  func triggerUserOutboundEvent(
    context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
  ) {
    guard event is BodyWanted else { return context.triggerUserOutboundEvent(event, promise: promise) }
    if gate.bodyIsWanted() {
      context.writeAndFlush(
        wrapOutboundOut(ByteBuffer(string: "HTTP/1.1 100 Continue\r\n\r\n")), promise: nil)
    }
    readIfHeld(context)
    promise?.succeed()
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    if mode != .input { gate.closeWhenSent() }
    context.close(mode: mode, promise: promise)
  }

  // MARK: Answers

  /// - Returns: the bytes of the answer's head, to be sent with its content.
  func beginAnswer(_ head: AnswerHead, contentLength: Int) -> ByteBuffer {
    let isLast = gate.beginAnswer(saysLength: head.saysLength)
    var bytes = ByteBuffer()
    bytes.reserveCapacity(512 + contentLength)
    head.write(to: &bytes, date: date.text(), isLast: isLast)
    return bytes
  }

  /// Sends the last bytes of an answer.
  func endAnswer(with bytes: ByteBuffer) throws {
    guard let context else { throw ChannelError.ioOnClosedChannel }
    guard gate.endAnswer() else {
      context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
      return readIfHeld(context)
    }
    let isSent = context.eventLoop.makePromise(of: Void.self)
    let channel = context.channel
    isSent.futureResult.whenComplete { _ in channel.close(mode: .output, promise: nil) }
    context.writeAndFlush(wrapOutboundOut(bytes), promise: isSent)
  }

  /// Answers what is not HTTP.
  func refuse() throws {
    guard let context else { throw ChannelError.ioOnClosedChannel }
    var bytes = ByteBuffer()
    AnswerHead(status: .badRequest, fields: [.contentLength: "0"]).write(
      to: &bytes, date: date.text(), isLast: true)
    context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
  }

  /// Sends bytes of an answer, and waits until the peer has read of them, if they are more than may wait for it.
  func write(_ bytes: ByteBuffer) async throws {
    guard let context else { throw ChannelError.ioOnClosedChannel }
    context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
    try await withCheckedThrowingContinuation { continuation in
      full = continuation
      resumeWriting()
    }
  }

  private func resumeWriting() {
    guard let continuation = full, context?.channel.isWritable != false else { return }
    full = nil
    if context?.channel.isActive == true {
      continuation.resume()
    } else {
      continuation.resume(throwing: ChannelError.ioOnClosedChannel)
    }
  }
}
