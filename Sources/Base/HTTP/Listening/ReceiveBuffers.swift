import Basics
import Foundation
import NIOCore
import Synchronization

/// The kernel's receive buffers of a listener's connections. What waits there is memory, too, and nobody can count it: so all of
/// them together have a limit, and each connection's is small. One that receives a large body gets a large one while there are
/// few of these, since the sender has to wait for the way there and back once for each buffer.
final class ReceiveBuffers: Sendable {
  /// In bytes as setsockopt(2) takes them. The kernel takes twice as many.
  private static let (smallest, largest, large) = (4 << 10, 32 << 10, 64 << 10)

  private struct State {
    /// The connections that have a large one, and of their sources nobody more than a quarter.
    var large: Set<ObjectIdentifier> = []
    var budget: SharedBudget<ClientAddress>
  }

  /// The size of each connection's.
  let size: Int
  private let state: Mutex<State>

  /// - Parameters:
  ///   - memory: bytes of all together; large ones take an eighth of it.
  ///   - connections: the most connections that there are.
  init(memory: Int, connections: Int) {
    size = min(max(memory / 8 * 7 / max(connections, 1) / 2, Self.smallest), Self.largest)
    let limit = max(4, memory / 8 / (2 * Self.large))
    state = Mutex(State(budget: SharedBudget(limit, most: limit / 4)))
  }

  /// Gives the connection a large buffer, until it is closed.
  ///
  /// - Returns: whether it has one; not if too many have, or those of its source are more than a quarter of these.
  func enlarge(_ connection: OpenConnection) -> Bool {
    let channel = connection.channel
    let id = ObjectIdentifier(channel)
    let isAllowed = state.withLock { state in
      guard !state.large.contains(id), state.budget.take(of: connection.source) else { return false }
      state.large.insert(id)
      return true
    }
    guard isAllowed else { return false }
    channel.closeFuture.whenComplete { _ in
      self.state.withLock { state in
        state.large.remove(id)
        state.budget.release(of: connection.source)
      }
    }
    let options = channel.syncOptions
    try? options?.setOption(.socketOption(.so_rcvbuf), value: Self.large)
    // The listening socket's small buffer has limited it.
    try? options?.setOption(.tcpOption(.init(rawValue: CInt(TCP_WINDOW_CLAMP))), value: Self.large)
    return true
  }
}
