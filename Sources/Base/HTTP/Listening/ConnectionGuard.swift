import Foundation
import NIOCore

/// The first handler of each connection, before TLS and the HTTP decoder. Drops bytes that will not be read, and closes a
/// connection whose peer does not read its answers.
///
/// Without it the HTTP decoder would buffer whatever follows a request that ends HTTP (CONNECT, an upgrade),
/// and unlimited white space in a head; TLS would go on reading while it closes.
final class ConnectionGuard: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundIn = ByteBuffer

  /// The bytes that may arrive without yielding a part of a request: more than the longest head, and what is read at once.
  static let maximumUnparsed = 40 << 10

  /// How long a connection stays open after its last answer was sent, so that the peer can read it. If unread
  /// bytes of the peer are left at the close, the kernel discards what the peer has not received.
  private static let closingTimeout = TimeAmount.seconds(1)

  /// The bytes of a waiting answer that a peer must read in ``readIntervals``. A slow phone reads a kilobyte a second.
  /// (The kernel closes a connection sooner if the peer reads nothing.)
  private static let minimumRead = 8 << 10
  private static let readIntervals = 6
  private static let readInterval = TimeAmount.seconds(5)

  private let connections: OpenConnections
  private(set) var connection: OpenConnection?
  private var context: ChannelHandlerContext?
  /// Bytes that have arrived since the last part of a request.
  private var unparsed = 0
  private var isReadingStopped = false
  private var closesWhenSent = false
  private var closing: Scheduled<Void>?
  private var readCheck: Scheduled<Void>?

  init(_ connections: OpenConnections) {
    self.connections = connections
  }

  /// Called with each part of a request that the HTTP decoder yields.
  func requestContinues() { unparsed = 0 }

  func stopReading() { isReadingStopped = true }

  /// Stops reading, and closes the connection once everything written is sent.
  func closeWhenSent() {
    isReadingStopped = true
    closesWhenSent = true
  }

  /// - Returns: whether the connection has a large one now.
  func enlargeReceiveBuffer() -> Bool { connection.map(connections.buffers.enlarge) ?? false }

  func countClosed(_ reason: ConnectionMetrics.Reason) { connections.metrics.countClosed(reason) }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    connection = connections.connection(of: context.channel)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    closing?.cancel()
    readCheck?.cancel()
    self.context = nil
  }

  func read(context: ChannelHandlerContext) {
    if !isReadingStopped { context.read() }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    // When a connection ends, NIO reads what the kernel has buffered.
    guard !isReadingStopped else { return }
    unparsed += unwrapInboundIn(data).readableBytes
    guard unparsed <= Self.maximumUnparsed else { return close(context, .noRequest) }
    context.fireChannelRead(data)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case is OpenConnections.Displaced:
      if let connection = connections.connection(of: context.channel), !connection.isIdle {
        connections.cancelDisplacement(of: connection)
      } else {
        close(context, .displaced)
      }
    case ChannelEvent.inputClosed where closesWhenSent: context.close(promise: nil)
    case ChannelEvent.outputClosed where closesWhenSent:
      context.fireUserInboundEventTriggered(event)
      closing = context.eventLoop.assumeIsolated().scheduleTask(in: Self.closingTimeout) {
        self.context?.close(promise: nil)
      }
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  private func close(_ context: ChannelHandlerContext, _ reason: ConnectionMetrics.Reason) {
    isReadingStopped = true
    countClosed(reason)
    context.close(promise: nil)
  }

  // MARK: Answers that are not read

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if context.channel.isWritable {
      readCheck?.cancel()
      readCheck = nil
      connection?.isStalled = false
    } else if readCheck == nil {
      let waiting = bytesWaiting(context)
      scheduleReadCheck(context, waiting: waiting, intervals: 0, atFirst: waiting)
    }
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if (error as? IOError)?.errnoCode == ETIMEDOUT { countClosed(.answerNotRead) }
    context.fireErrorCaught(error)
  }

  private func bytesWaiting(_ context: ChannelHandlerContext) -> Int {
    (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
  }

  /// - Parameter atFirst: bytes that were waiting before the last `intervals`.
  private func scheduleReadCheck(_ context: ChannelHandlerContext, waiting: Int, intervals: Int, atFirst: Int)
  {
    readCheck = context.eventLoop.assumeIsolated().scheduleTask(in: Self.readInterval) {
      let left = self.bytesWaiting(context)
      self.connection?.isStalled = left >= waiting
      guard intervals + 1 == Self.readIntervals else {
        return self.scheduleReadCheck(context, waiting: left, intervals: intervals + 1, atFirst: atFirst)
      }
      guard left + Self.minimumRead <= atFirst else { return self.close(context, .answerNotRead) }
      self.scheduleReadCheck(context, waiting: left, intervals: 0, atFirst: left)
    }
  }
}
