import NIOCore

/// Limits what a peer may send before the head of its answer: informational answers (1xx), which NIO's decoder may drop unseen,
/// could go on for ever. Stands before the decoder. The handler behind the decoder says what it sees.
final class HeadAllowance: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  /// The peer has sent too much, and no answer.
  struct Exceeded: Error {}

  /// In bytes: more than the longest head.
  private static let limit = 1 << 17

  /// What came without a head since the request; nil once the head is there.
  private var bytes: Int? = 0

  func requestBegan() { bytes = 0 }

  func headArrived() { bytes = nil }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if let bytes {
      guard bytes <= Self.limit else { return context.fireErrorCaught(Exceeded()) }
      self.bytes = bytes + unwrapInboundIn(data).readableBytes
    }
    context.fireChannelRead(data)
  }
}
