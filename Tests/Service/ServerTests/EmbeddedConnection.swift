import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTP1

@testable import HTTP

/// A connection after its parser, with a deadline of 30 seconds, in a time of its own.
struct EmbeddedConnection {
  let loop = EmbeddedEventLoop()
  let channel: EmbeddedChannel
  private let connection: HTTPConnection
  private let counter = Reads()

  init() throws {
    channel = EmbeddedChannel(loop: loop)
    connection = HTTPConnection(RequestGate(channel, nil, timeout: .seconds(30)), HTTPDate())
    try channel.pipeline.syncOperations.addHandlers([counter, connection])
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
  }

  var isOpen: Bool { channel.isActive }

  func wait(_ seconds: Int64) { loop.advanceTime(by: .seconds(seconds)) }

  /// The listener shuts down.
  func end() { channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent()) }

  static func head(_ fields: HTTPHeaders = [:]) -> HTTPServerRequestPart {
    .head(HTTPRequestHead(version: .http1_1, method: .POST, uri: "/", headers: ["Host": "a"] + fields))
  }

  func receive(_ parts: HTTPServerRequestPart...) throws {
    for part in parts { try channel.writeInbound(part) }
  }

  /// The next request; nil if the peer sends no more.
  func next() async throws -> HTTPConnection.Incoming? { try await connection.next() }

  /// More of the body is wanted.
  func wantBody(promise: EventLoopPromise<Void>? = nil) {
    channel.triggerUserOutboundEvent(BodyWanted(), promise: promise)
  }

  /// The bytes of an answer's head; ``end(_:)`` has to follow.
  func begin(_ status: HTTPResponse.Status = .ok, _ fields: HTTPFields = [.contentLength: "0"]) -> ByteBuffer
  {
    connection.beginAnswer(AnswerHead(status: status, fields: fields), contentLength: 0)
  }

  func end(_ answer: ByteBuffer) throws { try connection.endAnswer(with: answer) }

  func answer(_ status: HTTPResponse.Status = .ok) throws { try end(begin(status)) }

  /// What was sent since the last call; nil if nothing.
  func sent() throws -> String? { try channel.readOutbound(as: ByteBuffer.self).map { String(buffer: $0) } }

  /// How often the socket was to be read while this was done.
  func reads(_ body: () throws -> Void) rethrows -> Int {
    let before = counter.count
    try body()
    return counter.count - before
  }

  private final class Reads: ChannelOutboundHandler {
    typealias OutboundIn = Never
    var count = 0
    func read(context: ChannelHandlerContext) { count += 1 }
  }
}

extension HTTPHeaders {
  fileprivate static func + (a: HTTPHeaders, b: HTTPHeaders) -> HTTPHeaders {
    var sum = a
    sum.add(contentsOf: b)
    return sum
  }
}

extension String {
  /// Whether an answer says that its connection closes.
  var saysClose: Bool { contains("\r\nConnection: close\r\n") }
}
