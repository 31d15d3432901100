import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import NIOPosix
import Synchronization
import TestService
import TestSupport
import Testing

@testable import HTTP
@testable import Server

@Suite struct BodyGateTests {
  private let path = "/api/v1/remotes/server/register"

  @Test func `Who asks first is told to go on and then answered`() async throws {
    try await TestService.run(clock: TestClock(nil), isWorking: true) { test in
      let port = await test.service.publicPort.wait()
      let socket = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connect(
        host: "127.0.0.1", port: port
      ) { channel in
        channel.eventLoop.makeCompletedFuture {
          try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
        }
      }
      try await socket.executeThenClose { inbound, outbound in
        var answers = inbound.makeAsyncIterator()
        var text = ""
        func receive(until end: String) async throws -> String {
          while !text.contains(end) {
            guard let part = try await answers.next(isolation: #isolation) else { throw ChannelError.eof }
            text += String(buffer: part)
          }
          defer { text = "" }
          return text
        }
        let head = "POST \(path) HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
        for expectation in ["100-continue", "100-Continue"] {
          try await outbound.write(ByteBuffer(string: head + "Expect: \(expectation)\r\n\r\n"))
          // Nothing of the body is there yet, and nothing of it is on the way.
          #expect(try await receive(until: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
          try await outbound.write(ByteBuffer(string: "a=b"))
          #expect(try await receive(until: "}\n").hasPrefix("HTTP/1.1 400 Bad Request\r\n"))
        }
        try await outbound.write(ByteBuffer(string: head + "\r\na=b"))
        #expect(try await receive(until: "}\n").hasPrefix("HTTP/1.1 400 Bad Request\r\n"))
      }
    }
  }

  private static func head(_ fields: HTTPFields) -> HTTPRequestPart {
    .head(HTTPRequest(method: .post, scheme: "http", authority: "a", path: "/", headerFields: fields))
  }

  private static let asking = head([.contentLength: "3", .expect: "100-continue"])
  private let answer = HTTPResponsePart.head(HTTPResponse(status: .ok))

  /// Counts how often more is to be read.
  private final class Reads: ChannelOutboundHandler {
    typealias OutboundIn = Never
    var count = 0
    func read(context: ChannelHandlerContext) { count += 1 }
  }

  private struct Connection {
    let channel = EmbeddedChannel()
    let reads = Reads()

    init() throws {
      try channel.pipeline.syncOperations.addHandlers([reads, RequestGate(timeout: .seconds(30))])
    }

    /// How often the socket was to be read while this was done.
    func reads(_ body: () throws -> Void) rethrows -> Int {
      let before = reads.count
      try body()
      return reads.count - before
    }
  }

  @Test func `Who asks is told to go on when the body is wanted`() throws {
    let channel = try Connection().channel
    try channel.writeInbound(Self.asking)
    #expect(try channel.readOutbound(as: HTTPResponsePart.self) == nil)
    let promise = channel.eventLoop.makePromise(of: Void.self)
    let isHeard = Mutex(false)
    promise.futureResult.whenSuccess { isHeard.withLock { $0 = true } }
    channel.triggerUserOutboundEvent(BodyWanted(), promise: promise)
    let wasHeard = isHeard.withLock { $0 }
    #expect(wasHeard)
    if !wasHeard { promise.succeed() }
    #expect(try channel.readOutbound(as: HTTPResponsePart.self) == .head(HTTPResponse(status: .continue)))
    try channel.writeInbound(HTTPRequestPart.end(nil))
    try channel.writeOutbound(answer)
    try channel.writeOutbound(HTTPResponsePart.end(nil))
    #expect(try channel.readOutbound(as: HTTPResponsePart.self) == answer)
    #expect(try channel.readOutbound(as: HTTPResponsePart.self) == .end(nil))
  }

  @Test func `Who sends its body unasked is told nothing, and goes on`() throws {
    let channel = try Connection().channel
    try channel.writeInbound(Self.asking)
    try channel.writeInbound(HTTPRequestPart.body(ByteBuffer(string: "a=b")))
    channel.triggerUserOutboundEvent(BodyWanted(), promise: nil)
    try channel.writeInbound(HTTPRequestPart.end(nil))
    try channel.writeOutbound(answer)
    #expect(try channel.readOutbound(as: HTTPResponsePart.self) == answer)
  }

  @Test func `In the middle of another answer nothing is said`() throws {
    let channel = try Connection().channel
    try channel.writeInbound(Self.head([:]))
    try channel.writeInbound(HTTPRequestPart.end(nil))
    try channel.writeOutbound(answer)
    try channel.writeInbound(Self.asking)
    channel.triggerUserOutboundEvent(BodyWanted(), promise: nil)
    try channel.writeOutbound(HTTPResponsePart.end(nil))
    #expect(try channel.readOutbound(as: HTTPResponsePart.self) == answer)
    #expect(try channel.readOutbound(as: HTTPResponsePart.self) == .end(nil))
    #expect(try channel.readOutbound(as: HTTPResponsePart.self) == nil)
  }

  @Test func `Who is refused unheard sends nothing more`() throws {
    let channel = try Connection().channel
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    try channel.writeInbound(Self.asking)
    try channel.writeOutbound(HTTPResponsePart.head(HTTPResponse(status: .contentTooLarge)))
    guard case .head(let answer)? = try channel.readOutbound(as: HTTPResponsePart.self) else {
      return #expect(Bool(false))
    }
    #expect(answer.status == .contentTooLarge && answer.headerFields[.connection] == "close")
    try channel.writeOutbound(HTTPResponsePart.end(nil))
    channel.embeddedEventLoop.run()
    #expect(!channel.isActive)
  }

  @Test(arguments: [[.contentLength: "1000000"], [.transferEncoding: "chunked"]] as [HTTPFields])
  func `A long body is not read until it is wanted`(_ fields: HTTPFields) throws {
    let connection = try Connection()
    let channel = connection.channel
    #expect(connection.reads { channel.read() } == 1)
    try channel.writeInbound(Self.head(fields))
    #expect(connection.reads { channel.read() } == 0)
    #expect(connection.reads { channel.triggerUserOutboundEvent(BodyWanted(), promise: nil) } == 1)
    #expect(connection.reads { channel.read() } == 1)
    try channel.writeInbound(HTTPRequestPart.end(nil))
    try channel.writeOutbound(answer)
    try channel.writeOutbound(HTTPResponsePart.end(nil))
    #expect(connection.reads { channel.read() } == 1)
  }

  @Test func `What is left of a refused body is read`() throws {
    let connection = try Connection()
    try connection.channel.writeInbound(Self.head([.contentLength: "1000000"]))
    connection.channel.read()
    try connection.channel.writeOutbound(answer)
    #expect(try connection.reads { try connection.channel.writeOutbound(HTTPResponsePart.end(nil)) } == 1)
  }

  @Test func `A short body needs no asking`() throws {
    let connection = try Connection()
    try connection.channel.writeInbound(Self.head([.contentLength: "16384"]))
    #expect(connection.reads { connection.channel.read() } == 1)
  }

  private static let get = HTTPRequestPart.head(
    HTTPRequest(method: .get, scheme: "http", authority: "a", path: "/"))

  @Test func `While a request is being answered nothing more is read`() throws {
    let connection = try Connection()
    let channel = connection.channel
    for _ in 0..<3 {
      #expect(connection.reads { channel.read() } == 1)
      try channel.writeInbound(Self.get)
      // Its end may have to be read.
      #expect(connection.reads { channel.read() } == 1)
      try channel.writeInbound(HTTPRequestPart.end(nil))
      #expect(connection.reads { channel.read() } == 0)
      // The next one came with it.
      try channel.writeInbound(Self.get)
      try channel.writeInbound(HTTPRequestPart.end(nil))
      for reads in [0, 1] {
        try channel.writeOutbound(answer)
        #expect(
          try connection.reads { try channel.writeOutbound(HTTPResponsePart.end(nil)) } == reads)
      }
    }
  }

  @Test func `While answers are left unread nothing more is read`() throws {
    let connection = try Connection()
    let channel = connection.channel
    channel.isWritable = false
    channel.pipeline.fireChannelWritabilityChanged()
    #expect(connection.reads { channel.read() } == 0)
    channel.isWritable = true
    #expect(connection.reads { channel.pipeline.fireChannelWritabilityChanged() } == 1)
  }

  @Test func `A long body is read a part each time that it is wanted`() throws {
    let connection = try Connection()
    let channel = connection.channel
    try channel.writeInbound(Self.head([.contentLength: "1000000"]))
    #expect(connection.reads { channel.read() } == 0)
    for _ in 0..<3 {
      #expect(connection.reads { channel.triggerUserOutboundEvent(BodyWanted(), promise: nil) } == 1)
      try channel.writeInbound(HTTPRequestPart.body(ByteBuffer(string: "a=b")))
      #expect(connection.reads { channel.read() } == 0)
    }
  }

  @Test func `However small its chunks are, what one read has brought is one part`() throws {
    let channel = try Connection().channel
    try channel.writeInbound(Self.head([.transferEncoding: "chunked"]))
    _ = try channel.readInbound(as: HTTPRequestPart.self)
    for _ in 0..<1000 {
      channel.pipeline.fireChannelRead(HTTPRequestPart.body(ByteBuffer(string: "ab")))
    }
    #expect(try channel.readInbound(as: HTTPRequestPart.self) == nil)
    channel.pipeline.fireChannelReadComplete()
    let whole = ByteBuffer(string: String(repeating: "ab", count: 1000))
    #expect(try channel.readInbound(as: HTTPRequestPart.self) == .body(whole))
    channel.pipeline.fireChannelRead(HTTPRequestPart.body(ByteBuffer(string: "c")))
    channel.pipeline.fireChannelRead(HTTPRequestPart.end(nil))
    #expect(try channel.readInbound(as: HTTPRequestPart.self) == .body(ByteBuffer(string: "c")))
    #expect(try channel.readInbound(as: HTTPRequestPart.self) == .end(nil))
  }

  @Test func `Who asks too much in one go gets some of it`() throws {
    let channel = try Connection().channel
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    for _ in 0..<1000 {
      try channel.writeInbound(Self.get)
      try channel.writeInbound(HTTPRequestPart.end(nil))
    }
    var asked = 0
    while try channel.readInbound(as: HTTPRequestPart.self) != nil { asked += 1 }
    #expect(asked == 2 * RequestGate.maximumPipelined)
    var answers: [HTTPResponse] = []
    for _ in 0..<RequestGate.maximumPipelined {
      try channel.writeOutbound(answer)
      try channel.writeOutbound(HTTPResponsePart.end(nil))
      if case .head(let head)? = try channel.readOutbound(as: HTTPResponsePart.self) { answers.append(head) }
      _ = try channel.readOutbound(as: HTTPResponsePart.self)
    }
    #expect(answers.map { $0.headerFields[.connection] == "close" }.filter { $0 }.count == 1)
    #expect(answers.last?.headerFields[.connection] == "close")
  }
}
