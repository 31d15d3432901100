import Crypto
import Foundation
import HTTP
import NIOCore
import ProviderSimulator
import Providers
import TestSupport
import Testing

@testable import Operator

/// A push service that goes away and comes back, as the operator sees it.
@Suite struct PushServiceOutageTests {
  @Test func `One that fails is listed as one that has worked, and it passes`() async throws {
    try await withTemporaryFolder { folder in
      let simulator = try await SimulatedProviders.start()
      let file = folder.appending(path: "ca.pem")
      try Data(simulator.certificateAuthorityPEM.utf8).write(to: file)
      let providers = try PushProviders(
        configuration: .init(
          caFile: file.path,
          webPush: .init(key: VAPIDKey(), contact: "mailto:a@example.org", privateHosts: ["127.0.0.1"])))
      // A phone that the push service does not know: it answers all the same.
      let key = P256.KeyAgreement.PrivateKey().publicKey.x963Representation
      let message = WebPushMessage(
        subscription: try WebPushSubscription(
          endpoint: "\(simulator.webPushEndpoint)/push/nobody", p256dh: key.base64URL,
          auth: Data(repeating: 7, count: 16).base64URL),
        body: ByteBuffer(string: "hello"), urgency: .normal, timeToLive: 60, collapseID: nil)
      func services() async -> PushServices {
        _ = await providers.sendOnce(.webPush(message), within: .seconds(30))
        return PushServices(
          providers.webPushSenders.map {
            .init(route: $0.route, state: $0.state, triedAt: $0.triedAt, hasAnswered: $0.hasAnswered)
          }, waiting: [:], now: Date())
      }
      var now = await services()
      #expect(now.working == 1 && now.failing == 0 && now.state == .ok)

      var faults = Faults()
      faults.webPush.status = 503
      await simulator.setFaults(faults)
      await eventually("it fails") {
        now = await services()
        return now.failing == 1
      }
      #expect(now.working == 0 && now.outage?.reason == .serverError)
      #expect(now.listed.map(\.reason) == [.serverError] && now.listed.first?.hasAnswered == true)

      await simulator.setFaults(Faults())
      await eventually("it works again") {
        now = await services()
        return now.working == 1
      }
      #expect(now.outage == nil && now.listed.isEmpty)
      await providers.shutdown(within: .zero)
      await simulator.stop()
    }
  }
}

extension Data {
  fileprivate var base64URL: String {
    base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }
}
