import Basics
import NIOCore
import NIOEmbedded
import Testing

@testable import HTTP
@testable import Server

/// Whose connections are taken, turned away, or closed for others.
@Suite struct OpenConnectionsTests {
  private struct Listener {
    let connections: OpenConnections
    let channel: EmbeddedChannel

    init(total: Int, perSource: Int = 256, proxy: String? = nil) throws {
      connections = OpenConnections(
        .init(
          total: total, perSource: perSource,
          proxies: proxy.flatMap { ClientAddress.Network($0) }.map { [$0] } ?? []),
        ConnectionMetrics(listener: "test"))
      channel = EmbeddedChannel(handler: OpenConnections.Counting(connections))
    }

    /// A connection from there, in place and waiting for its request if it was taken.
    @discardableResult
    func connect(_ address: String) throws -> Peer {
      let peer = Peer(EmbeddedChannel(handler: ConnectionGuard(connections)))
      peer.channel.remoteAddress = try SocketAddress(ipAddress: address, port: 1000)
      try peer.channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
      peer.channel.remoteAddress = try SocketAddress(ipAddress: address, port: 1000)
      try channel.writeInbound(peer.channel as any Channel)
      if peer.isOpen { connections.markOpen(peer.channel) }
      return peer
    }

    func answer(_ peer: Peer, _ isAnswering: Bool = true) {
      connections.connection(of: peer.channel)?.isAnswering = isAnswering
    }
  }

  private struct Peer {
    let channel: EmbeddedChannel

    init(_ channel: EmbeddedChannel) { self.channel = channel }

    var isOpen: Bool {
      channel.embeddedEventLoop.run()
      return channel.isActive
    }

    func close() throws {
      try channel.close().wait()
      channel.embeddedEventLoop.run()
    }
  }

  @Test func `No source has more than its share`() throws {
    let listener = try Listener(total: 100, perSource: 2)
    let first = try listener.connect("10.0.0.1")
    #expect(try listener.connect("10.0.0.1").isOpen)
    #expect(!(try listener.connect("10.0.0.1").isOpen))
    #expect(!(try listener.connect("::ffff:10.0.0.1").isOpen))
    #expect(try listener.connect("10.0.0.2").isOpen)
    try first.close()
    #expect(try listener.connect("10.0.0.1").isOpen)
  }

  @Test func `A network of IPv6 is one source`() throws {
    let listener = try Listener(total: 100, perSource: 1)
    try listener.connect("2001:db8:0:1::1")
    #expect(!(try listener.connect("2001:db8:0:1:ffff::2").isOpen))
    #expect(try listener.connect("2001:db8:0:2::1").isOpen)
  }

  @Test func `Behind a proxy are many`() throws {
    let listener = try Listener(total: 20, perSource: 1, proxy: "10.0.0.0/31")
    for _ in 0..<20 { #expect(try listener.connect("10.0.0.1").isOpen) }
    // There is no room, and nothing of a proxy's is closed for others.
    #expect(!(try listener.connect("10.0.0.2").isOpen))
  }

  @Test func `Who has most makes room with the oldest`() throws {
    let listener = try Listener(total: 20)
    let modest = try listener.connect("10.0.0.2")
    let many = try (0..<19).map { _ in try listener.connect("10.0.0.1") }
    #expect(try listener.connect("10.0.0.3").isOpen)
    #expect(!many[0].isOpen && many[1...].allSatisfy { $0.isOpen } && modest.isOpen)
    #expect(!(try listener.connect("10.0.0.1").isOpen))
    #expect(many[1...].allSatisfy { $0.isOpen })
  }

  @Test func `Where nobody has many the oldest makes room`() throws {
    let listener = try Listener(total: 20)
    let peers = try (1...20).map { try listener.connect("10.0.0.\($0)") }
    #expect(try listener.connect("10.0.0.20").isOpen)
    #expect(!peers[0].isOpen && peers[1...].allSatisfy { $0.isOpen })
    try peers[1].close()
    #expect(try listener.connect("10.0.0.99").isOpen)
    #expect(peers[2...].allSatisfy { $0.isOpen })
  }

  @Test func `What is being answered stays`() throws {
    let listener = try Listener(total: 20)
    let peers = try (0..<20).map { _ in try listener.connect("10.0.0.1") }
    for peer in peers[..<19] { listener.answer(peer) }
    #expect(try listener.connect("10.0.0.2").isOpen)
    #expect(!peers[19].isOpen)
    #expect(!(try listener.connect("10.0.0.3").isOpen))
    #expect(peers[..<19].allSatisfy { $0.isOpen })
    listener.answer(peers[3], false)
    #expect(try listener.connect("10.0.0.3").isOpen)
    #expect(!peers[3].isOpen)
  }

  @Test func `Who does not take an answer makes room first`() throws {
    let listener = try Listener(total: 20)
    let modest = try listener.connect("10.0.0.2")
    let many = try (0..<19).map { _ in try listener.connect("10.0.0.1") }
    for peer in many + [modest] { listener.answer(peer) }
    #expect(!(try listener.connect("10.0.0.3").isOpen))
    listener.connections.connection(of: modest.channel)?.isStalled = true
    #expect(try listener.connect("10.0.0.3").isOpen)
    #expect(!modest.isOpen && many.allSatisfy { $0.isOpen })
  }

  /// What has come before the event that tells a connection to make room.
  private final class Arriving: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    let request: () -> Void

    init(_ request: @escaping () -> Void) { self.request = request }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      request()
      context.fireUserInboundEventTriggered(event)
    }
  }

  @Test func `A request that comes just then is answered`() throws {
    let listener = try Listener(total: 2)
    let peers = try (0..<2).map { _ in try listener.connect("10.0.0.1") }
    try peers[0].channel.pipeline.syncOperations.addHandler(
      Arriving { listener.answer(peers[0]) }, position: .first)
    #expect(try listener.connect("10.0.0.2").isOpen)
    #expect(peers[0].isOpen && peers[1].isOpen)
  }
}
