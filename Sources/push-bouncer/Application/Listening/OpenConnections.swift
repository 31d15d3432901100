import NIOCore
import Synchronization

/// The connections of a listener, which all have to hear that it ends: those that are just coming in, too.
final class OpenConnections: Sendable {
  private struct State {
    var isEnding = false
    /// Taken from the kernel, and on their way through the event loops to whoever answers.
    var coming: Set<ObjectIdentifier> = []
    var open: [ObjectIdentifier: any Channel] = [:]
  }

  private let state = Mutex(State())

  /// Whether a connection is on its way that would be lost if the listener's channel were closed now.
  var areComing: Bool { state.withLock { !$0.coming.isEmpty } }

  /// A connection has been taken from the kernel.
  func take(_ channel: any Channel) {
    let id = ObjectIdentifier(channel)
    state.withLock { _ = $0.coming.insert(id) }
    channel.closeFuture.whenComplete { _ in
      self.state.withLock { state in
        state.coming.remove(id)
        state.open[id] = nil
      }
    }
  }

  /// A connection's handlers are in place, and there is somebody to answer.
  func open(_ channel: any Channel) {
    let id = ObjectIdentifier(channel)
    let isEnding = state.withLock { state in
      // Otherwise it is closed already.
      if state.coming.remove(id) != nil { state.open[id] = channel }
      return state.isEnding
    }
    if isEnding { Self.tell(channel) }
  }

  /// Tells all that are there, and all that come, to end with the next answer.
  func end() {
    let channels = state.withLock { state in
      state.isEnding = true
      return Array(state.open.values)
    }
    for channel in channels { Self.tell(channel) }
  }

  private static func tell(_ channel: any Channel) {
    channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
  }

  /// Counts a listener's connections in.
  final class Counting: ChannelInboundHandler, Sendable {
    typealias InboundIn = any Channel

    private let connections: OpenConnections

    init(_ connections: OpenConnections) {
      self.connections = connections
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      connections.take(unwrapInboundIn(data))
      context.fireChannelRead(data)
    }
  }
}
