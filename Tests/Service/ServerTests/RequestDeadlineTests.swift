import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import Testing

@testable import HTTP
@testable import Server

@Suite struct RequestDeadlineTests {
  /// A connection with a deadline of 30 seconds, in a time of its own.
  private struct Connection {
    let loop = EmbeddedEventLoop()
    let channel: EmbeddedChannel

    init() throws {
      channel = EmbeddedChannel(handler: RequestGate(timeout: .seconds(30)), loop: loop)
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    }

    var isOpen: Bool { channel.isActive }

    func wait(_ seconds: Int64) { loop.advanceTime(by: .seconds(seconds)) }

    func end() { channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent()) }

    func receive(_ parts: HTTPRequestPart...) throws {
      for part in parts { try channel.writeInbound(part) }
    }

    func answer() throws {
      try channel.writeOutbound(HTTPResponsePart.head(HTTPResponse(status: .ok)))
      try channel.writeOutbound(HTTPResponsePart.end(nil))
    }
  }

  private let head = HTTPRequestPart.head(
    HTTPRequest(method: .post, scheme: "http", authority: "a", path: "/"))

  @Test func `Who says nothing is hung up on`() throws {
    let connection = try Connection()
    connection.wait(29)
    #expect(connection.isOpen)
    connection.wait(1)
    #expect(!connection.isOpen)
  }

  @Test func `A byte now and then gains no time`() throws {
    let connection = try Connection()
    connection.wait(10)
    try connection.receive(head)
    for _ in 0..<19 {
      connection.wait(1)
      try connection.receive(.body(ByteBuffer(string: "x")))
    }
    #expect(connection.isOpen)
    connection.wait(1)
    #expect(!connection.isOpen)
  }

  @Test func `An answer may take its time`() throws {
    let connection = try Connection()
    try connection.receive(head, .end(nil))
    connection.wait(3600)
    #expect(connection.isOpen)
    try connection.answer()
    connection.wait(29)
    #expect(connection.isOpen)
    connection.wait(1)
    #expect(!connection.isOpen)
  }

  @Test func `Every request has the whole time`() throws {
    let connection = try Connection()
    for _ in 0..<3 {
      connection.wait(20)
      try connection.receive(head, .end(nil))
      try connection.answer()
    }
    #expect(connection.isOpen)
  }

  @Test func `An answer before the request's end stops no clock`() throws {
    let connection = try Connection()
    try connection.receive(head)
    try connection.answer()
    connection.wait(29)
    #expect(connection.isOpen)
    try connection.receive(.end(nil))
    connection.wait(29)
    #expect(connection.isOpen)
    connection.wait(1)
    #expect(!connection.isOpen)
  }

  @Test func `Everything is passed on`() throws {
    let connection = try Connection()
    try connection.receive(head, .body(ByteBuffer(string: "x")), .end(nil))
    #expect(try connection.channel.readInbound(as: HTTPRequestPart.self) == head)
    #expect(try connection.channel.readInbound(as: HTTPRequestPart.self) == .body(ByteBuffer(string: "x")))
    #expect(try connection.channel.readInbound(as: HTTPRequestPart.self) == .end(nil))
    try connection.answer()
    #expect(
      try connection.channel.readOutbound(as: HTTPResponsePart.self) == .head(HTTPResponse(status: .ok)))
    #expect(try connection.channel.readOutbound(as: HTTPResponsePart.self) == .end(nil))
  }

  // MARK: the listener ends

  @Test func `A first request is waited for`() throws {
    let connection = try Connection()
    connection.wait(20)
    connection.end()
    connection.loop.advanceTime(by: .milliseconds(1999))
    #expect(connection.isOpen)
    connection.loop.advanceTime(by: .milliseconds(1))
    #expect(!connection.isOpen)
  }

  @Test func `What comes bit by bit is waited for`() throws {
    let connection = try Connection()
    connection.end()
    connection.wait(1)
    try connection.receive(head)
    for _ in 0..<5 {
      connection.wait(1)
      try connection.receive(.body(ByteBuffer(string: "x")))
    }
    try connection.receive(.end(nil))
    connection.wait(3600)
    #expect(connection.isOpen)
    try connection.answer()
    guard case .head(let answer)? = try connection.channel.readOutbound(as: HTTPResponsePart.self) else {
      return #expect(Bool(false))
    }
    #expect(answer.headerFields[.connection] == "close")
  }

  @Test func `What stops coming is not`() throws {
    let connection = try Connection()
    try connection.receive(head)
    connection.end()
    connection.loop.advanceTime(by: .milliseconds(1999))
    #expect(connection.isOpen)
    connection.loop.advanceTime(by: .milliseconds(1))
    #expect(!connection.isOpen)
  }

  @Test func `Another request is not waited for long`() throws {
    let connection = try Connection()
    try connection.receive(head, .end(nil))
    try connection.answer()
    connection.end()
    connection.loop.advanceTime(by: .milliseconds(99))
    #expect(connection.isOpen)
    try connection.receive(head)
    connection.wait(1)
    #expect(connection.isOpen)
    connection.wait(1)
    #expect(!connection.isOpen)
  }
}
