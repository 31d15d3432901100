import NIOCore
import NIOPosix
import Synchronization

/// A listening socket and the connections it has accepted.
final class Listener: Sendable {
  private let channel: any Channel
  private let connections: Connections

  private final class Connections: Sendable {
    let open = Mutex<[ObjectIdentifier: any Channel]>([:])
  }

  let port: Int

  private init(channel: any Channel, connections: Connections) {
    self.channel = channel
    self.connections = connections
    port = channel.localAddress?.port ?? 0
  }

  /// Binds; `accept` sets up each connection's pipeline.
  static func bind(
    host: String, port: Int, accept: @escaping @Sendable (any Channel) throws -> Void
  ) async throws -> Listener {
    let connections = Connections()
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.backlog, value: 1024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        let id = ObjectIdentifier(channel)
        connections.open.withLock { $0[id] = channel }
        channel.closeFuture.whenComplete { _ in connections.open.withLock { $0[id] = nil } }
        return channel.eventLoop.makeCompletedFuture { try accept(channel) }
      }
      .bind(host: host, port: port).get()
    return Listener(channel: channel, connections: connections)
  }

  /// Closes the socket and every connection, and returns when they are closed.
  func shutdown() async {
    try? await channel.close().get()
    for connection in connections.open.withLock({ Array($0.values) }) {
      try? await connection.close().get()
    }
  }
}
