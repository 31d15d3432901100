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

  @Test func `an app subscribes, and is told of everything by its push service alone`() async throws {
    try await PushService.test { instance, service in
      let app = try await instance.user()
      let silent = try await service.browser(try await instance.app(of: app.user))
      #expect(try await silent.subscribe().status == 201)
      let browser = try await service.subscriber(app)
      let receipt = try await instance.sender.notify(app.user, .chat(7, "Hé/llo"))
      #expect(receipt.devices == 1)
      #expect(receipt.proxies == [.init(url: service.simulator.webPushEndpoint, status: nil, sent: 1)])
      _ = try await instance.sender.notify(app.user, Self.files(8))
      _ = try await instance.sender.notify(app.user, .deletion(nids: [7], app: nil))
      _ = try await instance.sender.notify(app.user, .deletion(nids: Array(1...21), app: "files"))
      _ = try await instance.sender.notify(app.user, .deletionOfAll)
      func nids(_ range: ClosedRange<Int>) -> String {
        #"{"nids":[\#(range.map(String.init).joined(separator: ","))],"delete-multiple":true}"#
      }
      let messages = try service.messages(of: browser)
      #expect(messages[0].hasPrefix(#"{"activationToken":""#))
      #expect(
        messages.dropFirst().prefix(3) == [
          #"{"nid":7,"app":"spreed","subject":"H\u00e9\/llo","type":"chat","id":"room"}"#,
          #"{"nid":8,"app":"files_sharing","subject":"Shared","type":"share","id":"12"}"#,
          #"{"nid":7,"delete":true}"#,
        ])
      // They go side by side.
      #expect(
        Set(messages.dropFirst(4).dropLast()) == [nids(1...10), nids(11...20), #"{"nid":21,"delete":true}"#])
      #expect(messages.last == #"{"delete-all":true}"#)
      let deliveries = service.deliveries(to: browser)
      #expect(deliveries.prefix(4).map { $0.header("urgency") } == ["normal", "high", "normal", "normal"])
      // A deletion takes the place of what it takes back.
      let topics = deliveries.map { $0.header("topic") }
      #expect(topics[1] != nil && topics[1] == topics[3] && topics[1] != topics[2])
      #expect(topics[0] == nil && topics.last == .some(nil))
      #expect(try service.messages(of: silent).count == 1)
    }
  }

  @Test func `a test goes there too, and who has deleted something is not told`() async throws {
    try await PushService.test { instance, service in
      let app = try await instance.user()
      let (mine, other) = (
        try await service.subscriber(app),
        try await service.subscriber(try await instance.app(of: app.user), appTypes: "admin_notifications")
      )
      let test = try await app.call(.post, "apps/notifications/api/v3/test/self")
      #expect(test.data?["message"]?.string == "\(service.simulator.webPushEndpoint): 2 sent")
      #expect(try await app.call(.delete, "apps/notifications/api/v2/notifications").status == 200)
      #expect(try service.messages(of: mine).count == 2)
      #expect(try service.messages(of: other).last == #"{"delete-all":true}"#)
    }
  }

  @Test func `each gets what it is for, deletions too`() async throws {
    try await PushService.test { instance, service in
      let app = try await instance.user()
      var browsers: [Browser] = []
      for appTypes in ["all,-talk", "talk", "files_sharing", ""] {
        browsers.append(
          try await service.subscriber(try await instance.app(of: app.user), appTypes: appTypes))
      }
      let user = app.user
      #expect(try await instance.sender.notify(user, .chat(1)).devices == 1)
      #expect(try await instance.sender.notify(user, Self.files(2)).devices == 2)
      #expect(try await instance.sender.notify(user, .deletion(nids: [1, 2], app: nil)).devices == 3)
      // Of one that nobody remembers everybody is told.
      #expect(try await instance.sender.notify(user, .deletion(nids: [3], app: nil)).devices == 4)
      let last = try browsers.map { try service.messages(of: $0).dropFirst().dropLast().last }
      let deletions: [String?] = [2, 1, 2].map { #"{"nid":\#($0),"delete":true}"# }
      #expect(last == deletions + [nil])
    }
  }

  @Test func `nobody is told twice: who has subscribed gets nothing by way of a proxy`() async throws {
    try await OthersHost.runProxy { proxy in
      try await PushService.test(Instance.localProxies) { instance, service in
        let app = try await instance.user()
        let other = try await instance.app(of: app.user)
        for app in [app, other] { try await app.register(proxy: proxy.url) }
        let waiting = try await service.browser(app)
        #expect(try await waiting.subscribe().status == 201)
        #expect(try await instance.sender.notify(app.user, .chat(1)).devices == 2)
        #expect(proxy.seen.flatMap(\.entries).count == 2)
        let browser = try await service.subscriber(app)
        let receipt = try await instance.sender.notify(app.user, .chat(2))
        #expect(receipt.devices == 2)
        #expect(services(receipt) == [[1, 0, 0, 0], [1, 0, 0, 0]])
        #expect(proxy.seen.flatMap(\.entries).count == 3)
        #expect(try service.messages(of: browser).count == 2)
        #expect(try await browser.unsubscribe().status == 202)
        #expect(try await instance.sender.notify(app.user, .chat(3)).devices == 2)
        #expect(proxy.seen.flatMap(\.entries).count == 5)
      }
    }
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

  @Test func `what a push service calls too long comes short, and so does all that follows`() async throws {
    try await PushService.test { instance, service in
      let app = try await instance.user()
      let browser = try await service.subscriber(app)
      let long = String(repeating: "a", count: 5_000)
      func subjects() throws -> [Int] {
        try service.messages(of: browser).dropFirst().map {
          try #require(try JSON.parse($0)["subject"]?.string).unicodeScalars.count
        }
      }
      _ = try await instance.sender.notify(app.user, .chat(1, long))
      service.answer(browser, with: 413, times: 1)
      #expect(services(try await instance.sender.notify(app.user, .chat(2, long))) == [[1, 0, 0, 0]])
      _ = try await instance.sender.notify(app.user, .chat(3, long))
      // As much as fits, with the mark of the cut.
      let whole = 3000 - 2 - (67 - "1337".count + 1 - "t0k3n".count + "room".count) + 1
      #expect(try subjects() == [whole, 136, 136])
      #expect(try await browser.subscribe().status == 200)
      _ = try await instance.sender.notify(app.user, .chat(4, long))
      #expect(try subjects().last == whole)
      // What is short already cannot be shortened.
      service.answer(browser, with: 413, times: 2)
      #expect(services(try await instance.sender.notify(app.user, .chat(5))) == [[0, 1, 0, 0]])
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

  @Test func `a push service that wants to be left alone is, and gets everything then`() async throws {
    try await PushService.test(isWorking: true) { instance, service in
      let app = try await instance.user()
      let browser = try await service.subscriber(app)
      await service.faults { faults in
        faults.status = 429
        faults.retryAfter = "1"
      }
      for nid in Int64(1)...3 {
        #expect(services(try await instance.sender.notify(app.user, .chat(nid))) == [[0, 0, 0, 1]])
      }
      await service.faults { _ in }
      try await eventually("all has come") { try service.messages(of: browser).count == 4 }
      #expect(try await instance.counts() == [1, 1])
    }
  }

  @Test func `a subscription that has gone takes what waits for it along`() async throws {
    try await PushService.test(isWorking: true) { instance, service in
      let app = try await instance.user()
      let (old, new) = (try await service.subscriber(app), try await service.browser(app))
      await service.faults { $0.status = 503 }
      _ = try await instance.sender.notify(app.user, .chat(1))
      #expect(try await new.subscribe().status == 201)
      await service.faults { _ in }
      try await eventually("nothing waits") {
        instance.clock.advance(30)
        return try await instance.test.rows("SELECT 1 FROM outbox").isEmpty
      }
      #expect(try service.messages(of: old).count == 1)
      #expect(try service.messages(of: new).count == 1)
    }
  }
}
