package import Hummingbird
package import HummingbirdCore
import Logging
import ServiceLifecycle

/// Runs a test while a server of other people's listens, and lets that one end as it should: a
/// connection that is just coming in when its server is cancelled is a fatal error in NIO.
package func listening(
  _ router: Router<BasicRequestContext>, over server: HTTPServerBuilder = .http1(),
  _ test: @escaping @Sendable (_ port: Int) async throws -> Void
) async throws {
  var logger = Logger(label: "others")
  logger.logLevel = .critical
  let (ports, port) = AsyncStream.makeStream(of: Int.self)
  let application = Application(
    router: router, server: server, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
    onServerRunning: { channel in port.yield(channel.localAddress?.port ?? 0) }, logger: logger)
  let group = ServiceGroup(configuration: .init(services: [application], logger: logger))
  try await withThrowingTaskGroup(of: Void.self) { tasks in
    tasks.addTask { try await group.run() }
    var result = Result<Void, any Error>.success(())
    for await port in ports {
      do { try await test(port) } catch { result = .failure(error) }
      break
    }
    await group.triggerGracefulShutdown()
    try await tasks.waitForAll()
    try result.get()
  }
}
