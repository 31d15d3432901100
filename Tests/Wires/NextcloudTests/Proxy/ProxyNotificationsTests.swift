import Delivery
import Foundation
import HTTP
import HTTPTypes
import Logging
import MetricsTestKit
import ProviderSimulator
import Providers
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
  func `reaches a phone that was never sent to, whoever else registers its identifier`() async throws {
    let squatted = ProxyPhone()
    func squat(_ phone: ProxyPhone, isSending: Bool) async throws {
      for (number, key) in ProxyPhone.strangers.enumerated() {
        var other = phone
        (other.user, other.token) = (key, phone.app.token)
        #expect(try await other.register(at: bench, from: "2001:db8:7:\(number)::1").status == 200)
        // A notification that a stranger signs is one, too.
        guard isSending else { continue }
        #expect(try await bench.notify([other.entry()], address: "2001:db8:7::1").failed == 0)
      }
    }
    let phone = try await registered(.talkAndroid, at: bench)
    try await squat(phone, isSending: false)
    try await squat(squatted, isSending: true)
    #expect(try await squatted.register(at: bench).status == 200)
    for _ in 0..<2 {
      let answer = try await bench.notify([phone.entry(), squatted.entry()])
      #expect(answer.failed == 0 && answer.unknown == [])
    }
  }

  @Test(.bench)
  func `finds its key among as many as its device can have`() async throws {
    bench.clock.stop()
    let phone = ProxyPhone()
    func fill(_ numbers: ClosedRange<UInt8>) async throws {
      for number in numbers {
        try await bench.devices.register(
          .init(
            identifier: phone.identifier, userKey: [UInt8](repeating: number, count: 294), token: "\(number)",
            tokenHash: [UInt8](repeating: number, count: 64),
            destination: .init(kind: .fcm, app: "Talk for Android", target: nil)),
          of: .address(1, in: 1))
      }
    }
    try await fill(1...15)
    #expect(try await phone.register(at: bench).status == 200)
    #expect(try await bench.notify([phone.entry()]).failed == 0)
    try await fill(16...17)
    var new = phone
    new.token = phone.app.token
    #expect(try await bench.notify([new.entry()]).unknown == [])
    bench.clock.advance(3601)
    #expect(try await bench.notify([new.entry()]).unknown == [phone.identifierText])
    #expect(try await bench.number("SELECT COUNT(*) FROM registrations WHERE wire = 3") == 17)
  }

  @Test(.bench)
  func `for devices that are not registered says so of two thousand in an hour, and fails all the same`()
    async throws
  {
    bench.clock.stop()
    // Of the bytes of a signature nothing is read where no key is there to compare it with.
    let entry = ProxyPhone().entry()
    let identifiers = (0..<2500).map { number in
      Base64.encode((0..<8).flatMap { _ in withUnsafeBytes(of: UInt64(number)) { Array($0) } })
    }
    func unknown(_ range: Range<Int>, from address: String = "2001:db8:7:1::1") async throws -> Int? {
      let entries = identifiers[range].map { identifier in
        entry.replacing(/"deviceIdentifier":"[^"]*"/, with: #""deviceIdentifier":"\#(identifier)""#)
      }
      let answer = try await bench.notify(entries + [entries[0]], address: address)
      #expect(answer.failed == Int64(range.count + 1))
      return answer.unknown?.count
    }
    #expect(try await unknown(0..<1500) == 1500)
    #expect(try await unknown(1500..<2500) == 500)
    #expect(try await unknown(0..<1, from: "2001:db8:7:2::1") == 0)
    #expect(try await unknown(0..<1, from: "192.0.2.2") == 1)
    bench.clock.advance(3601)
    #expect(try await unknown(0..<1) == 1)
  }

  @Test
  func `that no key of its device verifies is told the operator where there are three in an hour`()
    async throws
  {
    let recorder = LogRecorder()
    try await ProxyBench.test({ $0.log = { _ in recorder.handler } }) { bench in
      bench.clock.stop()
      let phone = try await registered(.talkAndroid, at: bench)
      var stranger = phone
      stranger.user = ProxyPhone.users[1]
      for told in [0, 0, 1, 1, 1] {
        let answer = try await bench.notify([stranger.entry(), phone.entry()])
        #expect(answer.failed == 1 && answer.unknown == [])
        #expect(recorder.lines.count == told)
      }
      #expect(recorder.lines.first?.level == .warning)
      #expect(
        recorder.lines.first?.metadata["device_identifier"]?.description == phone.identifierText)
      bench.clock.advance(3601)
      _ = try await bench.notify((0..<3).map { _ in stranger.entry() })
      #expect(recorder.lines.count == 2)
    }
  }

  @Test func `that nobody's key verifies is counted by its device, and few devices are logged`() throws {
    let (metrics, recorder) = (TestMetrics(), LogRecorder())
    let unverified = UnverifiedNotifications(
      logger: Logger(label: "test") { _ in recorder.handler }, now: { Date() }, factory: metrics)
    let text = ProxyPhone().entry()
    for _ in 0..<120 {
      var additions = Additions()
      let identifier = Base64.encode((0..<64).map { _ in UInt8.random(in: 0...255) })
      let entry = try #require(
        NotificationEntry(
          text: text.replacing(/"deviceIdentifier":"[^"]*"/, with: #""deviceIdentifier":"\#(identifier)""#),
          &additions))
      unverified.add([entry, entry])
      unverified.add([entry, entry])
    }
    #expect(recorder.lines.count == 100)
    #expect(try metrics.expectCounter("push_bouncer_nextcloud_devices_unverified_total").totalValue == 120)
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
