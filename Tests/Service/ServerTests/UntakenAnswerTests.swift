import Hummingbird
import NIOCore
import NIOEmbedded
import NIOPosix
import TestSupport
import Testing

@testable import HTTP
@testable import Server

/// Peers that do not take their answers.
@Suite struct UntakenAnswerTests {
  /// Runs a test while a listener answers everything without end, until nobody takes it.
  private func listening(
    _ test: @escaping @Sendable (_ port: Int, _ ended: Counter) async throws -> Void
  ) async throws {
    let ended = Counter()
    let router = Routes()
    router.endpoint("/", .get) { _, _ in
      Response(
        status: .ok,
        body: ResponseBody { writer in
          defer { ended.increment() }
          while true { try await writer.write(ByteBuffer(repeating: 0x61, count: 10_000)) }
        })
    }
    try await withListener(router, stallTimeout: .seconds(1)) { try await test($0, ended) }
  }

  @Test func `Who takes nothing of an answer is cut off`() async throws {
    try await listening { port, ended in
      let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
        .channelOption(.autoRead, value: false).connect(host: "127.0.0.1", port: port).get()
      try await channel.writeAndFlush(ByteBuffer(string: "GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
      await eventually("the end") { ended.value == 1 }
      channel.close(promise: nil)
    }
  }

  private struct Connection {
    let loop = EmbeddedEventLoop()
    let channel: EmbeddedChannel
    let connections = OpenConnections(
      .init(total: 10, perSource: 10), ConnectionMetrics(listener: "test"))

    init() throws {
      channel = EmbeddedChannel(handler: ConnectionGuard(connections), loop: loop)
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    }

    /// The number of bytes that wait for the peer.
    func wait(_ count: Int) {
      channel.write(ByteBuffer(repeating: 0, count: count), promise: nil)
      channel.isWritable = false
      channel.pipeline.fireChannelWritabilityChanged()
    }
  }

  @Test func `Who takes a byte now and then is cut off`() throws {
    let connection = try Connection()
    connection.wait(100_000)
    connection.loop.advanceTime(by: .seconds(29))
    #expect(connection.channel.isActive)
    connection.loop.advanceTime(by: .seconds(1))
    #expect(!connection.channel.isActive)
  }

  @Test func `Who has taken it has time again`() throws {
    let connection = try Connection()
    connection.wait(100_000)
    connection.loop.advanceTime(by: .seconds(29))
    connection.channel.flush()
    connection.channel.isWritable = true
    connection.channel.pipeline.fireChannelWritabilityChanged()
    connection.loop.advanceTime(by: .seconds(3600))
    #expect(connection.channel.isActive)
  }
}
