import Basics
import HTTPTypes
import Hummingbird
import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import HTTP

/// Tests the limit of body bytes in memory, and which source has to give way.
@Suite struct BodyBudgetTests {
  private func address(_ number: Int) throws -> ClientAddress {
    try #require(ClientAddress("10.0.0.\(number)"))
  }

  @Test func `What is too much in all is refused`() throws {
    let budget = BodyBudget(limit: 100, largest: 40)
    for number in 1...2 {
      let whole = BodyCharge(budget, source: try address(number))
      try whole.add(40)
      whole.markComplete()
    }
    let third = BodyCharge(budget, source: try address(3))
    #expect(throws: BodyBudget.Exceeded.self) { try third.checkRoom(for: 21) }
    try third.checkRoom(for: 20)
    #expect(throws: BodyBudget.Exceeded.self) { try third.add(21) }
    try third.add(20)
    #expect(budget.bytes == 100)
    third.release()
    third.release()
    #expect(budget.bytes == 80)
    try BodyCharge(budget, source: address(4)).add(20)
  }

  @Test func `No source takes everything`() throws {
    let budget = BodyBudget(limit: 400, largest: 40)
    let first = BodyCharge(budget, source: try address(1))
    try first.add(70)
    let second = BodyCharge(budget, source: try address(1))
    #expect(throws: BodyBudget.Exceeded.self) { try second.add(31) }
    try BodyCharge(budget, source: try address(2)).add(100)
    first.release()
    try second.add(100)
  }

  @Test func `Saying that much will come takes nothing`() throws {
    let budget = BodyBudget(limit: 100, largest: 100)
    for _ in 0..<10 { try BodyCharge(budget, source: try address(1)).checkRoom(for: 100) }
    #expect(budget.bytes == 0)
  }

  @Test func `A body takes the room of whoever has most`() throws {
    let budget = BodyBudget(limit: 400, largest: 10)
    var held: [BodyCharge] = []
    for (number, count) in zip(1..., [100, 100, 60, 60, 40, 40]) {
      held.append(BodyCharge(budget, source: try address(number)))
      try held[number - 1].add(count)
    }
    // A source that already holds as much as any other is refused.
    let latest = BodyCharge(budget, source: try address(10))
    #expect(throws: BodyBudget.Exceeded.self) { try latest.checkRoom(for: 100) }
    #expect(throws: BodyBudget.Exceeded.self) { try latest.add(100) }
    // A complete body is being processed and is not dropped.
    held[0].markComplete()
    try latest.checkRoom(for: 99)
    try latest.add(99)
    #expect(budget.bytes == 499)
    #expect(throws: BodyBudget.Exceeded.self) { try held[1].add(1) }
    // As long as that has not left, no other has to.
    #expect(throws: BodyBudget.Exceeded.self) { try BodyCharge(budget, source: address(11)).add(2) }
    held[1].release()
    #expect(budget.bytes == 399)
    try BodyCharge(budget, source: address(11)).add(2)
    #expect(throws: BodyBudget.Exceeded.self) { try latest.add(1) }
    for charge in held + [latest] { charge.release() }
    #expect(budget.bytes == 2)
  }

  @Test func `Of one source the largest body goes`() throws {
    let budget = BodyBudget(limit: 400, largest: 10)
    let own = try [30, 40, 30].map { count in
      let charge = BodyCharge(budget, source: try address(1))
      try charge.add(count)
      return charge
    }
    for number in 2...4 {
      let whole = BodyCharge(budget, source: try address(number))
      try whole.add(100)
      whole.markComplete()
    }
    try BodyCharge(budget, source: address(5)).add(1)
    #expect(throws: BodyBudget.Exceeded.self) { try own[1].add(1) }
    try own[0].add(1)
    try own[2].add(1)
  }

  @Test func `The connection of what has to go is closed`() throws {
    let budget = BodyBudget(limit: 10, largest: 10)
    let channel = EmbeddedChannel()
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    try BodyCharge(budget, source: address(1), channel: channel).add(10)
    #expect(channel.isActive)
    try BodyCharge(budget, source: address(2)).add(2)
    #expect(!channel.isActive)
  }

  // MARK: reading

  private func request(_ parts: [String], _ fields: HTTPFields) -> Request {
    let (stream, source) = AsyncStream.makeStream(of: ByteBuffer.self)
    for part in parts { source.yield(ByteBuffer(string: part)) }
    source.finish()
    return Request(
      head: HTTPRequest(method: .post, scheme: "http", authority: "a", path: "/", headerFields: fields),
      body: RequestBody(asyncSequence: stream))
  }

  @Test func `A body is put together`() async throws {
    let body = try await request(["ab", "cd", "e"], [.contentLength: "5"]).wholeBody(upTo: 5)
    #expect(String(buffer: body) == "abcde")
    #expect(try await request([], [:]).wholeBody(upTo: 5).readableBytes == 0)
  }

  @Test func `A body is asked for a part at a time, and needs no more room than it has`() async throws {
    let budget = BodyBudget(limit: 400, largest: 10)
    let charge = BodyCharge(budget, source: try address(1))
    let wishes = Wishes()
    let channel = await NIOAsyncTestingChannel(handler: wishes)
    let body = MeteredBody(
      body: request(["ab", "cd"].map { String(repeating: $0, count: 25) }, [:]).body, charge: charge,
      declared: 100, channel: channel)
    var read = 0
    for try await part in body { read += part.readableBytes }
    await channel.testingEventLoop.run()
    #expect(read == 100)
    #expect(budget.bytes == 100)
    // For two parts and its end.
    #expect(wishes.counter.value == 3)
  }

  /// Counts how often the connection was asked for a body.
  private final class Wishes: ChannelOutboundHandler, Sendable {
    typealias OutboundIn = Never
    let counter = Counter()

    func triggerUserOutboundEvent(
      context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
    ) {
      if event is BodyWanted { counter.increment() }
    }
  }

  @Test func `A body that is too long is refused`() async throws {
    await #expect(throws: NIOTooManyBytesError.self) {
      try await request(["abc", "def"], [.transferEncoding: "chunked"]).wholeBody(upTo: 5)
    }
    // The body never arrives: `Content-Length` alone leads to the refusal.
    let (never, source) = AsyncStream.makeStream(of: ByteBuffer.self)
    defer { source.finish() }
    let unheard = Request(
      head: HTTPRequest(
        method: .post, scheme: "http", authority: "a", path: "/", headerFields: [.contentLength: "6"]),
      body: RequestBody(asyncSequence: never))
    await #expect(throws: NIOTooManyBytesError.self) { try await unheard.wholeBody(upTo: 5) }
  }
}
