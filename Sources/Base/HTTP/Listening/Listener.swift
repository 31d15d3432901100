import Foundation
internal import HTTPClient
package import Hummingbird
import HummingbirdCore
package import Logging
package import NIOCore
import NIOHTTP1
import NIOPosix
package import NIOSSL
import ServiceLifecycle
import Synchronization

/// An HTTP listener that loses no request when it shuts down.
///
/// A chat server opens a connection for each notification and does not retry, so an accepted connection
/// counts as a request. Hummingbird's own `Server` closes connections without a request at shutdown and
/// cannot use a socket that is already open; its connections and their handlers are used unchanged.
package struct Listener<Responder: HTTPResponder>: Service where Responder.Context == WireContext {
  let responder: Responder
  let socket: ListeningSocket
  let tls: (@Sendable () -> NIOSSLContext)?
  let limits: OpenConnections.Limits
  /// How long a peer may read nothing of a waiting answer.
  let stallTimeout: Duration
  let metrics: ConnectionMetrics
  let logger: Logger
  let onRunning: @Sendable (any Channel) -> Void

  private let group = MultiThreadedEventLoopGroup.singleton
  private let date = HTTPDate()

  /// - Parameters:
  ///   - name: for the metrics.
  ///   - connections: limit of connections.
  ///   - perSource: limit for each source except `proxies`, which have many clients behind them.
  ///   - receiveMemory: bytes that may wait in the kernel to be read.
  ///   - onRunning: called once it listens.
  package init(
    name: String, responder: Responder, socket: ListeningSocket, tls: (@Sendable () -> NIOSSLContext)? = nil,
    connections: Int, perSource: Int, proxies: [ClientAddress.Network] = [], receiveMemory: Int = 1 << 20,
    stallTimeout: Duration = .seconds(15), logger: Logger,
    onRunning: @escaping @Sendable (any Channel) -> Void
  ) {
    self.responder = responder
    self.socket = socket
    self.tls = tls
    limits = .init(
      total: connections, perSource: perSource, proxies: proxies, receiveMemory: receiveMemory)
    self.stallTimeout = stallTimeout
    metrics = ConnectionMetrics(listener: name)
    self.logger = logger
    self.onRunning = onRunning
  }

  package func run() async throws {
    let connections = OpenConnections(limits, metrics)
    let http = HTTP1Channel(
      responder: { try await answer($0, $1, $2) },
      configuration: .init(
        additionalChannelHandlers: [RequestGate(timeout: .seconds(30))],
        // As much as other servers take, and little enough to buffer for each connection.
        httpDecoderConfiguration: .init(
          maxHeaderFieldSize: 16 << 10, maxHeaderListSize: 16 << 10, maxHeaderFieldCount: 200)))
    let connection = GuardedChannel(base: http, tls: tls, connections: connections)
    let descriptor = try socket.open()
    limit(descriptor, receiving: connections.buffers.size)
    let server = try await ServerBootstrap(group: group)
      .serverChannelInitializer { $0.pipeline.addHandler(OpenConnections.Counting(connections)) }
      .childChannelOption(.allowRemoteHalfClosure, value: true)
      // Limits the bytes that a connection reads ahead of its handler, and those that wait for the peer.
      .childChannelOption(
        .recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 64, initial: 2048, maximum: 16 << 10)
      )
      .childChannelOption(.maxMessagesPerRead, value: 1)
      .childChannelOption(.writeBufferWaterMark, value: .init(low: 4 << 10, high: 8 << 10))
      .bind(descriptor) { connection.setup(channel: $0, logger: logger) }
    onRunning(server.channel)
    try await withGracefulShutdownHandler {
      try await server.executeThenClose { accepted in
        await withDiscardingTaskGroup { tasks in
          do {
            for try await value in accepted {
              connections.markOpen(value.channel)
              tasks.addTask(executorPreference: EventLoopExecutor(value.channel.eventLoop)) {
                await connection.handle(value: value, logger: logger)
              }
            }
          } catch {
            logger.error("the listener failed", metadata: ["reason": "\(type(of: error))"])
          }
        }
      }
    } onGracefulShutdown: {
      connections.shutDown()
      Task { try await close(server.channel, descriptor, connections) }
    }
  }

  /// Limits the kernel's buffers of each connection, and how long it keeps a connection whose peer reads
  /// nothing. Connections inherit these from the listening socket.
  private func limit(_ descriptor: CInt, receiving size: Int) {
    let options: [(level: CInt, name: CInt, value: CInt)] = [
      (SOL_SOCKET, SO_RCVBUF, CInt(size)), (SOL_SOCKET, SO_SNDBUF, 64 << 10),
      (CInt(IPPROTO_TCP), TCP_NOTSENT_LOWAT, 4 << 10),
      (CInt(IPPROTO_TCP), TCP_USER_TIMEOUT, CInt(stallTimeout / .milliseconds(1))),
    ]
    for option in options {
      var value = option.value
      setsockopt(descriptor, option.level, option.name, &value, socklen_t(MemoryLayout<CInt>.size))
    }
  }

  /// Stops accepting connections. If the socket was passed to this process, connections that wait in the
  /// kernel are left to the next process; otherwise they are still accepted for up to a second.
  private func close(_ server: any Channel, _ descriptor: CInt, _ connections: OpenConnections) async throws {
    let end = ContinuousClock.now + .seconds(1)
    let hasTakenAll: @Sendable () -> Bool = {
      socket.isShared || ContinuousClock.now > end || !hasWaiting(descriptor)
    }
    var isClosed = false
    while !isClosed {
      while !hasTakenAll() { try await Task.sleep(for: .milliseconds(1)) }
      try await server.setOption(.autoRead, value: false).get()
      while connections.hasPendingAccepts { try await Task.sleep(for: .milliseconds(1)) }
      isClosed = try await server.eventLoop.submit {
        guard hasTakenAll() else { return false }
        server.close(promise: nil)
        return true
      }.get()
      if !isClosed { try await server.setOption(.autoRead, value: true).get() }
    }
  }

  /// Whether connections wait in the kernel to be accepted.
  private func hasWaiting(_ descriptor: CInt) -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&entry, 1, 0) > 0
  }

  @concurrent private func answer(
    _ request: Request, _ writer: consuming ResponseWriter, _ channel: any Channel
  ) async throws {
    var response: Response
    do {
      response = try await responder.respond(
        to: request, context: WireContext(source: .init(channel: channel, logger: logger)))
    } catch let error as HTTPParserError {
      // Hummingbird answers it, unless an answer has begun.
      throw error
    } catch {
      response = Response(status: .internalServerError)
    }
    response.headers[.date] = date.text()
    do {
      try await writer.write(response: response.head, body: response.body)
    } catch is HTTPParserError {
      throw BrokenAnswer()
    }
  }

  /// The request turned out to be malformed after its answer had begun.
  private struct BrokenAnswer: Error {}
}

package struct ListeningSocket: Sendable {
  let open: @Sendable () throws -> CInt
  /// Whether another process holds the socket open and accepts the connections that wait.
  let isShared: Bool

  package init(isShared: Bool, open: @escaping @Sendable () throws -> CInt) {
    self.open = open
    self.isShared = isShared
  }
}

/// Runs tasks on an event loop, so that a request is answered on the thread that reads its connection
/// (`Documentation/Decisions` 0023).
final class EventLoopExecutor: TaskExecutor {
  private let eventLoop: any EventLoop

  init(_ eventLoop: any EventLoop) {
    self.eventLoop = eventLoop
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    eventLoop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}

/// A connection behind its ``ConnectionGuard``, with TLS if there is a certificate: the one in use when the connection
/// is opened. (Hummingbird's own `TLSChannel` keeps its first certificate.)
private struct GuardedChannel: ServerChildChannel {
  let base: HTTP1Channel
  let tls: (@Sendable () -> NIOSSLContext)?
  let connections: OpenConnections

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
    channel.eventLoop.makeCompletedFuture {
      let pipeline = channel.pipeline.syncOperations
      try pipeline.addHandler(ConnectionGuard(connections))
      if let tls {
        let observer = KeyExchangeObserver(.server) { [metrics = connections.metrics] in metrics.count($0) }
        try pipeline.addHandlers([observer, NIOSSLServerHandler(context: tls())])
      }
    }.flatMap {
      base.setup(channel: channel, logger: logger)
    }.flatMapThrowing { value in
      let pipeline = channel.pipeline.syncOperations
      let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
      try pipeline.addHandler(HeadCheck(), position: .after(decoder))
      return value
    }
  }

  func handle(value: HTTP1Channel.Value, logger: Logger) async {
    await base.handle(value: value, logger: logger)
  }
}

/// The time in the format of the `Date` header (RFC 9110 5.6.7), formatted once a second.
final class HTTPDate: Sendable {
  private let last = Mutex<(second: time_t, text: String)>((-1, ""))

  func text() -> String {
    var second = time(nil)
    return last.withLock { last in
      if last.second != second {
        var parts = tm()
        gmtime_r(&second, &parts)
        // The C locale's names of days and months are those of the RFC.
        var buffer = [CChar](repeating: 0, count: 32)
        let length = strftime(&buffer, buffer.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        last = (second, String(decoding: buffer[..<length].map(UInt8.init(bitPattern:)), as: UTF8.self))
      }
      return last.text
    }
  }
}
