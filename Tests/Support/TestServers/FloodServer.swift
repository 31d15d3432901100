import NIOCore
package import TestSupport

/// A server over TLS that answers each client with a first text, and then sends bytes as fast as they are
/// read, whatever the client does.
package struct FloodServer: TestListening {
  /// What it says.
  package struct Speech: Sendable {
    /// Sent once, after the first bytes of a request.
    var opening: [UInt8]
    /// Sent repeatedly after that.
    var refrain: [UInt8]
    /// The number of bytes after which it stops.
    var limit: Int
    /// What it agrees to speak; nothing: whatever a client without an agreement takes it for.
    var protocols: [String]

    package init(
      _ opening: some Sequence<UInt8>, then refrain: some Sequence<UInt8>, limit: Int = 64 << 20,
      protocols: [String] = []
    ) {
      self.opening = Array(opening)
      self.limit = limit
      self.protocols = protocols
      let refrain = Array(refrain)
      self.refrain = Array(repeatElement(refrain, count: max(1, 65_536 / refrain.count)).joined())
    }
  }

  package let listener: TestListener
  private let log: Shared<Int>

  package static func start(certificate: TestCertificate, _ speech: Speech) async throws -> FloodServer {
    let log = Shared(0)
    let listener = try await TestListener.start(certificate: certificate, protocols: speech.protocols) {
      pipeline, _ in try pipeline.addHandler(Handler(speech: speech, log: log))
    }
    return FloodServer(listener: listener, log: log)
  }

  /// Bytes that were handed to the network.
  package var written: Int { log.withLock { $0 } }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let speech: Speech
    private let log: Shared<Int>
    private var hasBegun = false
    private var rest: Int

    init(speech: Speech, log: Shared<Int>) {
      self.speech = speech
      self.log = log
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
        self.log.withLock { $0 += part.readableBytes }
        // Not at once: it may have been written before anybody asked.
        context.eventLoop.assumeIsolated().execute { self.pour(context, part) }
      }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {}
  }
}
