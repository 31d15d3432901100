import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTP1
import NIOHTTPTypes

/// The last handler of a connection. It gives the connection's requests, one after the other, to the task that answers them,
/// and takes the answers.
///
/// A request with a short body comes whole. The parts of a long one (``BodyFraming/isLong``) follow as they arrive, and
/// ``RequestGate`` lets no more arrive than is asked for. While the peer leaves answers unread, it gets no further ones.
final class HTTPConnection: ChannelInboundHandler {
  typealias InboundIn = HTTPRequestPart
  typealias OutboundOut = HTTPResponsePart

  private let gate: RequestGate
  private var context: ChannelHandlerContext?
  /// Requests that nobody has asked for yet; ``RequestGate`` limits how many.
  private var requests: CircularBuffer<Request> = []
  /// What comes after them; nil while more may.
  private var end: Result<Request?, any Error>?
  private var waiting: CheckedContinuation<Request?, any Error>?
  /// Who waits until more may be written.
  private var full: CheckedContinuation<Void, any Error>?
  /// The request whose short body is arriving.
  private var incomplete: (head: HTTPRequest, body: ByteBuffer)?
  /// Where the parts of a long body go.
  private var parts: AsyncThrowingStream<ByteBuffer, any Error>.Continuation?

  /// - Parameter gate: the handler before this one.
  init(after gate: RequestGate) { self.gate = gate }

  /// The next request; nil after the last one. To be called by one task, on the event loop.
  ///
  /// - Throws: an `HTTPParserError` if what follows is not HTTP, and the error with which the connection broke.
  func next() async throws -> Request? {
    try await withCheckedThrowingContinuation { continuation in
      waiting = continuation
      give()
    }
  }

  private func give() {
    guard waiting != nil, context?.channel.isWritable != false else { return }
    if let request = requests.popFirst() {
      answerWaiting(.success(request))
    } else if let end {
      answerWaiting(end)
    }
  }

  private func answerWaiting(_ result: Result<Request?, any Error>) {
    let continuation = waiting
    waiting = nil
    continuation?.resume(with: result)
  }

  private func take(_ head: HTTPRequest, _ body: RequestBody) {
    requests.append(Request(head: head, body: body))
    give()
  }

  /// Whether more may be written without waiting.
  var isWritable: Bool { context?.channel.isWritable == true }

  /// Waits until the peer has read of what was written, if it is more than may wait for it.
  func drain() async throws {
    context?.flush()
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

  private func finish(_ result: Result<Request?, any Error>) {
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
    finish(.success(nil))
    // Whoever waited for a peer that reads nothing waits no longer.
    give()
    resumeWriting()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard end == nil else { return }
    switch unwrapInboundIn(data) {
    case .head(let head) where gate.isBodyLong:
      let (body, parts) = AsyncThrowingStream<ByteBuffer, any Error>.makeStream()
      self.parts = parts
      take(head, RequestBody(asyncSequence: body))
    case .head(let head):
      incomplete = (head, ByteBuffer())
    case .body(let part):
      if let parts {
        parts.yield(part)
      } else if incomplete?.body.readableBytes == 0 {
        // Usually the first part is the whole body.
        incomplete?.body = part
      } else {
        incomplete?.body.writeImmutableBuffer(part)
      }
    case .end:
      parts?.finish()
      parts = nil
      guard let (head, body) = incomplete else { return }
      incomplete = nil
      take(head, RequestBody(buffer: body))
    }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case ChannelEvent.inputClosed = event { finish(.success(nil)) }
    context.fireUserInboundEventTriggered(event)
  }

  func channelInactive(context: ChannelHandlerContext) {
    finish(.success(nil))
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    finish(.failure(error))
    context.fireErrorCaught(error)
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    give()
    resumeWriting()
    context.fireChannelWritabilityChanged()
  }

  // MARK: Answers

  func write(_ part: HTTPResponsePart) throws {
    guard let context else { throw ChannelError.ioOnClosedChannel }
    guard case .end = part else { return context.write(wrapOutboundOut(part), promise: nil) }
    context.writeAndFlush(wrapOutboundOut(part), promise: nil)
  }
}

/// Writes the content of an answer.
struct AnswerWriter: ResponseBodyWriter {
  let connection: NIOLoopBound<HTTPConnection>

  @concurrent func write(_ buffer: ByteBuffer) async throws {
    try connection.value.write(.body(buffer))
    if !connection.value.isWritable { try await connection.value.drain() }
  }

  @concurrent func finish(_ trailers: HTTPFields?) async throws { try connection.value.write(.end(trailers)) }
}
