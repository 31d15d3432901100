import Logging
import NIOCore
import NIOPosix
import Synchronization
import TestServers
import TestSupport
import Testing

@testable import HTTPClient

@Suite("Connections")
struct ConnectionWorkTests {
  /// Counts what an event loop does.
  private final class Work: NIOEventLoopMetricsDelegate {
    let tasks = Atomic(0)

    func processedTick(info: NIOEventLoopTickInfo) { tasks.add(info.numberOfTasks, ordering: .relaxed) }
  }

  @Test func `are looked at as often as they are to be, however many requests go over them`() async throws {
    let server = try await TestServer.start { $0.path == "/never" ? [] : [.answer(200)] }
    var limits = HTTP2ConnectionHandler.Limits()
    limits.health.tick = .milliseconds(10)
    let work = Work()
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1, metricsDelegate: work)
    let pool = HTTP2Pool(
      connector: Connector(
        host: "127.0.0.1", port: server.port,
        tls: try Connector.tls(caFile: try TestCertificate.shared.get().caFile), limits: limits),
      group: group, limits: .init(answerTimeout: .zero), logger: .init(label: "test"))
    // With this one under way the connection is looked at all the time.
    let never = Task { await pool.status("/never", within: 60) }
    await eventually { server.requests.count == 1 }
    #expect(await HTTP2PoolTests.send(300, at: 1, over: pool) == [.success(200): 300])
    let (before, start) = (work.tasks.load(ordering: .relaxed), ContinuousClock.now)
    try await Task.sleep(for: .milliseconds(100))
    let looks = Int((ContinuousClock.now - start) / limits.health.tick.duration)
    #expect(work.tasks.load(ordering: .relaxed) - before < 100 + 2 * looks)
    never.cancel()
    #expect(await never.value == .failure(.cancelled))
    await pool.shutdown(deadline: nil)
    try await group.shutdownGracefully()
  }
}

extension TimeAmount {
  fileprivate var duration: Duration { .nanoseconds(nanoseconds) }
}
