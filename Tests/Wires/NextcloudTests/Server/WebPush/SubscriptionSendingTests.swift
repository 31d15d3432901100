import Foundation
import HTTP
import HTTPTypes
import ProviderSimulator
import Registrations
import SQL
import TestService
import TestSupport
import Testing

@testable import NextcloudServer
@testable import Server

/// `Documentation/Protocols/Nextcloud.md` 6.6.
@Suite struct SubscriptionSendingTests {
  private static func files(_ nid: Int64, _ subject: String = "Shared") -> NextcloudMessage {
    .notification(.init(nid: nid, app: "files_sharing", subject: subject, type: "share", id: "12"))
  }

  private func services(_ receipt: NextcloudReceipt) -> [[Int]] {
    receipt.proxies.map { [$0.sent, $0.failed, $0.unknown, $0.queued] }
  }

  @Test(arguments: [404, 410])
  func `an endpoint that is dead ends every subscription with it`(status: Int) async throws {
    try await PushService.test { instance, service in
      let (alice, bob) = (try await instance.user(), try await instance.user("bob", id: 11))
      let browser = try await service.subscriber(alice)
      let living = try await service.subscriber(try await instance.app(of: alice.user))
      // The same browser, of somebody else.
      #expect(try await Browser(bob, endpoint: browser.endpoint).subscribe().status == 201)
      #expect(try await instance.counts() == [3, 2])
      service.answer(browser, with: status)
      let receipt = try await instance.sender.notify(alice.user, .deletion(nids: Array(1...30), app: nil))
      #expect(services(receipt) == [[3, 3, 1, 0]])
      #expect(try await instance.counts() == [1, 1])
      #expect(try service.messages(of: living).count == 4)
      #expect(try await browser.activate("x").code == "NO_PUSH_SUBSCRIPTION")
    }
  }

  @Test func `an outage loses nothing, and what is taken back meanwhile is never sent`() async throws {
    try await PushService.test(isWorking: true) { instance, service in
      let app = try await instance.user()
      let browser = try await service.subscriber(app)
      let late = try await service.browser(try await instance.app(of: app.user))
      await service.faults { $0.status = 503 }
      for nid in Int64(1)...4 {
        #expect(services(try await instance.sender.notify(app.user, .chat(nid))) == [[0, 0, 0, 1]])
      }
      // The activation is promised as well.
      #expect(try await late.subscribe().status == 201)
      _ = try await instance.sender.notify(app.user, .deletion(nids: [2, 3], app: nil))
      #expect(try service.messages(of: browser).count == 1)
      await service.faults { _ in }
      try await eventually("all has come") {
        instance.clock.advance(30)
        return try await instance.test.rows("SELECT 1 FROM outbox").isEmpty
      }
      let messages = try service.messages(of: browser).dropFirst().map { try JSON.parse($0) }
      #expect(Set(messages.compactMap { $0["nid"]?.integer }) == [1, 4])
      #expect(try service.messages(of: browser).contains(#"{"nids":[2,3],"delete-multiple":true}"#))
      #expect(try service.messages(of: browser).count == 4)
      #expect(try service.messages(of: late).count == 1)
    }
  }

  @Test func `that all are gone drops what waits, and waits itself`() async throws {
    try await PushService.test { instance, service in
      let app = try await instance.user()
      _ = try await service.subscriber(app)
      await service.faults { $0.status = 503 }
      for nid in Int64(1)...3 { _ = try await instance.sender.notify(app.user, Self.files(nid)) }
      #expect(try await instance.test.rows("SELECT 1 FROM outbox").count == 3)
      #expect(services(try await instance.sender.notify(app.user, .deletionOfAll)) == [[0, 0, 0, 1]])
      #expect(try await instance.test.rows("SELECT 1 FROM outbox").count == 1)
      // Who has deleted them is not told, and gets none of them any more.
      _ = try await instance.sender.notify(app.user, Self.files(4))
      _ = try await instance.sender.notify(app.user, .deletionOfAll, except: app.appPassword)
      #expect(try await instance.test.rows("SELECT 1 FROM outbox").count == 0)
      // The same notification again takes the place of the one that waits.
      for _ in 0..<2 { _ = try await instance.sender.notify(app.user, Self.files(5)) }
      #expect(try await instance.test.rows("SELECT 1 FROM outbox").count == 1)
    }
  }
}
