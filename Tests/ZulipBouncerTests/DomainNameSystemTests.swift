import NIOCore
import NIOPosix
import Testing

@testable import ZulipBouncer

@Suite("The domain name system")
struct DomainNameSystemTests {
  /// Record types as they stand in messages.
  private static let (address, alias, mailExchange): (UInt16, UInt16, UInt16) = (1, 5, 15)

  /// What a name server says to a question.
  struct Reply: Sendable {
    var code: UInt8 = 0
    var isCutShort = false
    var records: [UInt16] = []

    func message(to question: [UInt8]) -> [UInt8] {
      var message = question
      message[2] = isCutShort ? 0x83 : 0x81
      message[3] = 0x80 | code
      message[7] = UInt8(records.count)
      for type in records {
        let data = [UInt8](repeating: 0, count: type == DomainNameSystemTests.address ? 4 : 3)
        message += [0xc0, 12, UInt8(type >> 8), UInt8(truncatingIfNeeded: type), 0, 1, 0, 0, 0, 60]
        message += [0, UInt8(data.count)] + data
      }
      return message
    }
  }

  /// Answers each question by its record type; nil stands for silence.
  private final class Answering: ChannelInboundHandler {
    typealias InboundIn = AddressedEnvelope<ByteBuffer>
    typealias OutboundOut = AddressedEnvelope<ByteBuffer>

    let answer: @Sendable (UInt16) -> Reply?

    init(_ answer: @escaping @Sendable (UInt16) -> Reply?) {
      self.answer = answer
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      let envelope = unwrapInboundIn(data)
      let question = Array(envelope.data.readableBytesView)
      let type = UInt16(question[question.count - 4]) << 8 | UInt16(question[question.count - 3])
      guard let reply = answer(type)?.message(to: question) else { return }
      context.writeAndFlush(
        wrapOutboundOut(.init(remoteAddress: envelope.remoteAddress, data: ByteBuffer(bytes: reply))),
        promise: nil)
    }
  }

  /// What is found of `domain` where a name server answers so.
  private func find(
    _ domain: String, _ answer: @escaping @Sendable (UInt16) -> Reply?
  ) async throws -> MailExchange {
    let channel = try await DatagramBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(Answering(answer))
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    let port = try #require(channel.localAddress?.port)
    let found = await DomainNameSystem(port: UInt16(port), seconds: 60).mailExchange(of: domain)
    try await channel.close()
    return found
  }

  @Test
  func `tells where a domain's mail goes`() async throws {
    #expect(
      try await find("mail.example") { _ in Reply(records: [Self.alias, Self.mailExchange]) } == .found)
    // Not all of them fit.
    #expect(try await find("cut.example") { _ in Reply(isCutShort: true) } == .found)
  }

  @Test
  func `tells that a domain has no mail exchanger, or is not there`() async throws {
    #expect(
      try await find("address.example") { Reply(records: $0 == Self.address ? [$0] : []) } == .none)
    #expect(try await find("alias.example") { _ in Reply(records: [Self.alias]) } == .noSuchDomain)
    #expect(try await find("empty.example") { _ in Reply() } == .noSuchDomain)
    #expect(try await find("gone.example") { _ in Reply(code: 3) } == .noSuchDomain)
  }

  @Test
  func `holds nothing against a domain that no server tells of`() async throws {
    #expect(try await find("failing.example") { _ in Reply(code: 2) } == .unknown)
    let silent = try await DatagramBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .bind(host: "127.0.0.1", port: 0).get()
    let port = try #require(silent.localAddress?.port)
    let system = DomainNameSystem(port: UInt16(port), seconds: 1)
    #expect(await system.mailExchange(of: "silent.example") == .unknown)
    try await silent.close()
  }

  @Test
  func `finds nothing in what is no reply`() {
    let question: [UInt8] = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 97, 0, 0, 15, 0, 1]
    let whole = Reply(records: [Self.alias, Self.mailExchange, Self.mailExchange]).message(to: question)
    #expect(DomainNameSystem.count(.mailExchange, in: whole[...]) == 2)
    for count in 0..<whole.count {
      #expect(DomainNameSystem.count(.mailExchange, in: whole.prefix(count)) == 0)
    }
    var random = SystemRandomNumberGenerator()
    for _ in 0..<1000 {
      let noise = question.prefix(2) + (0..<60).map { _ in UInt8.random(in: 0...255, using: &random) }
      #expect((0..<65536).contains(DomainNameSystem.count(.mailExchange, in: noise)))
    }
  }
}
