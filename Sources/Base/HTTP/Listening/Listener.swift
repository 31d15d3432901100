package import Basics
import Foundation
import HTTPClient
import Hummingbird
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
/// cannot use a socket that is already open. Its connections pass each part of a request, and of an answer, through queues
/// between threads, which takes a tenth of a push; here a request is one step on its event loop (``HTTPConnection``).
package struct Listener: Service {
  let responder: RoutesResponder
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
    name: String, responder: RoutesResponder, socket: ListeningSocket,
    tls: (@Sendable () -> NIOSSLContext)? = nil,
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
    let handlers = ConnectionHandlers(tls: tls, connections: connections, date: date)
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
      .bind(descriptor) { handlers.add(to: $0) }
    onRunning(server.channel)
    try await withGracefulShutdownHandler {
      try await server.executeThenClose { accepted in
        await withDiscardingTaskGroup { tasks in
          do {
            for try await (channel, connection) in accepted {
              connections.markOpen(channel)
              tasks.addTask(executorPreference: EventLoopExecutor(channel.eventLoop)) {
                await serve(connection, on: channel)
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

  /// Answers the requests of a connection until it ends.
  private func serve(_ connection: NIOLoopBound<HTTPConnection>, on channel: any Channel) async {
    await withTaskCancellationHandler {
      do {
        try await answerAll(of: connection, on: channel)
        // The peer may still read what was sent.
        channel.close(mode: .output, promise: nil)
      } catch {
        logger.trace("connection failed", metadata: ["error": "\(error)"])
        channel.close(promise: nil)
      }
      try? await channel.closeFuture.get()
    } onCancel: {
      channel.close(mode: .input, promise: nil)
    }
  }

  private func answerAll(of connection: NIOLoopBound<HTTPConnection>, on channel: any Channel) async throws {
    do {
      while let incoming = try await connection.value.next() {
        let response = try await response(to: incoming, channel)
        let head = AnswerHead(status: response.status, fields: response.headers)
        let bytes = connection.value.beginAnswer(head, contentLength: response.body.contentLength ?? 0)
        try await response.body.write(
          AnswerWriter(connection: connection, mayHaveContent: head.mayHaveContent, bytes: bytes))
      }
    } catch is HTTPParserError {
      try connection.value.refuse()
    }
  }

  private func response(to incoming: HTTPConnection.Incoming, _ channel: any Channel) async throws -> Response
  {
    var context = WireContext(source: .init(channel: channel, logger: logger))
    context.framing = incoming.framing
    do {
      return try await responder.respond(to: incoming.request, context: context)
    } catch let error as HTTPParserError {
      // The body was not HTTP.
      throw error
    } catch {
      return Response(status: .internalServerError)
    }
  }
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

/// The handlers of a connection, with TLS if there is a certificate: the one in use when the connection is opened.
private struct ConnectionHandlers {
  let tls: (@Sendable () -> NIOSSLContext)?
  let connections: OpenConnections
  let date: HTTPDate

  func add(
    to channel: any Channel
  ) -> EventLoopFuture<(channel: any Channel, connection: NIOLoopBound<HTTPConnection>)> {
    channel.eventLoop.makeCompletedFuture {
      let pipeline = channel.pipeline.syncOperations
      let connectionGuard = ConnectionGuard(connections)
      try pipeline.addHandler(connectionGuard)
      if let tls {
        let observer = KeyExchangeObserver(.server) { [metrics = connections.metrics] in metrics.count($0) }
        try pipeline.addHandlers([observer, NIOSSLServerHandler(context: tls())])
      }
      // As much as other servers take, and little enough to buffer for each connection.
      var limits = NIOHTTPDecoderLimitConfiguration()
      limits.maxHeaderFieldSize = 16 << 10
      limits.maxHeaderListSize = 16 << 10
      limits.maxHeaderFieldCount = 200
      let decoder = HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes, limitConfiguration: limits)
      let gate = RequestGate(channel, connectionGuard, timeout: .seconds(30))
      let connection = HTTPConnection(gate, date)
      try pipeline.addHandlers([ByteToMessageHandler(decoder), connection])
      return (channel, NIOLoopBound(connection, eventLoop: channel.eventLoop))
    }
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
