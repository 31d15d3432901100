import Delivery
import Foundation
import HTTP
import HTTPTypes
import ProviderSimulator
import Registrations
import SQL
import Sealing
import TestSupport
import Testing

@testable import NextcloudProxy

@Suite("A notification at the Nextcloud proxy")
struct ProxyNotificationsTests {
  private var bench: ProxyBench { Fixture.current }

  private func registered(_ app: ProxyPhone.App, at bench: ProxyBench) async throws -> ProxyPhone {
    let phone = ProxyPhone(app)
    let answer = try await phone.register(at: bench)
    try #require(answer.status == 200)
    return phone
  }

  @Test(.bench)
  func `is sent once when its request is sent again, for five minutes`() async throws {
    let phone = try await registered(.talkAndroid, at: bench)
    let other = try await registered(.talkAndroid, at: bench)
    let subject = ProxyPhone.ciphertext()
    let entry = phone.entry(subject: subject)
    for _ in 0..<3 {
      // The same text for another device is another notification.
      let answer = try await bench.notify([entry, entry, other.entry(subject: subject)])
      #expect(answer.failed == 0 && answer.unknown == [])
    }
    #expect(bench.simulator.deliveries().count == 2)
    bench.clock.advance(301)
    #expect(try await bench.notify([entry]).failed == 0)
    #expect(bench.simulator.deliveries().count == 3)
  }

  @Test(arguments: [ProxyPhone.App.talkAndroid, .talkIOS])
  func `of a call is not kept until nobody waits any more`(app: ProxyPhone.App) async throws {
    try await ProxyBench.test({
      $0.settings["nextcloud.deadline"] = "200ms"
      $0.isSending = false
    }) { bench in
      let phone = try await registered(app, at: bench)
      await bench.faults {
        $0.apns.outage = true
        $0.fcm.outage = true
      }
      #expect(try await bench.notify([phone.entry("voip")]).failed == 0)
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 1)
      bench.clock.advance(61)
      await bench.faults { _ in }
      let sending = Task { await bench.sender.run() }
      defer { sending.cancel() }
      try await eventually { try await bench.number("SELECT COUNT(*) FROM outbox") == 0 }
      #expect(bench.simulator.deliveries().isEmpty)
    }
  }

  @Test(.bench)
  func `for a token that its phone has yet to bring fails for an hour, and only then is nobody's`()
    async throws
  {
    bench.clock.stop()
    let old = try await registered(.talkAndroid, at: bench)
    var new = old
    new.token = ProxyPhone.App.talkAndroid.token
    for pause in [1800.0, 1799, 2] {
      let answer = try await bench.notify([new.entry()])
      #expect(answer.unknown == [] && answer.failed == 1)
      bench.clock.advance(pause)
    }
    bench.clock.isTrusted = false
    #expect(try await bench.notify([new.entry()]).unknown == [])
    bench.clock.isTrusted = true
    #expect(try await bench.notify([new.entry()]).unknown == [new.identifierText])
    // The phone brings it after all, and all is well; the next token has its own hour.
    #expect(try await new.register(at: bench).status == 200)
    #expect(try await bench.notify([new.entry()]).failed == 0)
    #expect(try await bench.notify([old.entry()]).unknown == [])
  }

  @Test
  func `that a provider refuses has failed, and so has one that no key serves; the operator sees why`()
    async throws
  {
    try await ProxyBench.test({ $0.topics = ["it.twsweb.Nextcloud"] }) { bench in
      let refused = try await registered(.talkAndroid, at: bench)
      let unserved = try await registered(.talkIOS, at: bench)
      let fine = try await registered(.filesIOS, at: bench)
      bench.simulator.setToken(refused.token, TokenRule(status: 400, reason: "INVALID_ARGUMENT"))
      let answer = try await bench.notify([refused.entry(), unserved.entry(), fine.entry()])
      #expect(answer.unknown == [] && answer.failed == 2)
      let counts = try await bench.devices.counts()
      #expect(counts.map(\.app) == ["Files for iOS", "Talk for Android", "Talk for iOS"])
      #expect(counts.map(\.devices) == [1, 1, 1])
      #expect(counts[0].failures.isEmpty)
      #expect(counts[1].failures.count == 1)
      #expect(counts[2].failures == ["unconfigured": 1])
      // What failed may be tried again.
      #expect(try await bench.notify([unserved.entry()]).failed == 1)
    }
  }

  @Test(.bench)
  func `of a thousand is judged in one go`() async throws {
    var phones: [ProxyPhone] = []
    for index in 0..<50 {
      let phone = ProxyPhone(user: ProxyPhone.users[index % 2])
      #expect(try await phone.register(at: bench).status == 200)
      phones.append(phone)
    }
    // Every third is forged.
    let entries = (0..<1000).map { index in
      var phone = phones[index % 50]
      if index % 3 == 0 { phone.user = ProxyPhone.users[(index + 1) % 2] }
      return phone.entry()
    }
    let answer = try await bench.notify(entries)
    #expect(answer.unknown == [] && answer.failed == 334)
    #expect(bench.simulator.deliveries().count == 666)
  }
}
