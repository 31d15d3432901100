package import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// A server over TLS that says something to whoever asks, and then pours bytes as fast as they are read, whatever the
/// other side does.
package final class FloodServer: Sendable {
  /// What it says.
  package struct Speech: Sendable {
    /// Once, when the first bytes of a request have come.
    package var opening: [UInt8]
    /// Again and again after that.
    package var refrain: [UInt8]
    /// It ends after so many bytes.
    package var limit: Int
    /// What it agrees to speak; nothing: whatever a client without an agreement takes it for.
    package var protocols: [String]

    package init(
      _ opening: some Sequence<UInt8>, then refrain: some Sequence<UInt8>, limit: Int = 64 << 20,
      protocols: [String] = []
    ) {
      (self.opening, self.limit, self.protocols) = (Array(opening), limit, protocols)
      let refrain = Array(refrain)
      self.refrain = Array(repeatElement(refrain, count: max(1, 65_536 / refrain.count)).joined())
    }
  }

  final class Log: Sendable {
    let written = Mutex(0)
    let isOpen = Mutex(0)
  }

  package let port: Int
  private let channel: any Channel
  private let log: Log

  package static func start(certificate: TestCertificate, _ speech: Speech) async throws -> FloodServer {
    let log = Log()
    var configuration = certificate.configuration
    configuration.applicationProtocols = speech.protocols
    let tls = try NIOSSLContext(configuration: configuration)
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelInitializer { channel in
        log.isOpen.withLock { $0 += 1 }
        channel.closeFuture.whenComplete { _ in log.isOpen.withLock { $0 -= 1 } }
        return channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandlers([
            NIOSSLServerHandler(context: tls), Handler(speech: speech, log: log),
          ])
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    return FloodServer(channel, log)
  }

  private init(_ channel: any Channel, _ log: Log) {
    (self.channel, self.log) = (channel, log)
    port = channel.localAddress?.port ?? 0
  }

  /// Bytes that were handed to the network.
  package var written: Int { log.written.withLock { $0 } }
  package var openConnections: Int { log.isOpen.withLock { $0 } }

  package func stop() async throws { try await channel.close() }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let speech: Speech
    private let log: Log
    private var hasBegun = false
    private var rest: Int

    init(speech: Speech, log: Log) {
      (self.speech, self.log) = (speech, log)
      rest = speech.limit
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      guard !hasBegun else { return }
      hasBegun = true
      context.write(wrapOutboundOut(ByteBuffer(bytes: speech.opening)), promise: nil)
      pour(context, ByteBuffer(bytes: speech.refrain))
    }

    private func pour(_ context: ChannelHandlerContext, _ part: ByteBuffer) {
      guard rest > 0 else { return }
      rest -= part.readableBytes
      context.writeAndFlush(wrapOutboundOut(part)).assumeIsolated().whenSuccess {
        self.log.written.withLock { $0 += part.readableBytes }
        // Not at once: it may have been written before anybody asked.
        context.eventLoop.assumeIsolated().execute { self.pour(context, part) }
      }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {}
  }
}
