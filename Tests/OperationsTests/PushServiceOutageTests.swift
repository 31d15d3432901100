import Crypto
import Foundation
import HTTP
import NIOCore
import ProviderSimulator
import Providers
import TestSupport
import Testing

@testable import Operations

/// Push services that go away and come back, as the operator sees them.
@Suite(.timeLimit(.minutes(5))) struct PushServiceOutageTests {
  /// What sends to push services of the simulator's.
  private struct Stage {
    let services: [SimulatedProviders]
    let providers: PushProviders

    static func test(_ count: Int, _ test: (Stage) async throws -> Void) async throws {
      try await withTemporaryFolder { folder in
        var services: [SimulatedProviders] = []
        for _ in 0..<count { services.append(try await SimulatedProviders.start()) }
        let file = folder.appending(path: "ca.pem")
        let roots = try services.map { try $0.certificateAuthorityPEM }.joined(separator: "\n")
        try Data(roots.utf8).write(to: file)
        let providers = try PushProviders(
          configuration: .init(
            caFile: file.path,
            webPush: .init(key: VAPIDKey(), contact: "mailto:a@example.org", privateHosts: ["127.0.0.1"])))
        let stage = Stage(services: services, providers: providers)
        let result: Result<Void, any Error>
        do { result = .success(try await test(stage)) } catch { result = .failure(error) }
        await providers.shutdown(within: .zero)
        for service in services { await service.stop() }
        try result.get()
      }
    }

    /// To a phone that the push service does not know: it answers all the same.
    func say(to service: Int) async throws {
      let key = P256.KeyAgreement.PrivateKey().publicKey.x963Representation
      let subscription = try WebPushSubscription(
        endpoint: "\(services[service].webPushEndpoint)/push/nobody", p256dh: key.base64URL,
        auth: Data(repeating: 7, count: 16).base64URL)
      let message = WebPushMessage(
        subscription: subscription, body: ByteBuffer(string: "hello"), urgency: .normal, timeToLive: 60,
        collapseID: nil)
      _ = await providers.send(.webPush(message), deadline: .now + .seconds(30))
    }

    /// Whether a push service answers with an error from now on.
    func set(_ service: Int, failing: Bool) async {
      var faults = Faults()
      if failing { faults.webPush.status = 503 }
      await services[service].setFaults(faults)
    }

    func set(failing: Range<Int>) async throws {
      for service in failing {
        await set(service, failing: true)
        try await eventually("\(service) fails") {
          try await say(to: service)
          return now.listed.contains { $0.route.credential.hasSuffix(":\(services[service].webPushPort)") }
        }
      }
    }

    /// How Web Push fares.
    var now: PushServices {
      PushServices(
        providers.webPushSenders.map {
          .init(route: $0.route, state: $0.state, triedAt: $0.triedAt, hasAnswered: $0.hasAnswered)
        }, waiting: [:], now: Date())
    }
  }

  @Test func `One among several that fails is listed, all of them are an outage, and it passes`() async throws
  {
    try await Stage.test(4) { stage in
      for service in 0..<4 { try await stage.say(to: service) }
      #expect(stage.now.working == 4 && stage.now.failing == 0 && stage.now.state == .ok)

      try await stage.set(failing: 0..<1)
      #expect(stage.now.working == 3 && stage.now.failing == 1 && stage.now.outage == nil)
      #expect(stage.now.listed.map(\.reason) == [.serverError])
      #expect(stage.now.listed.first?.hasAnswered == true)

      try await stage.set(failing: 1..<4)
      #expect(stage.now.working == 0 && stage.now.outage?.reason == .serverError)

      for service in 0..<4 { await stage.set(service, failing: false) }
      try await eventually("all work again") {
        for service in 0..<4 { try await stage.say(to: service) }
        return stage.now.working == 4
      }
      #expect(stage.now.outage == nil && stage.now.listed.isEmpty)
    }
  }
}

extension Data {
  fileprivate var base64URL: String {
    base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }
}
