package import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
package import TestSupport

/// A local port that answers as the test says, even in violation of the protocol.
package final class TestListener: Sendable {
  private struct State {
    var connections = 0
    var open: [ObjectIdentifier: any Channel] = [:]
  }

  package let port: Int
  private let channel: any Channel
  private let state: Shared<State>

  /// - Parameters:
  ///   - certificate: nil in clear.
  ///   - protocols: what is agreed on with clients over TLS.
  ///   - addHandlers: told which connection it is, from 1.
  package static func start(
    address: String = "127.0.0.1", certificate: TestCertificate?, protocols: [String] = [],
    addHandlers: @escaping @Sendable (ChannelPipeline.SynchronousOperations, Int) throws -> Void
  ) async throws -> TestListener {
    var configuration = certificate?.configuration
    configuration?.applicationProtocols = protocols
    let tls = try configuration.map { try NIOSSLContext(configuration: $0) }
    let state = Shared(State())
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelInitializer { channel in
        let connection = state.withLock { state in
          state.connections += 1
          state.open[ObjectIdentifier(channel)] = channel
          return state.connections
        }
        channel.closeFuture.whenComplete { _ in
          state.withLock { state in _ = state.open.removeValue(forKey: ObjectIdentifier(channel)) }
        }
        return channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls)) }
          try addHandlers(pipeline, connection)
        }
      }
      .bind(host: address, port: 0).get()
    return TestListener(channel, state)
  }

  private init(_ channel: any Channel, _ state: Shared<State>) {
    self.channel = channel
    self.state = state
    port = channel.localAddress?.port ?? 0
  }

  package var connections: Int { state.withLock { $0.connections } }
  package var openConnections: Int { state.withLock { $0.open.count } }

  package func stop() async throws {
    try await channel.close()
    for channel in state.withLock({ Array($0.open.values) }) { channel.close(promise: nil) }
  }

  deinit {
    channel.close(promise: nil)
    for channel in state.withLock({ Array($0.open.values) }) { channel.close(promise: nil) }
  }
}

/// What the connections of a server write and its test reads.
package final class Shared<Value: Sendable>: Sendable {
  private let value: Mutex<Value>

  package init(_ value: Value) { self.value = Mutex(value) }

  package func withLock<Result: Sendable>(_ body: (inout Value) -> Result) -> Result {
    value.withLock { body(&$0) }
  }
}

/// A server behind such a port.
package protocol TestListening: Sendable {
  var listener: TestListener { get }
}

extension TestListening {
  package var port: Int { listener.port }
  package var connections: Int { listener.connections }
  package var openConnections: Int { listener.openConnections }
  package func stop() async throws { try await listener.stop() }
}
