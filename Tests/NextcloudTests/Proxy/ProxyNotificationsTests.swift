import Delivery
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import NIOCore
import ProviderSimulator
import Registrations
import SQL
import Sealing
import TestSupport
import Testing

@testable import NextcloudProxy

@Suite("A notification at the Nextcloud proxy")
struct ProxyNotificationsTests {
  private func registered(_ app: ProxyPhone.App, at bench: ProxyBench) async throws -> ProxyPhone {
    let phone = ProxyPhone(app)
    let answer = try await phone.register(at: bench)
    try #require(answer.status == 200)
    return phone
  }

  @Test
  func `of the vectors reaches the phones as it was`() async throws {
    let vectors = try Vectors.load()
    try await ProxyBench.test { bench in
      for (device, agent) in zip(vectors.devices, [ProxyPhone.App.talkAndroid, .talkIOS, .talkIOS]) {
        let form = Form.encode([
          ("pushToken", device.pushToken), ("deviceIdentifier", device.deviceIdentifier),
          ("deviceIdentifierSignature", device.deviceIdentifierSignature),
          ("userPublicKey", vectors.userPublicKey),
        ])
        let answer = try await bench.call(.post, "/devices", userAgent: agent.rawValue, body: form)
        #expect(answer.status == 200)
      }
      let answer = try await bench.call(.post, "/notifications", body: vectors.formBody.utf8)
      #expect(answer.status == 200 && answer.text == #"{"unknown":[],"failed":0}"# + "\n")
      let chat = try JSON.parse(try #require(vectors.notifications["chat-oaep"]).envelopeJson)
      let call = try JSON.parse(try #require(vectors.notifications["call-voip"]).envelopeJson)
      let deliveries = try await bench.simulator.waitForDeliveries(count: 3)
      let voip = try #require(deliveries.first { $0.header("apns-push-type") == "voip" })
      #expect(
        try JSON.parse(voip.payload)
          == [
            "aps": [:], "subject": try #require(call["subject"]),
            "signature": try #require(call["signature"]),
          ])
      let data = deliveries.compactMap { try? JSON.parse($0.payload)["message"]?["data"] }
      #expect(data.contains { $0["subject"] == chat["subject"] && $0["signature"] == chat["signature"] })

      for (name, notification) in vectors.notifications {
        let answer = try await bench.notify([notification.envelopeJson])
        #expect(answer.unknown == [] && answer.failed == 0, "\(name)")
        guard case .object(var envelope) = try JSON.parse(notification.envelopeJson) else { continue }
        envelope["signature"] = .string(notification.wrongSignatureOverSubject)
        let wrong = try await bench.notify([JSON.object(envelope).text])
        #expect(wrong.unknown == [] && wrong.failed == 1, "\(name)")
      }
    }
  }

  @Test
  func `comes on Android as data`() async throws {
    try await ProxyBench.test { bench in
      let phone = try await registered(.talkAndroid, at: bench)
      for (kind, priority, expected) in [
        ("alert", "high", "high"), ("background", "normal", "normal"), ("voip", "high", "high"),
        (nil, nil, "normal"), ("telepathy", "urgent", "normal"),
      ] as [(String?, String?, String)] {
        let subject = ProxyPhone.ciphertext()
        let answer = try await bench.notify([phone.entry(kind, priority: priority, subject: subject)])
        #expect(answer.failed == 0)
        let message = try #require(try bench.simulator.deliveries().last.map { try JSON.parse($0.payload) })
        var android: JSON.Object = ["priority": .string(expected)]
        if kind == "voip" { android["ttl"] = "60s" }
        #expect(
          message["message"]?["data"]?["signature"] == .string(Base64.encode(phone.user.sign(subject))))
        #expect(message["message"]?["data"]?["subject"] == .string(Base64.encode(subject)))
        #expect(message["message"]?["token"] == .string(phone.token))
        #expect(message["message"]?["notification"] == nil)
        for member in android.members {
          #expect(message["message"]?["android"]?[member.name.text] == member.value)
        }
        #expect((message["message"]?["android"]?["ttl"] == nil) == (kind != "voip"))
      }
    }
  }

  @Test(arguments: [true, false])
  func `comes on iOS as what it is, a call to the token for calls`(isTalk: Bool) async throws {
    try await ProxyBench.test { bench in
      let phone = try await registered(isTalk ? .talkIOS : .filesIOS, at: bench)
      let tokens = phone.token.lowercased().split(separator: " ").map(String.init)
      let bundle = isTalk ? "com.nextcloud.Talk" : "it.twsweb.Nextcloud"
      let alert: JSON = [
        "alert": ["loc-key": "NEW_NOTIFICATION"], "mutable-content": 1, "sound": "default",
      ]
      struct Row {
        let kind, priority: String?
        let type, topic, token, apnsPriority: String
        let aps: JSON
      }
      let call =
        isTalk
        ? Row(
          kind: "voip", priority: "high", type: "voip", topic: bundle + ".voip", token: tokens[1],
          apnsPriority: "10", aps: [:])
        : Row(
          kind: "voip", priority: "high", type: "alert", topic: bundle, token: tokens[0], apnsPriority: "10",
          aps: alert)
      for row in [
        Row(
          kind: "alert", priority: "high", type: "alert", topic: bundle, token: tokens[0], apnsPriority: "10",
          aps: alert),
        Row(
          kind: nil, priority: nil, type: "alert", topic: bundle, token: tokens[0], apnsPriority: "5",
          aps: alert),
        Row(
          kind: "background", priority: "normal", type: "background", topic: bundle, token: tokens[0],
          apnsPriority: "5", aps: ["content-available": 1]), call,
      ] {
        let subject = ProxyPhone.ciphertext()
        let answer = try await bench.notify([phone.entry(row.kind, priority: row.priority, subject: subject)])
        #expect(answer.failed == 0)
        let delivery = try #require(bench.simulator.deliveries().last)
        #expect(delivery.token == row.token)
        #expect(delivery.header("apns-topic") == row.topic)
        #expect(delivery.header("apns-push-type") == row.type)
        #expect(delivery.header("apns-priority") == row.apnsPriority)
        let signature = Base64.encode(phone.user.sign(subject))
        #expect(
          try JSON.parse(delivery.payload)
            == ["aps": row.aps, "subject": .string(Base64.encode(subject)), "signature": .string(signature)])
        let expiration = delivery.header("apns-expiration").flatMap(TimeInterval.init)
        switch row.kind {
        case "voip": #expect(try #require(expiration) - bench.clock.now.timeIntervalSince1970 <= 60)
        case "background": #expect(try #require(expiration) - bench.clock.now.timeIntervalSince1970 > 60)
        default: #expect(expiration == nil)
        }
        let collapse = delivery.header("apns-collapse-id")
        #expect(collapse == (row.type == "voip" ? nil : String(signature.prefix(43))))
      }
    }
  }

  @Test
  func `for a PushKit token alone rings, whatever it is`() async throws {
    try await ProxyBench.test { bench in
      let phone = ProxyPhone(.filesIOS)
      let answer = try await bench.call(
        .post, "/devices", userAgent: "Mozilla/5.0 (iOS) Nextcloud-Talk v8.0.0 (PushKit)",
        body: Form.encode(phone.fields))
      #expect(answer.status == 200)
      #expect(try await bench.notify([phone.entry("alert")]).failed == 0)
      let delivery = try #require(bench.simulator.deliveries().last)
      #expect(delivery.header("apns-topic") == "com.nextcloud.Talk.voip")
      #expect(delivery.token == phone.token.lowercased())
    }
  }

  @Test
  func `stands alone: whatever is wrong with others, it is sent`() async throws {
    try await ProxyBench.test { bench in
      let good = try await registered(.talkAndroid, at: bench)
      let second = try await registered(.talkIOS, at: bench)
      let stranger = ProxyPhone()
      var moved = try await registered(.talkAndroid, at: bench)
      moved.token = ProxyPhone.App.talkAndroid.token
      var forger = good
      forger.user = ProxyPhone.users[1]
      let short = [UInt8](repeating: 1, count: 255)
      let bad: [(entry: String, unknown: ProxyPhone?)] = [
        ("", nil), ("x", nil), ("{}", nil), ("[]", nil), ("null", nil), ("7", nil), ("{", nil),
        (String(repeating: "[", count: 1000), nil),
        (good.entry { $0["deviceIdentifier"] = nil }, nil),
        (good.entry { $0["deviceIdentifier"] = "AAAA" }, nil),
        (good.entry { $0["deviceIdentifier"] = 5 }, nil),
        (good.entry { $0["pushTokenHash"] = nil }, nil),
        (good.entry { $0["pushTokenHash"] = .string(String(repeating: "g", count: 128)) }, nil),
        (good.entry { $0["pushTokenHash"] = .string(String(good.tokenHash.dropLast())) }, nil),
        (good.entry { $0["subject"] = nil }, nil), (good.entry { $0["subject"] = "%%%%" }, nil),
        (good.entry(subject: short), nil), (good.entry { $0["signature"] = "AAAA" }, nil),
        (good.entry { $0["signature"] = nil }, nil), (good.entry { $0["priority"] = 1 }, nil),
        (good.entry { $0["type"] = [] }, nil),
        (forger.entry(), nil),
        (good.entry { $0["subject"] = .string(Base64.encode(ProxyPhone.ciphertext())) }, nil),
        (stranger.entry(), stranger), (stranger.entry(), stranger), (moved.entry(), nil),
        // Who is unknown is unknown, whoever says so.
        (
          stranger.entry { $0["signature"] = .string(Base64.encode([UInt8](repeating: 1, count: 256))) },
          stranger
        ),
      ]
      var sent = 0
      for (entry, unknown) in bad {
        let answer = try await bench.notify([good.entry(), entry, second.entry()])
        sent += 2
        #expect(answer.status == 200)
        #expect(answer.unknown == (unknown.map { [$0.identifierText] } ?? []), "\(entry)")
        #expect(answer.failed == 1, "\(entry)")
      }
      let answer = try await bench.notify([good.entry()] + bad.map(\.entry))
      #expect(answer.unknown == [stranger.identifierText])
      #expect(answer.failed == Int64(bad.count))
      #expect(bench.simulator.deliveries(includingRefused: true).count == sent + 1)
      // Nothing of it has changed anything.
      #expect(
        try await bench.number("SELECT COUNT(*) FROM registrations WHERE wire = 3 AND failure IS NULL") == 3)
    }
  }

  @Test
  func `is found under every key that a form may have, and in JSON`() async throws {
    try await ProxyBench.test { bench in
      let phone = try await registered(.talkAndroid, at: bench)
      func post(_ fields: [(String, String)]) async throws -> ProxyBench.Answer {
        try await bench.call(.post, "/notifications", body: Form.encode(fields.map { (name: $0, value: $1) }))
      }
      let forms = [
        [("notifications[0]", phone.entry())],
        [("notifications[]", phone.entry()), ("notifications[]", phone.entry())],
        [("notifications[7]", phone.entry()), ("x", "y"), ("notifications[2]", phone.entry())],
        [("notifications[a]", phone.entry()), ("notifications[0]", phone.entry()), ("other[0]", "{")],
      ]
      for form in forms {
        let answer = try await post(form)
        #expect(answer.status == 200 && answer.failed == 0 && answer.unknown == [])
      }
      let raw =
        "notifications[0]="
        + String(decoding: Form.encode([("x", phone.entry())]).dropFirst(2), as: UTF8.self)
      #expect(try await bench.call(.post, "/notifications", type: nil, body: raw.utf8).failed == 0)
      let object = try JSON.parse(phone.entry())
      for json: JSON in [
        ["notifications": [.string(phone.entry())]], ["notifications": [object, 5, .string("x")], "a": 1],
      ] {
        let answer = try await bench.call(
          .post, "/notifications", type: "application/json", body: json.bytes)
        #expect(answer.status == 200 && answer.unknown == [])
      }
      #expect(bench.simulator.deliveries().count == 10)
      for json: JSON in [["notifications": []]] {
        let answer = try await bench.call(.post, "/notifications", type: "application/json", body: json.bytes)
        #expect(answer.unknown == [] && answer.failed == 0)
      }
      for (type, body) in [
        ("application/x-www-form-urlencoded", ""),
        ("application/x-www-form-urlencoded", "a=b&notification=c"),
        ("application/json", "{}"), ("application/json", "[]"), ("application/json", "{"),
        ("application/json", #"{"notifications":"x"}"#), ("application/json", #"{"notifications":null}"#),
      ] {
        let answer = try await bench.call(.post, "/notifications", type: type, body: body.utf8)
        #expect(answer.status == 400, "\(body)")
        #expect(answer.reason != nil && answer.unknown == nil && answer.failed == nil)
      }
      let wrong = try await bench.call(.get, "/notifications")
      #expect(wrong.status == 405)
      #expect(wrong.headers[.contentType] == "text/plain; charset=utf-8")
      #expect((try? JSON.parse(wrong.text)) == nil)
    }
  }

  @Test
  func `is sent once when its request is sent again, for five minutes`() async throws {
    try await ProxyBench.test { bench in
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
  }

  @Test
  func `comes later when the provider is away, and its request does not wait for that`() async throws {
    try await ProxyBench.test({ $0.deadline = .milliseconds(500) }) { bench in
      let phones = [
        try await registered(.talkAndroid, at: bench), try await registered(.talkIOS, at: bench),
      ]
      await bench.faults {
        $0.apns.outage = true
        $0.fcm.outage = true
      }
      let entries = phones.map { $0.entry() }
      for _ in 0..<2 {
        let answer = try await bench.notify(entries)
        #expect(answer.status == 200 && answer.unknown == [] && answer.failed == 0)
      }
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox WHERE wire = 3") == 2)
      await bench.faults { _ in }
      await eventually {
        bench.clock.advance(1)
        return bench.simulator.deliveries().count == 2
      }
      #expect(Set(bench.simulator.deliveries().map(\.token)).count == 2)
    }
  }

  @Test
  func `keeps no server waiting for a provider that hangs, however often, and is kept for it`() async throws {
    try await ProxyBench.test({
      $0.deadline = .milliseconds(200)
      $0.isSending = false
    }) { bench in
      let phone = try await registered(.talkAndroid, at: bench)
      // Ten minutes: whoever waited for it would be noticed.
      await bench.faults { $0.fcm.latencyMilliseconds = 600_000 }
      for _ in 0..<9 {
        let answer = try await bench.notify([phone.entry()])
        #expect(answer.status == 200 && answer.unknown == [] && answer.failed == 0)
      }
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox WHERE wire = 3") == 9)
    }
  }

  @Test(arguments: [ProxyPhone.App.talkAndroid, .talkIOS])
  func `of a call is not kept until nobody waits any more`(app: ProxyPhone.App) async throws {
    try await ProxyBench.test({
      $0.deadline = .milliseconds(200)
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

  @Test
  func `for a token that is dead says so at once, and the device is forgotten`() async throws {
    try await ProxyBench.test { bench in
      let gone = [try await registered(.talkAndroid, at: bench), try await registered(.filesIOS, at: bench)]
      let stays = try await registered(.talkAndroid, at: bench)
      bench.simulator.setToken(gone[0].token, TokenRule(status: 404, reason: "UNREGISTERED"))
      bench.simulator.setToken(gone[1].token.lowercased(), TokenRule(status: 410))
      bench.clock.advance(10)
      let answer = try await bench.notify(gone.flatMap { [$0.entry(), $0.entry()] } + [stays.entry()])
      #expect(Set(answer.unknown ?? []) == Set(gone.map(\.identifierText)))
      #expect(answer.unknown?.count == 2)
      #expect(answer.failed == 4)
      #expect(try await bench.number("SELECT COUNT(*) FROM registrations WHERE wire = 3") == 1)
      let again = try await bench.notify(gone.map { $0.entry() })
      #expect(Set(again.unknown ?? []) == Set(gone.map(\.identifierText)))
    }
  }

  @Test
  func `for a token that its phone has yet to bring fails for an hour, and only then is nobody's`()
    async throws
  {
    try await ProxyBench.test { bench in
      let old = try await registered(.talkAndroid, at: bench)
      var new = old
      new.token = ProxyPhone.App.talkAndroid.token
      let other = try await registered(.talkIOS, at: bench)
      for _ in 0..<3 {
        let answer = try await bench.notify([new.entry(), other.entry()])
        #expect(answer.unknown == [] && answer.failed == 1)
        bench.clock.advance(1100)
      }
      // It may have been written down by a proxy that has ended since.
      let restarted = NextcloudProxyRoutes(
        configuration: bench.proxy.configuration, dependencies: bench.proxy.dependencies)
      let entry = Form.encode([("notifications[0]", new.entry())])
      func restartedAnswer() async throws -> String {
        let router = Router(context: WireContext.self)
        restarted.addRoutes(to: router)
        return try await Application(responder: router.buildResponder()).test(.router) { client in
          try await client.execute(
            uri: "/notifications", method: .post,
            headers: [.contentType: "application/x-www-form-urlencoded"], body: ByteBuffer(bytes: entry)
          ) { String(buffer: $0.body) }
        }
      }
      #expect(try await restartedAnswer() == #"{"unknown":[],"failed":1}"# + "\n")
      bench.clock.advance(300)
      #expect(try await restartedAnswer().contains(Base64.encode(new.identifier)))
      #expect(try await bench.notify([new.entry()]).unknown == [new.identifierText])
      // The phone brings it after all, and all is well; the next token has its own hour.
      #expect(try await new.register(at: bench).status == 200)
      #expect(try await bench.notify([new.entry()]).failed == 0)
      #expect(try await bench.notify([old.entry()]).unknown == [])
      #expect(try await bench.notify([new.entry()]).failed == 0)
    }
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

  @Test
  func `may come with many others, but not with any number, nor in a body of any size`() async throws {
    try await ProxyBench.test({
      $0.configuration.maximumNotifications = 3000
      $0.configuration.maximumNotificationsBytes = 1 << 20
    }) { bench in
      let many = try await bench.notify([String](repeating: "x", count: 3000))
      #expect(many.status == 200 && many.failed == 3000 && many.unknown == [])
      for count in [3001, 10_000] {
        let answer = try await bench.notify([String](repeating: "x", count: count))
        #expect(answer.status == 413 && answer.reason != nil && answer.failed == nil)
      }
      let json = JSON.object(["notifications": .array([JSON](repeating: 1, count: 3001))]).bytes
      #expect(
        try await bench.call(.post, "/notifications", type: "application/json", body: json).status == 413)
      let large = try await bench.call(
        .post, "/notifications", body: [UInt8](repeating: 65, count: 1 << 20 + 1))
      #expect(large.status == 413)
    }
  }

  @Test
  func `of a thousand is judged in one go`() async throws {
    try await ProxyBench.test { bench in
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
}
