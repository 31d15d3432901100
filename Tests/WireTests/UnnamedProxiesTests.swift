import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import Synchronization
import Testing

@testable import Wire

/// Headers that only a proxy should send.
@Suite struct UnnamedProxiesTests {
  private final class Warnings: Sendable {
    let addresses = Mutex<[String]>([])
    var logger: Logger { Logger(label: "test") { _ in Handler(warnings: self) } }
  }

  private struct Handler: LogHandler {
    let warnings: Warnings
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(
      level: Logger.Level, message: Logger.Message, metadata: Logger.Metadata?, source: String, file: String,
      function: String, line: UInt
    ) {
      guard level == .warning, let address = metadata?["address"], metadata?["advice"] != nil else { return }
      warnings.addresses.withLock { $0.append("\(address)") }
    }
  }

  @Test func `An address is told of once an hour, and not too many in all`() throws {
    let warnings = Warnings()
    let time = Mutex(ContinuousClock.now)
    let proxies = UnnamedProxies(now: { time.withLock { $0 } })
    func report(_ addresses: [String]) throws -> [String] {
      warnings.addresses.withLock { $0 = [] }
      for address in addresses { proxies.report(try #require(ClientAddress(address)), to: warnings.logger) }
      return warnings.addresses.withLock { $0 }
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
    let warnings = Warnings()
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
        to: request, context: WireContext(inProcess: warnings.logger))
      #expect(response.status == .ok)
    }
    #expect(warnings.addresses.withLock { $0 } == (trusted == nil ? ["127.0.0.1"] : []))
  }
}
