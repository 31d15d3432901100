import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import NIOHTTP1
import NIOSSL
import ProviderSimulator
import TestSupport
import Testing

@testable import NextcloudServer

/// A push service beside an instance, with what its apps do there.
struct PushService: Sendable {
  let simulator: SimulatedProviders
  private let client: HTTPClient

  /// Runs a test.
  static func test(
    _ settings: [String: String] = [:], isWorking: Bool = false,
    _ test: @escaping @Sendable (Instance, PushService) async throws -> Void
  ) async throws {
    let simulator = try await SimulatedProviders.start()
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.trustRoots = .certificates([
      try NIOSSLCertificate(bytes: Array(simulator.certificateAuthorityPEM.utf8), format: .pem)
    ])
    try await withCleanUp {
      try await HTTPClient.withHTTPClient(configuration: .init(tlsConfiguration: tls)) { client in
        let service = PushService(simulator: simulator, client: client)
        try await service.test(settings, isWorking: isWorking, test)
      }
    } cleanUp: {
      await simulator.stop()
    }
  }

  private func test(
    _ settings: [String: String], isWorking: Bool,
    _ test: @escaping @Sendable (Instance, PushService) async throws -> Void
  ) async throws {
    try await withTemporaryFolder { folder in
      let file = folder.appending(path: "ca.pem")
      try simulator.certificateAuthorityPEM.write(to: file, atomically: true, encoding: .utf8)
      let own = Instance.localPushServices.merging(["providers.ca_file": file.path]) { $1 }
      // Tokens are signed for the simulator, which goes by the time of day.
      try await Instance.test(
        own.merging(settings) { $1 }, clock: TestClock(nil), isWorking: isWorking
      ) { instance in try await test(instance, self) }
    }
  }

  /// A browser with an endpoint here.
  func browser(_ app: SignedIn) async throws -> Browser {
    let key = try #require(app.instance.webPush.vapidKey)
    var request = HTTPClientRequest(url: "\(simulator.webPushEndpoint)/subscriptions")
    request.method = .POST
    request.body = .bytes(ByteBuffer(string: #"{"vapid":"\#(key)"}"#))
    let answer = try await client.execute(request, timeout: TimeAmount(longestWait))
    let body = try await answer.body.collect(upTo: 1 << 16)
    return Browser(app, endpoint: try #require(try JSON.parse(body)["endpoint"]?.string))
  }

  /// One that has subscribed and is active, by what has come to it.
  func subscriber(_ app: SignedIn, appTypes: String = "all") async throws -> Browser {
    let browser = try await browser(app)
    #expect(try await browser.subscribe(appTypes: appTypes).status == 201)
    let told = try messages(of: browser)
    #expect(told.count == 1)
    let token = try #require(try JSON.parse(told[0])["activationToken"]?.string)
    #expect(try await browser.activate(token).status == 202)
    return browser
  }

  /// Sets the answer for a browser.
  func answer(_ browser: Browser, with status: Int, times: Int? = nil) {
    simulator.setToken(Self.id(of: browser), TokenRule(status: status, times: times))
  }

  /// Changes the faults for all browsers.
  func faults(_ change: (inout ProviderFaults) -> Void) async {
    var faults = Faults()
    change(&faults.webPush)
    await simulator.setFaults(faults)
  }

  /// The part of an endpoint that tells it from others.
  static func id(of browser: Browser) -> String {
    browser.endpoint.split(separator: "/").last.map(String.init) ?? ""
  }

  /// The messages accepted for a browser.
  func deliveries(to browser: Browser) -> [Delivery] {
    simulator.deliveries().filter { $0.provider == .webPush && $0.token == Self.id(of: browser) }
  }

  /// The messages that a browser received, decrypted.
  func messages(of browser: Browser) throws -> [String] {
    try deliveries(to: browser).map {
      String(decoding: try browser.phone.open([UInt8]($0.payload)), as: UTF8.self)
    }
  }
}
