import NIOCore

/// Tells TLS from clear HTTP on one port by a connection's first byte: a TLS handshake record begins
/// with 0x16 (RFC 8446, section 5.1), which no HTTP method does.
final class FirstByteHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private let configure: (_ channel: any Channel, _ isTLS: Bool) throws -> Void

  init(configure: @escaping (any Channel, _ isTLS: Bool) throws -> Void) {
    self.configure = configure
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let bytes = unwrapInboundIn(data)
    guard let first = bytes.getInteger(at: bytes.readerIndex, as: UInt8.self) else { return }
    do {
      try configure(context.channel, first == 0x16)
      context.fireChannelRead(data)
      context.pipeline.syncOperations.removeHandler(self, promise: nil)
    } catch {
      context.close(promise: nil)
    }
  }
}
