import Foundation
import Logging
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import HTTPClient
@testable import Providers

@Suite("Connections")
struct InternetTests {
  @Test func `to another bouncer go by HTTP/1.1 where it speaks no other, and an answer is cut at its limit`()
    async throws
  {
    // More than one read takes from a connection.
    let page = String(repeating: "x", count: 4 * ProviderResponse.maximumBody)
    let server = try await TestWebServer.start { _ in .init(body: page) }
    let url = try #require(URL(string: "https://127.0.0.1:\(server.port)"))
    var configuration = PushProviders.Configuration(caFile: try TestCertificate.shared.get().caFile)
    configuration.upstream = .init(url: url) { _ in .init("Basic x", since: .distantPast) }
    let providers = try PushProviders(configuration: configuration)
    let upstream = try #require(providers.upstream)
    let answer = try await upstream.call(.init(get: "server/x"), of: .chatServer(1), within: .seconds(30))
    #expect(answer.status == 200)
    #expect(answer.body.readableBytes == ProviderResponse.maximumBody)
    #expect(server.requests.map(\.path) == ["/api/v1/remotes/server/x"])
    await providers.shutdown()
  }

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
