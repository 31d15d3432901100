import Hummingbird
import NIOCore
import ServiceLifecycle
import TestService

@testable import HTTP
@testable import Server

/// Runs `body` with the port of a listener that answers by these routes, and then shuts it down.
func withListener<Result: Sendable>(
  _ routes: Routes, stallTimeout: Duration = .seconds(15), _ body: (_ port: Int) async throws -> Result
) async throws -> Result {
  let ports = AsyncStream.makeStream(of: Int.self)
  let listener = Listener(
    name: "test", responder: routes.buildResponder(),
    socket: ListenerAddress(host: "127.0.0.1", port: 0, keys: (nil, "http.port")).socket,
    connections: 100, perSource: 100, stallTimeout: stallTimeout, logger: .quiet
  ) { ports.continuation.yield($0.localAddress?.port ?? 0) }
  let group = ServiceGroup(configuration: .init(services: [listener], logger: .quiet))
  return try await withThrowingTaskGroup(of: Void.self) { tasks in
    tasks.addTask { try await group.run() }
    guard let port = await ports.stream.first(where: { _ in true }) else { throw CancellationError() }
    let result = try await body(port)
    await group.triggerGracefulShutdown()
    try await tasks.waitForAll()
    return result
  }
}
