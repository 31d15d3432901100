package import NIOCore
import NIOPosix

/// A connection on which a test sends what it likes and sees what comes.
package struct RawConnection {
  private let channel: any Channel
  private let received: Received

  /// - Parameters:
  ///   - source: the address of this machine that it comes from.
  ///   - isRead: whether what the other end sends is taken.
  package init(port: Int, from source: String? = nil, isRead: Bool = true) async throws {
    let received = Received()
    var bootstrap = ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .channelOption(.autoRead, value: isRead)
      .channelInitializer { $0.pipeline.addHandler(received) }
    if let source { bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: source, port: 0)) }
    channel = try await bootstrap.connect(host: "127.0.0.1", port: port).get()
    self.received = received
  }

  /// Sends these texts one after the other, and gives back all that comes until the other end closes.
  ///
  /// - Parameter closingHalf: whether it says that nothing more follows.
  package static func exchange(_ texts: [String], port: Int, closingHalf: Bool = false) async throws -> String
  {
    let connection = try await RawConnection(port: port)
    for text in texts { try await connection.send(text) }
    if closingHalf { try await connection.channel.close(mode: .output) }
    return try await connection.rest()
  }

  package func send(_ text: String) async throws {
    try await channel.writeAndFlush(ByteBuffer(string: text))
  }

  /// Sends it as fast as the other end takes it, and waits for nothing.
  package func begin(_ bytes: ByteBuffer) { channel.writeAndFlush(bytes, promise: nil) }

  /// What has come so far.
  package var text: String {
    get async throws { try await channel.eventLoop.submit { [received] in received.text }.get() }
  }

  /// Everything that comes until the other end has closed.
  package func rest() async throws -> String {
    try await channel.closeFuture.get()
    return try await text
  }

  package var isOpen: Bool { channel.isActive }

  package func close() async { try? await channel.close() }

  /// Touched by the channel's loop only.
  private final class Received: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer

    var text = ""

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      text += String(buffer: unwrapInboundIn(data))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      text += "\n\(error)"
      context.close(promise: nil)
    }
  }
}
