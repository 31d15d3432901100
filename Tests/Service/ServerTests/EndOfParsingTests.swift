import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import TestService
import TestSupport
import Testing

@testable import Server

/// What follows a request that ends HTTP on its connection, or is none.
@Suite struct EndOfParsingTests {
  /// What is sent at first, and then again and again.
  struct Shape: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var head: String
    var more = "z"
    var answers = true

    init(_ name: String, _ head: String, more: String = "z", answers: Bool = true) {
      (testDescription, self.head, self.more, self.answers) = (name, head, more, answers)
    }

    /// A request by its first line and the lines of its head, with a body.
    static func request(
      _ name: String, _ line: String, _ lines: String..., body: String = "", more: String = "z"
    ) -> Shape {
      Shape(name, ([line, "Host: a"] + lines).joined(separator: "\r\n") + "\r\n\r\n" + body, more: more)
    }
  }

  private static let post = "POST /api/v1/remotes/server/register HTTP/1.1"
  private static let pipelined = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  private static let (upgrade, chunked) = ("Connection: Upgrade\r\nUpgrade: x", "Transfer-Encoding: chunked")

  static let upgrades: [Shape] = [
    .request("CONNECT", "CONNECT a:1 HTTP/1.1"),
    .request("CONNECT with a length", "CONNECT a:1 HTTP/1.1", "Content-Length: 100000"),
    .request("CONNECT in chunks", "CONNECT a:1 HTTP/1.1", chunked),
    .request("CONNECT of HTTP/1.0", "CONNECT a:1 HTTP/1.0"),
    .request("CONNECT with Expect", "CONNECT a:1 HTTP/1.1", "Expect: 100-continue", "Content-Length: 9"),
    .request("WebSocket", "GET / HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket"),
    .request("HTTP/2 in clear", "GET / HTTP/1.1", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"),
    .request("another protocol", "GET / HTTP/1.1", "Connection: keep-alive, upgrade", "Upgrade: x"),
    .request("HEAD", "HEAD / HTTP/1.1", upgrade),
    .request("HTTP/1.0", "GET / HTTP/1.0", upgrade),
    .request("a body", post, upgrade, "Content-Length: 3", body: "a=b"),
    .request("a long body", post, upgrade, "Content-Length: 300000"),
    .request("chunks", post, upgrade, chunked, body: "3\r\na=b\r\n0\r\n\r\n"),
    .request("Expect", post, upgrade, "Expect: 100-continue", "Content-Length: 3"),
    .request("requests before", "GET / HTTP/1.1", body: pipelined + "GET / HTTP/1.1\r\n\(upgrade)\r\n\r\n"),
    .request("requests after", "GET / HTTP/1.1", upgrade, more: pipelined),
  ]

  static let malformed: [Shape] = [
    .request("no method", "G@T / HTTP/1.1"), .request("an unknown method", "XYZZY / HTTP/1.1"),
    .request("a bad name", "GET / HTTP/1.1", "a b: c"), .request("no name", "GET / HTTP/1.1", ": a"),
    .request("a bad size of a chunk", post, chunked, body: "xyz\r\n"),
    .request("a bad length", post, "Content-Length: -1"),
    .request("two lengths", post, "Content-Length: 3", "Content-Length: 4"),
    .request("a length and chunks", post, "Content-Length: 3", chunked),
    .request("an unknown coding", post, "Transfer-Encoding: gzip"),
    .request("NUL", "GET / HTTP/1.1", "a: b\0c"), .request("HTTP/2.0", "GET / HTTP/2.0"),
    .request("bad trailers", post, chunked, body: "3\r\na=b\r\n0\r\nx y\r\n\r\n"),
    Shape("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Shape("HTTP/0.9", "GET /\r\n"),
    Shape("TLS in clear", "\u{16}\u{3}\u{1}\u{2}"),
    Shape("an endless name", "GET / HTTP/1.1\r\n"), Shape("an endless value", "GET / HTTP/1.1\r\nA: "),
    Shape("endless fields", "GET / HTTP/1.1\r\n", more: "a: b\r\n"), Shape("an endless path", "GET /"),
    Shape("endless trailers", post + "\r\n\(chunked)\r\n\r\n0\r\n", more: "a: b\r\n"),
    Shape("endless spaces of a field", "GET / HTTP/1.1\r\nA:", more: " ", answers: false),
    Shape("endless spaces of a trailer", post + "\r\n\(chunked)\r\n\r\n0\r\nA:", more: " ", answers: false),
    Shape("endless spaces after a path", "GET / ", more: " ", answers: false),
    Shape("endless zeros of a size", post + "\r\n\(chunked)\r\n\r\n", more: "0", answers: false),
    Shape("an endless extension", post + "\r\n\(chunked)\r\n\r\n1;", answers: false),
    Shape("endless empty lines", "", more: "\r\n", answers: false),
    .request("after Connection: close", "GET / HTTP/1.1", "Connection: close"),
    .request("requests after it", "GET / HTTP/1.1", "Connection: close", more: pipelined),
    Shape("requests without end", pipelined, more: pipelined),
  ]

  /// Sends what may well be kept, and gets how much of it was taken before the connection was closed.
  private func flood(_ shape: Shape, port: Int, tls: NIOSSLContext? = nil) async throws -> (
    taken: Int, answer: String
  ) {
    let received = Received()
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .channelOption(.allowRemoteHalfClosure, value: true)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          if let tls { try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: nil)) }
          try pipeline.addHandler(received)
        }
      }
      .connect(host: "127.0.0.1", port: port).get()
    try await channel.writeAndFlush(ByteBuffer(string: shape.head))
    let piece = ByteBuffer(repeating: shape.more, upTo: 64 << 10)
    var taken = 0
    do {
      while taken < Self.much {
        try await channel.writeAndFlush(piece)
        taken += piece.readableBytes
      }
    } catch {}
    try? await channel.close()
    return (taken, try await channel.eventLoop.submit { received.text }.get())
  }

  private static let much = 48 << 20
  /// What the kernel may keep, on both sides.
  private static let little = 16 << 20

  /// Touched by the channel's loop only.
  private final class Received: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer
    var text = ""
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      text += String(buffer: unwrapInboundIn(data))
    }
    func errorCaught(context: ChannelHandlerContext, error: any Error) {}
  }

  private func expectEnd(
    of shapes: [Shape], port: Int, tls: NIOSSLContext? = nil, answer: String? = nil
  ) async throws {
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      for shape in shapes {
        tasks.addTask {
          let (taken, text) = try await flood(shape, port: port, tls: tls)
          #expect(taken < Self.little, "\(shape.testDescription)")
          guard shape.answers else { return }
          #expect(text.contains("HTTP/1.1 4"), "\(shape.testDescription): \(text)")
          if let answer { #expect(text.lowercased().contains(answer), "\(shape.testDescription): \(text)") }
        }
      }
      try await tasks.waitForAll()
    }
  }

  @Test func `Nothing is read after an upgrade`() async throws {
    try await TestService.run(clock: TestClock(nil), isWorking: true) { test in
      try await expectEnd(
        of: Self.upgrades, port: await test.service.publicPort.wait(), answer: "\r\nconnection: close\r\n")
    }
  }

  @Test func `Nothing is read after what is no request`() async throws {
    try await TestService.run(clock: TestClock(nil), isWorking: true) { test in
      try await expectEnd(of: Self.malformed, port: await test.service.publicPort.wait())
    }
  }

  @Test func `The operator's listener reads nothing either`() async throws {
    try await TestService.run(clock: TestClock(nil), isWorking: true) { test in
      let shapes = [Self.upgrades[0], Self.upgrades[5], Self.malformed[0]]
      try await expectEnd(of: shapes, port: await test.service.adminPort.wait())
    }
  }

  @Test func `Nor does TLS while it closes`() async throws {
    try await withTemporaryFolder { folder in
      let (certificate, key) = try TestCertificate.makePEM()
      let files = (folder.appending(path: "certificate.pem"), folder.appending(path: "key.pem"))
      try Data(certificate.utf8).write(to: files.0)
      try Data(key.utf8).write(to: files.1)
      try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: files.1.path)
      let settings = ["http.tls.certificate_file": files.0.path, "http.tls.key_file": files.1.path]
      try await TestService.run(settings, clock: TestClock(nil), isWorking: true) { test in
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        try await expectEnd(
          of: Self.upgrades + Self.malformed.filter { $0.testDescription != "TLS in clear" },
          port: await test.service.publicPort.wait(), tls: try NIOSSLContext(configuration: configuration))
      }
    }
  }
}

extension ByteBuffer {
  /// A text again and again, whole each time.
  fileprivate init(repeating text: String, upTo size: Int) {
    self.init(string: String(repeating: text, count: size / text.utf8.count))
  }
}
