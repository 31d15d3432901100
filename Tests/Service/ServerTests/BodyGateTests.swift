import Hummingbird
import NIOCore
import NIOEmbedded
import NIOHTTP1
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

  private static let asking = EmbeddedConnection.head(["Content-Length": "3", "Expect": "100-continue"])
  private static let long = EmbeddedConnection.head(["Content-Length": "1000000"])
  private static let get = EmbeddedConnection.head()
  private let bytes = HTTPServerRequestPart.body(ByteBuffer(string: "a=b"))

  @Test func `Who asks is told to go on when the body is wanted`() throws {
    let connection = try EmbeddedConnection()
    try connection.receive(Self.asking)
    #expect(try connection.sent() == nil)
    let promise = connection.loop.makePromise(of: Void.self)
    let isHeard = Mutex(false)
    promise.futureResult.whenSuccess { isHeard.withLock { $0 = true } }
    connection.wantBody(promise: promise)
    let wasHeard = isHeard.withLock { $0 }
    #expect(wasHeard)
    if !wasHeard { promise.succeed() }
    #expect(try connection.sent() == "HTTP/1.1 100 Continue\r\n\r\n")
    try connection.receive(.end(nil))
    try connection.answer()
    #expect(try connection.sent()?.hasPrefix("HTTP/1.1 200 OK\r\n") == true)
    connection.loop.run()
    #expect(connection.isOpen)
  }

  @Test func `Who sends its body unasked is told nothing, and goes on`() throws {
    let connection = try EmbeddedConnection()
    try connection.receive(Self.asking, bytes)
    connection.wantBody()
    try connection.receive(.end(nil))
    try connection.answer()
    #expect(try connection.sent()?.hasPrefix("HTTP/1.1 200 OK\r\n") == true)
  }

  @Test func `In the middle of another answer nothing is said`() throws {
    let connection = try EmbeddedConnection()
    try connection.receive(Self.get, .end(nil))
    let answer = connection.begin()
    try connection.receive(Self.asking)
    connection.wantBody()
    #expect(try connection.sent() == nil)
    try connection.end(answer)
    #expect(try connection.sent() == String(buffer: answer))
    #expect(try connection.sent() == nil)
  }

  @Test func `Who is refused unheard sends nothing more`() throws {
    let connection = try EmbeddedConnection()
    try connection.receive(Self.asking)
    try connection.answer(.contentTooLarge)
    let answer = try #require(try connection.sent())
    #expect(answer.hasPrefix("HTTP/1.1 413 ") && answer.saysClose)
    connection.loop.run()
    #expect(!connection.isOpen)
  }

  @Test(arguments: [["Content-Length": "1000000"], ["Transfer-Encoding": "chunked"]] as [HTTPHeaders])
  func `A long body is not read until it is wanted`(_ fields: HTTPHeaders) throws {
    let connection = try EmbeddedConnection()
    #expect(connection.reads { connection.channel.read() } == 1)
    try connection.receive(EmbeddedConnection.head(fields))
    #expect(connection.reads { connection.channel.read() } == 0)
    #expect(connection.reads { connection.wantBody() } == 1)
    #expect(connection.reads { connection.channel.read() } == 1)
    try connection.receive(.end(nil))
    try connection.answer()
    #expect(connection.reads { connection.channel.read() } == 1)
  }

  @Test func `What is left of a refused body is read`() throws {
    let connection = try EmbeddedConnection()
    try connection.receive(Self.long)
    connection.channel.read()
    let answer = connection.begin(.contentTooLarge)
    #expect(try connection.reads { try connection.end(answer) } == 1)
  }

  @Test func `A short body needs no asking`() throws {
    let connection = try EmbeddedConnection()
    try connection.receive(EmbeddedConnection.head(["Content-Length": "16384"]))
    #expect(connection.reads { connection.channel.read() } == 1)
  }

  @Test func `While a request is being answered nothing more is read`() throws {
    let connection = try EmbeddedConnection()
    let channel = connection.channel
    for _ in 0..<3 {
      #expect(connection.reads { channel.read() } == 1)
      try connection.receive(Self.get)
      // Its end may have to be read.
      #expect(connection.reads { channel.read() } == 1)
      try connection.receive(.end(nil))
      #expect(connection.reads { channel.read() } == 0)
      // The next one came with it.
      try connection.receive(Self.get, .end(nil))
      for reads in [0, 1] { #expect(try connection.reads { try connection.answer() } == reads) }
    }
  }

  @Test func `While answers are left unread nothing more is read`() throws {
    let connection = try EmbeddedConnection()
    let channel = connection.channel
    channel.isWritable = false
    channel.pipeline.fireChannelWritabilityChanged()
    #expect(connection.reads { channel.read() } == 0)
    channel.isWritable = true
    #expect(connection.reads { channel.pipeline.fireChannelWritabilityChanged() } == 1)
  }

  @Test func `A long body is read a part each time that it is wanted`() throws {
    let connection = try EmbeddedConnection()
    try connection.receive(Self.long)
    #expect(connection.reads { connection.channel.read() } == 0)
    for _ in 0..<3 {
      #expect(connection.reads { connection.wantBody() } == 1)
      try connection.receive(bytes)
      #expect(connection.reads { connection.channel.read() } == 0)
    }
  }

  @Test func `However small its chunks are, what one read has brought is one part`() async throws {
    let connection = try EmbeddedConnection()
    let pipeline = connection.channel.pipeline
    try connection.receive(EmbeddedConnection.head(["Transfer-Encoding": "chunked"]))
    var body = try #require(try await connection.next()).request.body.makeAsyncIterator()
    for _ in 0..<1000 { pipeline.fireChannelRead(HTTPServerRequestPart.body(ByteBuffer(string: "ab"))) }
    pipeline.fireChannelReadComplete()
    #expect(try await body.next() == ByteBuffer(string: String(repeating: "ab", count: 1000)))
    pipeline.fireChannelRead(HTTPServerRequestPart.body(ByteBuffer(string: "c")))
    pipeline.fireChannelRead(HTTPServerRequestPart.end(nil))
    #expect(try await body.next() == ByteBuffer(string: "c"))
    #expect(try await body.next() == nil)
  }

  @Test func `A short body comes whole, with its request`() async throws {
    let connection = try EmbeddedConnection()
    for _ in 0..<2 {
      try connection.receive(EmbeddedConnection.head(["Content-Length": "6"]), bytes, bytes, .end(nil))
      var body = try #require(try await connection.next()).request.body.makeAsyncIterator()
      #expect(try await body.next() == ByteBuffer(string: "a=ba=b"))
      #expect(try await body.next() == nil)
      try connection.answer()
    }
  }

  @Test func `Who asks too much in one go gets some of it`() async throws {
    let connection = try EmbeddedConnection()
    for _ in 0..<1000 { try connection.receive(Self.get, .end(nil)) }
    connection.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    var answers: [String] = []
    while try await connection.next() != nil {
      try connection.answer()
      answers.append(try #require(try connection.sent()))
    }
    #expect(answers.count == RequestGate.maximumPipelined)
    #expect(answers.map(\.saysClose) == answers.indices.map { $0 == answers.count - 1 })
    connection.loop.run()
    #expect(!connection.isOpen)
  }
}
