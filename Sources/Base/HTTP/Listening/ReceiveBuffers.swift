import Foundation
import NIOCore
import Synchronization

/// The kernel's receive buffers of a listener's connections. What waits there is memory, too, and nobody can count it: so all of
/// them together have a limit, and each connection's is small. One that receives a large body gets a large one while there are
/// few of these, since the sender has to wait for the way there and back once for each buffer.
final class ReceiveBuffers: Sendable {
  /// In bytes as setsockopt(2) takes them. The kernel takes twice as many.
  private static let (smallest, largest, large) = (4 << 10, 32 << 10, 64 << 10)

  /// The size of each connection's.
  let size: Int
  /// How many connections may have a large one.
  private let limit: Int
  /// The sources of connections that have one; nil for a reverse proxy.
  private let sources = Mutex<[ObjectIdentifier: ClientAddress?]>([:])

  /// - Parameters:
  ///   - memory: bytes of all together; large ones take an eighth of it.
  ///   - connections: the most connections that there are.
  init(memory: Int, connections: Int) {
    size = min(max(memory / 8 * 7 / max(connections, 1) / 2, Self.smallest), Self.largest)
    limit = max(4, memory / 8 / (2 * Self.large))
  }

  /// Gives the connection a large buffer, until it is closed.
  ///
  /// - Returns: whether it has one; not if too many have, or those of its source are more than a quarter of these.
  func enlarge(_ connection: OpenConnection) -> Bool {
    let channel = connection.channel
    let id = ObjectIdentifier(channel)
    let isAllowed = sources.withLock { sources in
      let own = sources.values.count { $0 == connection.source }
      guard sources.count < limit, connection.source == nil || own < limit / 4, sources[id] == nil else {
        return false
      }
      sources[id] = .some(connection.source)
      return true
    }
    guard isAllowed else { return false }
    channel.closeFuture.whenComplete { _ in self.sources.withLock { _ = $0.removeValue(forKey: id) } }
    let options = channel.syncOptions
    try? options?.setOption(.socketOption(.so_rcvbuf), value: Self.large)
    // The listening socket's small buffer has limited it.
    try? options?.setOption(.tcpOption(.init(rawValue: CInt(TCP_WINDOW_CLAMP))), value: Self.large)
    return true
  }
}
