import TestServers
import Testing

@testable import Providers

@Suite("Push services with several addresses")
struct WebPushAddressTests {
  private static let addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.1"]

  @Test func `One is reached although four of its addresses swallow packets`() async throws {
    let service = try await TestWebServer.start()
    let silent = try Self.addresses.dropLast().map { try SilentAddress($0, port: service.port) }
    let providers = try WebPushTests.providers(names: .init(["localhost": Self.addresses]))
    let push = try WebPushTests.push(to: "https://localhost:\(service.port)/1")
    #expect(await WebPushTests.send(push, providers) == .delivered)
    withExtendedLifetime(silent) {}
  }

  @Test func `One is reached although four of its addresses refuse`() async throws {
    let service = try await TestWebServer.start()
    let providers = try WebPushTests.providers(names: .init(["localhost": Self.addresses]))
    let push = try WebPushTests.push(to: "https://localhost:\(service.port)/1")
    #expect(await WebPushTests.send(push, providers) == .delivered)
  }
}
