import Delivery
import Foundation
import Logging
import ProviderSimulator
import Providers
import Registrations
import Sealing
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("An old app's device that moves to the upstream bouncer")
struct UpstreamHandOverTests {
  private let user = OldUser(id: 10)

  @Test(arguments: [true, false])
  func `gets nothing more from us, and what is lost by that is told`(isPassedOn: Bool) async throws {
    let log = LogRecorder()
    try await BeforeZulips.test(logger: log.logger) { place in
      let form = user.register("stores", .fcm, realm: place.realm)
      try #require(try await place.bouncer.post("push/register", form, as: place.server).isSuccess)
      place.ours.simulator.setToken("stores", .init(status: 403, reason: "SENDER_ID_MISMATCH"))
      let server = try #require(try await place.bouncer.servers.find(hostname: "chat.example.org")).id
      let owner = try #require(LegacyUser(id: user.id, uuid: UUID(uuidString: user.uuid)))
      let token = try PushToken("stores", kind: .fcm)
      let device = try await place.bouncer.registrations.find(token, of: owner, server: server)
      var push = RegisteredPush(
        push: .fcm(FCMMessage(token: "stores", data: ["event": "message"])),
        registration: try #require(device).reference, owner: .chatServer(server))
      // One that comes from the outbox has no caller who would pass it on.
      push.movesOnMismatch = isPassedOn
      var later = push
      later.notBefore = place.bouncer.clock.now + 600
      // The second was not sent; the first one's answer decides over both.
      let results = try await place.bouncer.parts.deliverer.deliver([push, later])
      #expect(results == [.refused(.fcmSenderIDMismatch), .refused(.fcmSenderIDMismatch)])
      #expect(try await place.bouncer.rows("SELECT elsewhere FROM registrations") == [[0]])
      let lost = log.lines.filter {
        $0.metadata["token"] == "\(PushToken.fingerprint(of: "stores"))" && $0.message != "notification waits"
      }
      #expect(lost.map(\.message) == (isPassedOn ? [] : ["notification refused", "notification refused"]))
    }
  }
}
