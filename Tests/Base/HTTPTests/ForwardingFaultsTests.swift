import Basics
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import TestSupport
import Testing

@testable import HTTP

/// Where `X-Forwarded-For` does not say who calls.
@Suite struct ForwardingFaultsTests {
  /// The addresses that were logged for the operator.
  private static func addresses(_ log: LogRecorder) -> [String] {
    log.lines.filter { $0.level == .warning && $0.metadata["advice"] != nil }
      .compactMap { $0.metadata["address"]?.description }
  }

  @Test func `An address is told of once an hour, and not too many in all`() throws {
    let clock = TestClock()
    let proxies = ForwardingFaults(now: { clock.now })
    func report(_ addresses: [String]) throws -> [String] {
      let log = LogRecorder()
      for address in addresses {
        proxies.report(.untrusted, of: try #require(ClientAddress(address)), to: log.logger)
      }
      return Self.addresses(log)
    }
    let first = ["192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::2", "192.0.2.1"]
    #expect(try report(first) == ["192.0.2.1", "2001:db8::1"])
    let many = (1...100).map { "198.51.100.\($0)" }
    #expect(try report(many).count == ForwardingFaults.maximum - 2)
    clock.advance(3599)
    #expect(try report(first + many).isEmpty)
    clock.advance(1)
    #expect(try report(first) == ["192.0.2.1", "2001:db8::1"])
  }

  @Test(arguments: ["127.0.0.1", nil])
  func `Who sends it and is named is believed, others are told of`(trusted: String?) async throws {
    let log = LogRecorder()
    let router = Routes()
    router.add(
      EnvelopeLayer(
        trustedProxies: [trusted.flatMap(ClientAddress.Network.init)].compactMap(\.self),
        forwarding: ForwardingFaults()))
    router.endpoint("/", .get) { _, _ in Response(status: .ok) }
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

  @Test(
    arguments: [
      ("1.2.3.4, unknown", "10.0.0.1", "unknown"), ("1.2.3.4, unknown, 10.0.0.2:80", "10.0.0.2", "unknown"),
      ("fe80::1%eth0", "10.0.0.1", "fe80::1%eth0"), (" \u{7}x\u{e9} ", "10.0.0.1", "?x??"),
      (String(repeating: "1", count: 100), "10.0.0.1", String(repeating: "1", count: 64)),
    ])
  func `An entry that is no address is told of once, with the proxy that sent it`(
    header: String, proxy: String, entry: String
  ) throws {
    let clock = TestClock()
    let (faults, log) = (ForwardingFaults(now: { clock.now }), LogRecorder())
    let trusted = try #require(ClientAddress.Network("10.0.0.0/30"))
    #expect(faults.unreadable == nil)
    for _ in 0..<3 {
      let path = ForwardedFor(header, from: try #require(ClientAddress("10.0.0.1")), trusted: [trusted])
      faults.report(try #require(path.fault), of: path.proxy, to: log.logger)
    }
    #expect(Self.addresses(log) == [proxy])
    #expect(log.lines.first?.metadata["entry"]?.description == entry)
    #expect(faults.unreadable == .init(proxy: proxy, entry: entry))
    clock.advance(3600)
    #expect(faults.unreadable == nil)
  }
}
