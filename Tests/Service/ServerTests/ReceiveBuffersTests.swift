import Basics
import Foundation
import Hummingbird
import NIOCore
import NIOEmbedded
import NIOPosix
import TestSupport
import Testing

@testable import HTTP
@testable import Server

/// What waits in the kernel to be read.
@Suite struct ReceiveBuffersTests {
  private func connection(_ source: String?, _ number: Int) throws -> OpenConnection {
    OpenConnection(
      EmbeddedChannel(), source: try source.map { try #require(ClientAddress($0)) }, number: number)
  }

  @Test(arguments: [
    (64 << 20, 4096, 7 << 10), (64 << 20, 400, 32 << 10), (64 << 20, 100_000, 4 << 10),
    (1 << 20, 32, 14 << 10),
  ])
  func `All connections together have what there is`(_ memory: Int, _ connections: Int, _ size: Int) {
    #expect(ReceiveBuffers(memory: memory, connections: connections).size == size)
  }

  @Test func `Few have a large one, and of a source a quarter of these`() throws {
    let buffers = ReceiveBuffers(memory: 8 << 20, connections: 100)
    var large: [OpenConnection] = []
    for source in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
      let connections = try (0..<4).map { try connection(source, $0) }
      let isLarge = connections.map(buffers.enlarge)
      #expect(isLarge == [true, true, false, false])
      large += connections.prefix(2)
    }
    let proxied = try (0..<4).map { try connection(nil, $0) }
    #expect(proxied.map(buffers.enlarge) == [true, true, false, false])
    #expect(!buffers.enlarge(try connection("10.0.0.4", 0)))
    let closed = try #require(large[0].channel as? EmbeddedChannel)
    closed.close(promise: nil)
    closed.embeddedEventLoop.run()
    #expect(!buffers.enlarge(try connection("10.0.0.2", 5)))
    #expect(buffers.enlarge(try connection("10.0.0.4", 0)))
  }

  /// Runs a test while a listener reads each body and then does not answer before the test ends.
  private func listening(_ test: @escaping @Sendable (_ port: Int, _ read: Counter) async throws -> Void)
    async throws
  {
    let read = Counter()
    let answers = AsyncStream.makeStream(of: Void.self)
    let router = Routes()
    router.add(EnvelopeLayer(bodies: BodyBudget(limit: 64 << 20, largest: 16 << 20)))
    router.endpoint("/", .post) { request, _ in
      _ = try await request.wholeBody(upTo: 16 << 20)
      read.increment()
      for await _ in answers.stream {}
      return Response(status: .ok)
    }
    try await withListener(router) { port in
      try await test(port, read)
      answers.continuation.finish()
    }
  }

  /// The kernel's table of connections. Each read yields a part of it, so that Foundation takes the first for all.
  private func table() throws -> String {
    let descriptor = open("/proc/net/tcp", O_RDONLY | O_CLOEXEC)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    var (text, part) = ([UInt8](), [UInt8](repeating: 0, count: 1 << 16))
    while case let count = read(descriptor, &part, part.count), count > 0 { text += part[..<count] }
    return String(decoding: text, as: UTF8.self)
  }

  /// The bytes that wait in the kernel for whoever listens at this port.
  private func waiting(_ port: Int) throws -> Int {
    var sum = 0
    for line in try table().split(separator: "\n").dropFirst() {
      // Its number, local and remote address, state, and the lengths of what is sent and what is received.
      let columns = line.split(separator: " ")
      guard columns[1].hasSuffix(String(format: ":%04X", port)), columns[3] == "01" else { continue }
      sum += Int(columns[4].split(separator: ":")[1], radix: 16) ?? 0
    }
    return sum
  }

  @Test(arguments: [100, 200_000])
  func `What follows a request waits at its sender until that is answered`(_ length: Int) async throws {
    try await listening { port, read in
      let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup).connect(
        host: "127.0.0.1", port: port
      ).get()
      let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \(length)\r\n\r\n"
      let request = ByteBuffer(string: head + String(repeating: "a", count: length))
      try await channel.writeAndFlush(request)
      await eventually("a request") { read.value == 1 }
      var more = ByteBuffer()
      while more.readableBytes < 8 << 20 { more.writeImmutableBuffer(request) }
      channel.writeAndFlush(more, promise: nil)
      var last = 0
      try await eventually("no more is taken") {
        defer { last = (try? waiting(port)) ?? 0 }
        return try last > 0 && waiting(port) == last
      }
      #expect(last <= (length > 64 << 10 ? 130_000 : 33_000))
      #expect(read.value == 1)
      channel.close(promise: nil)
    }
  }
}
