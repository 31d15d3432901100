import Foundation
import NIOCore
import NIOPosix
import Testing

/// A connection on which a test sends what it likes and sees what comes.
struct RawConnection {
  private let channel: any Channel
  private let received: Received

  /// - Parameters:
  ///   - source: the address of this machine that it comes from.
  ///   - isRead: whether what the other end sends is taken.
  init(port: Int, from source: String? = nil, isRead: Bool = true) async throws {
    let received = Received()
    var bootstrap = ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .channelOption(.autoRead, value: isRead)
      .channelInitializer { $0.pipeline.addHandler(received) }
    if let source { bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: source, port: 0)) }
    channel = try await bootstrap.connect(host: "127.0.0.1", port: port).get()
    self.received = received
  }

  func send(_ text: String) async throws {
    try await channel.writeAndFlush(ByteBuffer(string: text))
  }

  /// Sends it as fast as the other end takes it, and waits for nothing.
  func begin(_ bytes: ByteBuffer) { channel.writeAndFlush(bytes, promise: nil) }

  /// What has come so far.
  var text: String {
    get async throws { try await channel.eventLoop.submit { [received] in received.text }.get() }
  }

  /// Everything that comes until the other end has closed.
  func rest() async throws -> String {
    try await channel.closeFuture.get()
    return try await text
  }

  var isOpen: Bool { channel.isActive }

  func close() async { try? await channel.close() }

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
