import Foundation
import NIOCore

/// The first handler of each connection, before TLS and the HTTP decoder. Drops bytes that nobody will read,
/// and closes a connection whose peer does not read its answers.
///
/// Without it the HTTP decoder would buffer whatever follows a request that ends HTTP (CONNECT, an upgrade),
/// and unlimited white space in a head; TLS would go on reading while it closes.
final class Door: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundIn = ByteBuffer

  /// Bytes that may arrive without yielding a part of a request: more than the longest head.
  static let mostSilent = 256 << 10

  /// How long a connection stays open after its last answer was sent, so that the peer can read it. If unread
  /// bytes of the peer are left at the close, the kernel discards what the peer has not received.
  private static let closingTimeout = TimeAmount.seconds(1)

  /// The least that a peer must read of a waiting answer: this many bytes in this many intervals. A slow
  /// phone reads a kilobyte a second. (The kernel closes a connection sooner if the peer reads nothing.)
  private static let (slowest, slowestIntervals) = (8 << 10, 6)
  private static let watchInterval = TimeAmount.seconds(5)

  private let connections: OpenConnections
  private(set) var connection: OpenConnection?
  private var context: ChannelHandlerContext?
  /// Bytes since the last part of a request.
  private var silent = 0
  private var isReadingStopped = false
  private var closesWhenSent = false
  private var closing: Scheduled<Void>?
  private var watch: Scheduled<Void>?

  init(_ connections: OpenConnections) {
    self.connections = connections
  }

  func requestGoesOn() { silent = 0 }

  func stopReading() { isReadingStopped = true }

  /// Stops reading, and closes the connection once everything written is sent.
  func closeWhenSent() { (isReadingStopped, closesWhenSent) = (true, true) }

  func note(_ reason: ConnectionMetrics.Reason) { connections.metrics.note(reason) }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    connection = connections.connection(of: context.channel)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    closing?.cancel()
    watch?.cancel()
    self.context = nil
  }

  func read(context: ChannelHandlerContext) {
    if !isReadingStopped { context.read() }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    // When a connection ends, NIO reads what the kernel has buffered.
    guard !isReadingStopped else { return }
    silent += unwrapInboundIn(data).readableBytes
    guard silent <= Self.mostSilent else { return close(context, .senseless) }
    context.fireChannelRead(data)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case is OpenConnections.Displaced:
      if let connection = connections.connection(of: context.channel), !connection.isIdle {
        connections.keep(connection)
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
    note(reason)
    context.close(promise: nil)
  }

  // MARK: Answers that nobody takes

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if context.channel.isWritable {
      watch?.cancel()
      watch = nil
      connection?.isStalled = false
    } else if watch == nil {
      let waiting = bytesWaiting(context)
      watchPeer(context, waiting: waiting, intervals: 0, atFirst: waiting)
    }
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if (error as? IOError)?.errnoCode == ETIMEDOUT { note(.untaken) }
    context.fireErrorCaught(error)
  }

  private func bytesWaiting(_ context: ChannelHandlerContext) -> Int {
    (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
  }

  /// - Parameter atFirst: bytes that were waiting before the last `intervals`.
  private func watchPeer(_ context: ChannelHandlerContext, waiting: Int, intervals: Int, atFirst: Int) {
    watch = context.eventLoop.assumeIsolated().scheduleTask(in: Self.watchInterval) {
      let left = self.bytesWaiting(context)
      self.connection?.isStalled = left >= waiting
      guard intervals + 1 == Self.slowestIntervals else {
        return self.watchPeer(context, waiting: left, intervals: intervals + 1, atFirst: atFirst)
      }
      guard left + Self.slowest <= atFirst else { return self.close(context, .untaken) }
      self.watchPeer(context, waiting: left, intervals: 0, atFirst: left)
    }
  }
}
