import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import HTTP

/// Headers that only a proxy should send.
@Suite struct UnnamedProxiesTests {
  /// The addresses that were logged for the operator.
  private static func addresses(_ log: LogRecorder) -> [String] {
    log.lines.filter { $0.level == .warning && $0.metadata["advice"] != nil }
      .compactMap { $0.metadata["address"]?.description }
  }

  @Test func `An address is told of once an hour, and not too many in all`() throws {
    let time = Mutex(ContinuousClock.now)
    let proxies = UnnamedProxies(now: { time.withLock { $0 } })
    func report(_ addresses: [String]) throws -> [String] {
      let log = LogRecorder()
      for address in addresses { proxies.report(try #require(ClientAddress(address)), to: log.logger) }
      return Self.addresses(log)
    }
    let first = ["192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::2", "192.0.2.1"]
    #expect(try report(first) == ["192.0.2.1", "2001:db8::1"])
    let many = (1...100).map { "198.51.100.\($0)" }
    #expect(try report(many).count == UnnamedProxies.maximum - 2)
    time.withLock { $0 += .seconds(3599) }
    #expect(try report(first + many).isEmpty)
    time.withLock { $0 += .seconds(1) }
    #expect(try report(first) == ["192.0.2.1", "2001:db8::1"])
  }

  @Test(arguments: ["127.0.0.1", nil])
  func `Who sends it and is named is believed, others are told of`(trusted: String?) async throws {
    let log = LogRecorder()
    let router = Router(context: WireContext.self)
    router.add(
      middleware: EnvelopeMiddleware(
        trustedProxies: [trusted.flatMap(ClientAddress.Network.init)].compactMap(\.self),
        unnamedProxies: UnnamedProxies()))
    router.get("/") { _, context in "\(context.clientAddress)" }
    let responder = router.buildResponder()
    for header in ["192.0.2.7", nil] {
      var headers: HTTPFields = [:]
      headers[.xForwardedFor] = header
      let request = Request(
        head: .init(method: .get, scheme: nil, authority: nil, path: "/", headerFields: headers),
        body: .init(buffer: ByteBuffer()))
      let response = try await responder.respond(
        to: request, context: WireContext(inProcess: log.logger))
      #expect(response.status == .ok)
    }
    #expect(Self.addresses(log) == (trusted == nil ? ["127.0.0.1"] : []))
  }
}
