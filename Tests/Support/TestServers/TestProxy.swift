import NIOCore
import NIOPosix

/// An HTTP proxy that knows CONNECT only, and remembers what it was asked.
package struct TestProxy: TestListening {
  package let listener: TestListener
  fileprivate let log: Shared<[String]>

  package var heads: [String] { log.withLock { $0 } }

  /// - Parameter status: with 200 it connects through.
  package static func start(status: Int = 200, address: String = "127.0.0.1") async throws -> TestProxy {
    let log = Shared<[String]>([])
    let listener = try await TestListener.start(address: address, certificate: nil) { pipeline, _ in
      try pipeline.addHandler(TestProxyHandler(log: log, status: status))
    }
    return TestProxy(listener: listener, log: log)
  }
}

private final class TestProxyHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let log: Shared<[String]>
  private let status: Int
  private var head = ""
  private var target: (any Channel)?

  init(log: Shared<[String]>, status: Int) {
    self.log = log
    self.status = status
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let data = unwrapInboundIn(data)
    if let target {
      target.writeAndFlush(data, promise: nil)
      return
    }
    head += String(buffer: data)
    guard head.hasSuffix("\r\n\r\n") else { return }
    log.withLock { $0.append(head) }
    guard status == 200,
      let port = head.split(separator: " ")[1].split(separator: ":").last.flatMap({ Int($0) })
    else {
      context.writeAndFlush(
        wrapOutboundOut(ByteBuffer(string: "HTTP/1.1 \(status) No\r\n\r\n")), promise: nil)
      return
    }
    let client = context.channel
    ClientBootstrap(group: context.eventLoop)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(Back(to: client))
        }
      }
      .connect(host: "127.0.0.1", port: port).assumeIsolated()
      .whenSuccess { channel in
        self.target = channel
        // In two parts: a head need not come in one piece.
        client.writeAndFlush(ByteBuffer(string: "HTTP/1.1 200 Connection est"), promise: nil)
        client.writeAndFlush(ByteBuffer(string: "ablished\r\nVia: test\r\n\r\n"), promise: nil)
      }
  }

  func channelInactive(context: ChannelHandlerContext) { target?.close(promise: nil) }

  private final class Back: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let client: any Channel

    init(to client: any Channel) {
      self.client = client
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      client.writeAndFlush(unwrapInboundIn(data), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { client.close(promise: nil) }
  }
}
