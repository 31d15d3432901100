import Foundation
import Logging
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import Synchronization
import TestServers
import TestSupport
import Testing

@testable import HTTPClient

@Suite("HTTP/2 connections")
struct HTTP2PoolTests {
  /// A pool to the server; limits short enough for a test.
  static func pool(
    _ server: TestServer, limits: PoolLimits = .init(answerTimeout: .zero),
    connection: HTTP2ConnectionHandler.Limits = .init(),
    trusting caFile: String? = nil, proxy: Proxy? = nil, count: @escaping @Sendable (Int) -> Void = { _ in }
  ) throws -> HTTP2Pool {
    let tls = try Connector.tls(caFile: try caFile ?? TestCertificate.shared.get().caFile)
    let connector = Connector(
      host: "127.0.0.1", port: server.port, tls: tls, proxy: proxy, limits: connection)
    return HTTP2Pool(
      connector: connector, group: MultiThreadedEventLoopGroup.singleton, limits: limits,
      logger: Logger(label: "test"), connectionsChanged: count)
  }

  static func request(_ path: String, body: String = "{}") -> ProviderRequest {
    let headers: HPACKHeaders = [
      ":method": "POST", ":scheme": "https", ":authority": "localhost", ":path": path,
    ]
    return ProviderRequest(headers: headers, body: ByteBuffer(string: body))
  }

  /// Sends the requests, so many at a time, and counts what came of them.
  static func send(
    _ count: Int, at once: Int, over pool: HTTP2Pool, within seconds: Double = longestWait / .seconds(1)
  ) async -> [Result<Int, TransportFailure>: Int] {
    await withTaskGroup(of: Result<Int, TransportFailure>.self) { group in
      var endings: [Result<Int, TransportFailure>: Int] = [:]
      for number in 0..<count {
        if number >= once, let ending = await group.next() { endings[ending, default: 0] += 1 }
        group.addTask {
          await pool.status("/\(number)", within: seconds)
        }
      }
      for await ending in group { endings[ending, default: 0] += 1 }
      return endings
    }
  }

  @Test func `Requests share one connection and get their own answers`() async throws {
    let server = try await TestServer.start {
      [.answer(200, [("x", $0.path)], "body of \($0.path): \($0.body)")]
    }
    let pool = try Self.pool(server)
    await withTaskGroup { group in
      for number in 0..<200 {
        group.addTask {
          let ending = await pool.execute(
            Self.request("/\(number)", body: "\(number)"), deadline: .longest)
          guard case .success(let response) = ending else {
            Issue.record("\(ending)")
            return
          }
          #expect(response.status == 200)
          #expect(response.headers.first(name: "x") == "/\(number)")
          #expect(String(buffer: response.body) == "body of /\(number): \(number)")
        }
      }
    }
    #expect(server.connections == 1)
    await pool.shutdown(deadline: nil)
    await eventually { server.openConnections == 0 }
  }

  @Test func `No stream is opened before the peer's settings have come`() async throws {
    let server = try await TestServer.start(.init(streams: 3, delaySettings: .milliseconds(300))) { _ in
      [.after(.milliseconds(2), [.answer(200)])]
    }
    let pool = try Self.pool(server, limits: .init(connections: 1))
    #expect(await Self.send(50, at: 50, over: pool) == [.success(200): 50])
    #expect(server.mostStreams <= 3)
    #expect(server.mostStreams == 3)
  }

  @Test func `The first request goes alone where the peer allows one, the rest when it allows more`()
    async throws
  {
    let server = try await TestServer.start(.init(streams: 1)) { request in
      request.number == 1
        ? [.after(.milliseconds(100), [.announce(streams: 1000), .answer(200)])]
        : [.after(.milliseconds(50), [.answer(200)])]
    }
    let pool = try Self.pool(server)
    #expect(await Self.send(100, at: 100, over: pool) == [.success(200): 100])
    #expect(server.connections == 1)
    #expect(server.mostStreams > 50)
  }

  /// `FAULT_NOTIFICATIONS` sets how many there are.
  @Test func `Requests with a GOAWAY every 200 streams are taken once, or given back`() async throws {
    let count = ProcessInfo.processInfo.environment["FAULT_NOTIFICATIONS"].flatMap(Int.init) ?? 2000
    let server = try await TestServer.start { request in
      request.number == 200 ? [.goAwayHere, .answer(200)] : [.answer(200)]
    }
    let pool = try Self.pool(server)
    let endings = await Self.send(count, at: 300, over: pool)
    // Of thousands a few meet the end of eleven connections in a row: they are given back, to be sent again later.
    let refused = endings[.failure(.refused)] ?? 0
    #expect(endings[.success(200)] == count - refused)
    #expect(refused <= (count < 4000 ? 0 : count / 20))
    #expect(server.connections > count / 600)
    // All others were taken exactly once: those above a GOAWAY's last stream were not taken.
    #expect(server.requests.count == count - refused)
    #expect(Set(server.requests.map(\.path)).count == count - refused)
  }

  @Test func `A GOAWAY that only announces another lets what is under way end`() async throws {
    let server = try await TestServer.start { request in
      switch (request.connection, request.path) {
      case (1, "/last"):
        [.goAwayNotice, .after(.milliseconds(20), [.goAwayBelow, .after(.milliseconds(20), [.drop])])]
      case (1, _): []
      default: [.answer(200)]
      }
    }
    let pool = try Self.pool(server)
    async let first = Self.send(49, at: 49, over: pool)
    await eventually { server.requests.count == 49 }
    // It was certainly not taken, and goes out again; the others may have been.
    #expect(await pool.status("/last") == .success(200))
    #expect(await first == [.failure(.connectionLost): 49])
    #expect(server.requests.count == 51)
  }

  @Test func `A refused stream goes out again, for a number of times`() async throws {
    let server = try await TestServer.start { request in
      request.path == "/0" || request.number <= 100 ? [.reset(.refusedStream)] : [.answer(200)]
    }
    let pool = try Self.pool(server)
    #expect(await pool.status("/0") == .failure(.refused))
    #expect(server.requests.count == 11)
    #expect(await Self.send(60, at: 60, over: pool)[.success(200)] != nil)
  }

  @Test func `A thousand reset streams do not cost the connection`() async throws {
    let server = try await TestServer.start { $0.number <= 1000 ? [.reset(.internalError)] : [.answer(200)] }
    let pool = try Self.pool(server)
    let endings = await Self.send(1001, at: 1, over: pool)
    #expect(endings == [.failure(.streamReset): 1000, .success(200): 1])
    #expect(server.connections == 1)
  }

  @Test func `A dropped connection ends what was on it, and the next request has another`() async throws {
    let server = try await TestServer.start { $0.path == "/drop" ? [.drop] : [.answer(200)] }
    let pool = try Self.pool(server)
    #expect(await pool.status("/a") == .success(200))
    #expect(await pool.status("/drop") == .failure(.connectionLost))
    #expect(await pool.status("/b") == .success(200))
    #expect(server.connections == 2)
  }

  @Test func `A request that is never answered ends at its deadline and resets its stream`() async throws {
    let server = try await TestServer.start { $0.path == "/never" ? [] : [.answer(200)] }
    let pool = try Self.pool(server)
    let clock = ContinuousClock()
    let took = await clock.measure {
      #expect(await pool.status("/never", within: 0.3) == .failure(.unanswered))
    }
    #expect(took >= .milliseconds(300))
    await eventually { server.resets == 1 }
    #expect(await pool.status("/x") == .success(200))
    #expect(server.connections == 1)
  }

  @Test func `A request that is under way is left at its deadline, and its answer comes later`()
    async throws
  {
    let server = try await TestServer.start {
      [.after(.milliseconds($0.path == "/late" ? 1500 : 0), [.answer(200)])]
    }
    let pool = try Self.pool(server, limits: .init())
    #expect(await pool.status("/x") == .success(200))
    guard case .underWay(let answer) = await pool.send(Self.request("/late"), deadline: .seconds(0.2)) else {
      Issue.record("not left")
      return
    }
    #expect(await answer().map(\.status) == .success(200))
    // One that was cancelled likewise, and one that nobody will answer for as long as that is waited for.
    let cancelled = Task { await pool.send(Self.request("/late"), deadline: .longest) }
    await eventually { server.requests.count == 3 }
    cancelled.cancel()
    #expect(await cancelled.value.ending.map(\.status) == .success(200))
    #expect(server.resets == 0)
    #expect(server.connections == 1)
  }

  @Test func `What is left is given up when the longest time is over, or the pool's end has come`()
    async throws
  {
    let server = try await TestServer.start { _ in [] }
    let pool = try Self.pool(server, limits: .init(answerTimeout: .milliseconds(300)))
    guard case .underWay(let answer) = await pool.send(Self.request("/a"), deadline: .seconds(0.2)) else {
      Issue.record("not left")
      return
    }
    #expect(await answer().map(\.status) == .failure(.unanswered))
    await eventually { server.resets == 1 }
    let patient = try Self.pool(server, limits: .init())
    let attempt = await patient.send(Self.request("/b"), deadline: .seconds(0.2))
    async let ending = attempt.ending.map(\.status)
    await patient.shutdown(deadline: .seconds(0.2))
    #expect(await ending == .failure(.abandoned))
    await pool.shutdown(deadline: nil)
    await eventually { server.openConnections == 0 }
  }

  @Test func `A connection that answers nothing for long is replaced while what is on it goes on`()
    async throws
  {
    let server = try await TestServer.start {
      $0.connection == 1 ? [.after(.seconds(2), [.answer(200)])] : [.answer(200)]
    }
    var limits = HTTP2ConnectionHandler.Limits()
    limits.health = .init(stall: .milliseconds(500), tick: .milliseconds(50))
    let pool = try Self.pool(server, limits: .init(), connection: limits)
    let attempt = await pool.send(Self.request("/a"), deadline: .seconds(0.2))
    await eventually {
      await pool.send(Self.request("/b"), deadline: .seconds(5)).ending.map(\.status) == .success(200)
        && server.connections == 2
    }
    #expect(await attempt.ending.map(\.status) == .success(200))
    await eventually { server.openConnections == 1 }
  }

  @Test func `A later, shorter deadline is kept too`() async throws {
    let server = try await TestServer.start { _ in [] }
    let pool = try Self.pool(server)
    let long = Task { await pool.status("/long", within: longestWait / .seconds(1)) }
    await eventually { server.requests.count == 1 }
    #expect(await pool.status("/short", within: 0.1) == .failure(.unanswered))
    long.cancel()
    #expect(await long.value == .failure(.cancelled))
  }

  @Test func `A cancelled request ends at once and resets its stream`() async throws {
    let server = try await TestServer.start { _ in [] }
    let pool = try Self.pool(server)
    let task = Task { await pool.status("/never", within: longestWait / .seconds(1)) }
    await eventually { server.requests.count == 1 }
    task.cancel()
    #expect(await task.value == .failure(.cancelled))
    await eventually { server.resets == 1 }
  }

  @Test
  func `A request that waits for settings that never come ends at its deadline, and says what it waited for`()
    async throws
  {
    let server = try await TestServer.start(.init(delaySettings: .hours(1))) { _ in [.answer(200)] }
    var limits = HTTP2ConnectionHandler.Limits()
    limits.handshake = .milliseconds(1500)
    let pool = try Self.pool(server, connection: limits)
    #expect(await pool.status("/", within: 0.3) == .failure(.unconnected(.handshakeTimeout)))
    #expect(server.requests.isEmpty)
  }

  @Test
  func `A connection whose settings do not come is given up, and one that has had them has no such limit`()
    async throws
  {
    var limits = HTTP2ConnectionHandler.Limits()
    limits.handshake = .seconds(2)
    let silent = try await TestServer.start(.init(delaySettings: .hours(1))) { _ in [.answer(200)] }
    #expect(
      try await Self.pool(silent, connection: limits).status("/") == .failure(.unconnected(.handshakeTimeout))
    )
    #expect(silent.connections > 1)
    let server = try await TestServer.start { _ in [.answer(200)] }
    let pool = try Self.pool(server, connection: limits)
    let end = ContinuousClock.now + .seconds(3)
    while ContinuousClock.now < end { #expect(await pool.status("/") == .success(200)) }
    #expect(server.connections == 1)
  }

  @Test func `A proxy connects us through`() async throws {
    let server = try await TestServer.start { _ in [.answer(200)] }
    let tunnel = try await TestProxy.start()
    let proxy = try #require(
      URL(string: "http://us%40er:pass@127.0.0.1:\(tunnel.port)").flatMap { Proxy($0) })
    let pool = try Self.pool(server, proxy: proxy)
    #expect(await Self.send(20, at: 20, over: pool) == [.success(200): 20])
    #expect(
      tunnel.heads == [
        "CONNECT 127.0.0.1:\(server.port) HTTP/1.1\r\nHost: 127.0.0.1:\(server.port)\r\n"
          + "Proxy-Authorization: Basic \(Data("us@er:pass".utf8).base64EncodedString())\r\n\r\n"
      ])
  }

  @Test func `A server that greets with GOAWAY each time does not spin`() async throws {
    let server = try await TestServer.start(.init(greeting: [.goAwayNotice])) { _ in [.answer(200)] }
    let pool = try Self.pool(server)
    let ending = await pool.status("/")
    #expect(ending == .failure(.connectionLost) || ending == .failure(.refused))
    #expect(server.connections <= 4)
  }

  @Test func `A peer that went silent is found out by PING and replaced`() async throws {
    let connections = Atomic(0)
    let deaf = try await TestServer.start(.init(isDeaf: true)) { _ in [.answer(200)] }
    var limits = HTTP2ConnectionHandler.Limits()
    limits.health = .init(
      silence: .milliseconds(100), pingTimeout: .milliseconds(100), fairChance: .zero, tick: .milliseconds(20)
    )
    let pool = try Self.pool(deaf, connection: limits) { connections.add($0, ordering: .relaxed) }
    #expect(await pool.status("/") == .failure(.silent))
    await eventually { connections.load(ordering: .relaxed) == 0 }
  }

  @Test func `A connection that answers PINGs but no requests is replaced after some timeouts`() async throws
  {
    let server = try await TestServer.start { $0.connection == 1 ? [] : [.answer(200)] }
    var limits = HTTP2ConnectionHandler.Limits()
    limits.health = .init(timeouts: 3, fairChance: .zero)
    let pool = try Self.pool(server, connection: limits)
    for _ in 0..<3 {
      // Time enough to connect, be the machine as busy as it likes: what finds no connection has not timed out on one.
      #expect(await pool.status("/", within: 2) == .failure(.unanswered))
    }
    await eventually {
      await pool.status("/", within: 5) == .success(200)
    }
    await eventually { server.openConnections == 1 }
    #expect(server.connections == 2)
    #expect(server.pings > 0)
  }

  @Test func `A connection that was quiet is asked before it is used again`() async throws {
    let server = try await TestServer.start { _ in [.answer(200)] }
    let pool = try Self.pool(server, limits: .init(quiet: .zero))
    for _ in 0..<3 {
      #expect(await pool.status("/") == .success(200))
    }
    #expect(server.connections == 1)
    #expect(server.pings >= 2)
  }

  @Test func `A cut answer keeps its status, and says that it is cut`() async throws {
    let server = try await TestServer.start { request in
      request.path == "/whole" ? [.answer(503, [], "<html>")] : [.begin(503, "<html>"), .drop]
    }
    let pool = try Self.pool(server)
    for path in ["/whole", "/cut"] {
      let answer = try await pool.execute(Self.request(path), deadline: .longest).get()
      #expect((answer.status, String(buffer: answer.body)) == (503, "<html>"))
      #expect(answer.isCut == (path == "/cut"))
    }
  }

  @Test func `A body without end is cut`() async throws {
    let page = String(repeating: "x", count: 16_000)
    let server = try await TestServer.start { request in
      switch request.path {
      case "/endless": [.begin(500, page), .data(page), .data(page), .data(page), .data(page)]
      default: [.answer(200, [], page)]
      }
    }
    let pool = try Self.pool(server)
    // Many whole answers use up the connection's window several times over.
    #expect(await Self.send(50, at: 10, over: pool) == [.success(200): 50])
    let ending = await pool.execute(Self.request("/endless"), deadline: .longest)
    #expect(try ending.get().status == 500)
    #expect(try ending.get().isCut && ending.get().body.readableBytes <= ProviderResponse.maximumBody)
    await eventually { server.resets == 1 }
  }

  @Test func `Bodies larger than the peer's window arrive whole`() async throws {
    let server = try await TestServer.start { [.answer(200, [], "\($0.body.utf8.count)")] }
    let pool = try Self.pool(server)
    await withTaskGroup { group in
      for _ in 0..<100 {
        group.addTask {
          let body = String(repeating: "y", count: 5000)
          let ending = await pool.execute(Self.request("/", body: body), deadline: .longest)
          #expect((try? ending.get()).map { String(buffer: $0.body) } == "5000")
        }
      }
    }
  }

  @Test func `Shutting down lets what is under way end and refuses the rest`() async throws {
    let server = try await TestServer.start { _ in [.after(.milliseconds(200), [.answer(200)])] }
    let pool = try Self.pool(server)
    async let first = pool.status("/1")
    await eventually { server.requests.count == 1 }
    async let down: Void = pool.shutdown(deadline: nil)
    await eventually {
      await pool.status("/2") == .failure(.shuttingDown)
    }
    #expect(await first == .success(200))
    await down
    await eventually { server.openConnections == 0 }
  }
}

extension HTTP2Pool {
  /// The HTTP status of a request, or its failure.
  func status(_ path: String, within seconds: Double = longestWait / .seconds(1)) async -> Result<
    Int, TransportFailure
  > {
    await execute(HTTP2PoolTests.request(path), deadline: .seconds(seconds)).map(\.status)
  }

  /// Sends the request and waits for its ending.
  func execute(_ request: ProviderRequest, deadline: NIODeadline) async -> Result<
    ProviderResponse, TransportFailure
  > {
    await send(request, deadline: deadline).ending
  }
}

extension Awaited {
  /// How it ends, however long that takes.
  fileprivate var ending: Answer {
    get async {
      switch self {
      case .ended(let ending): ending
      case .underWay(let answer): await answer()
      }
    }
  }
}
