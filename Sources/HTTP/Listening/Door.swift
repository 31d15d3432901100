import Foundation
import NIOCore

/// Stands first at each connection, before TLS, which would take its time to close: lets nothing in that nobody reads,
/// and closes a connection whose peer does not take its answers.
///
/// The HTTP decoder keeps whatever follows a request that ends HTTP (CONNECT, an upgrade), and the white space of a
/// head without bound; TLS goes on reading while it closes.
final class Door: ChannelInboundHandler, ChannelOutboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundIn = ByteBuffer

  /// How many bytes may come without a part of a request coming of them: more than the longest head.
  static let mostSilent = 256 << 10

  /// How long a peer that was sent everything has to read it. If more of it has come by then, closing makes the kernel
  /// throw away what the peer has not taken.
  private static let farewell = TimeAmount.seconds(1)

  /// What a peer takes in this time at least while an answer waits for it: a slow phone takes a kilobyte a second. (One
  /// that takes nothing at all is cut off sooner, by the kernel.)
  private static let (slowest, slowestTime) = (8 << 10, 6)
  private static let watchInterval = TimeAmount.seconds(5)

  private let connections: OpenConnections
  private var connection: OpenConnection?
  private var context: ChannelHandlerContext?
  private var silent = 0
  /// Whether nothing more is read.
  private var isDeaf = false
  /// Whether the connection ends as soon as everything is sent.
  private var isLeaving = false
  private var farewell: Scheduled<Void>?
  private var watch: Scheduled<Void>?

  init(_ connections: OpenConnections) {
    self.connections = connections
  }

  /// A part of a request has come.
  func hear() { silent = 0 }

  /// Reads nothing more.
  func deafen() { isDeaf = true }

  /// Reads nothing more, and closes the connection when what was written is sent.
  func leave() { (isDeaf, isLeaving) = (true, true) }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    connection = connections.connection(of: context.channel)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    farewell?.cancel()
    watch?.cancel()
    self.context = nil
  }

  func read(context: ChannelHandlerContext) {
    if !isDeaf { context.read() }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    // What the kernel has is read at the end of a connection, too.
    guard !isDeaf else { return }
    silent += unwrapInboundIn(data).readableBytes
    guard silent <= Self.mostSilent else { return close(context, .senseless) }
    context.fireChannelRead(data)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case is OpenConnections.Displaced: makeRoom(context)
    case ChannelEvent.inputClosed where isLeaving: context.close(promise: nil)
    case ChannelEvent.outputClosed where isLeaving:
      context.fireUserInboundEventTriggered(event)
      farewell = context.eventLoop.assumeIsolated().scheduleTask(in: Self.farewell) {
        self.context?.close(promise: nil)
      }
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  private func makeRoom(_ context: ChannelHandlerContext) {
    if let connection = connections.connection(of: context.channel), !connection.isIdle {
      connections.keep(connection)
    } else {
      close(context, .displaced)
    }
  }

  private func close(_ context: ChannelHandlerContext, _ reason: ConnectionMetrics.Reason) {
    isDeaf = true
    connections.note(reason)
    context.close(promise: nil)
  }

  // MARK: Answers that nobody takes

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if context.channel.isWritable {
      watch?.cancel()
      watch = nil
      connection?.isStalled = false
    } else if watch == nil {
      look(context, waiting: waiting(context), since: 0, atFirst: waiting(context))
    }
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if (error as? IOError)?.errnoCode == ETIMEDOUT { connections.note(.untaken) }
    context.fireErrorCaught(error)
  }

  private func waiting(_ context: ChannelHandlerContext) -> Int {
    (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
  }

  /// Looks from time to time how much the peer has taken.
  ///
  /// - Parameters:
  ///   - waiting: bytes that wait for it now.
  ///   - since: how often this was done since `atFirst` waited.
  private func look(_ context: ChannelHandlerContext, waiting: Int, since: Int, atFirst: Int) {
    watch = context.eventLoop.assumeIsolated().scheduleTask(in: Self.watchInterval) {
      let left = self.waiting(context)
      self.connection?.isStalled = left >= waiting
      guard since + 1 == Self.slowestTime else {
        return self.look(context, waiting: left, since: since + 1, atFirst: atFirst)
      }
      guard left + Self.slowest <= atFirst else { return self.close(context, .untaken) }
      self.look(context, waiting: left, since: 0, atFirst: left)
    }
  }
}
