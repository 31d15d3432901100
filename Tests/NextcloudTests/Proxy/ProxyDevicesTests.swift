import Foundation
import HTTP
import HTTPTypes
import Logging
import ProviderSimulator
import Registrations
import SQL
import Sealing
import TestSupport
import Testing

@testable import NextcloudProxy

@Suite("A device at the Nextcloud proxy")
struct ProxyDevicesTests {
  private func change(
    _ fields: [(name: String, value: String)], _ name: String, _ value: String?
  ) -> [(name: String, value: String)] {
    fields.compactMap { field in
      guard field.name == name else { return field }
      return value.map { (name, $0) }
    }
  }

  private func post(_ fields: [(name: String, value: String)], to bench: ProxyBench) async throws
    -> ProxyBench.Answer
  {
    try await bench.call(
      .post, "/devices", userAgent: ProxyPhone.App.talkAndroid.rawValue, body: Form.encode(fields))
  }

  @Test(arguments: ProxyPhone.App.allCases)
  func `registers and unregisters in every app's own way`(app: ProxyPhone.App) async throws {
    try await ProxyBench.test { bench in
      let phone = ProxyPhone(app)
      for _ in 0..<2 {
        let answer = try await phone.register(at: bench)
        #expect(answer.status == 200 && answer.json == [:], "\(answer.text)")
        #expect(answer.headers[.contentType] == "application/json")
      }
      let kept = try #require(try await bench.devices.lookup([phone.identifier]).first)
      #expect(kept.token == phone.token)
      #expect(kept.userKey == phone.user.publicKey.der)
      switch app {
      case .talkAndroid: #expect(kept.destination == .init(.fcm, app: "Talk for Android", target: nil))
      case .filesAndroid: #expect(kept.destination == .init(.fcm, app: "Files for Android", target: nil))
      case .talkIOS:
        #expect(kept.destination == .init(.apns, app: "Talk for iOS", target: "com.nextcloud.Talk"))
      case .filesIOS:
        #expect(kept.destination == .init(.apns, app: "Files for iOS", target: "it.twsweb.Nextcloud"))
      }
      #expect(try await bench.contents().range(of: Data(phone.token.utf8)) == nil)
      let answer = try await phone.unregister(at: bench)
      #expect(answer.status == 200 && answer.json == [:])
      #expect(try await bench.number("SELECT COUNT(*) FROM registrations WHERE wire = 3") == 0)
      #expect(try await phone.unregister(at: bench).status == 403)
    }
  }

  @Test
  func `registers with the vectors, and its token has the hash that its server knows`() async throws {
    let vectors = try Vectors.load()
    try await ProxyBench.test { bench in
      let agents = [
        "android-fcm": ProxyPhone.App.talkAndroid, "ios-talk-combined": .talkIOS,
        "ios-talk-on-mac-single": .talkIOS,
      ]
      for device in vectors.devices {
        var fields = [
          ("pushToken", device.pushToken), ("deviceIdentifier", device.deviceIdentifier),
          ("deviceIdentifierSignature", device.deviceIdentifierSignature),
          ("userPublicKey", vectors.userPublicKey),
        ]
        let agent = try #require(agents[device.name]).rawValue
        let answer = try await bench.call(.post, "/devices", userAgent: agent, body: Form.encode(fields))
        #expect(answer.status == 200, "\(answer.text)")
        let identifier = try #require(Base64.decodeStrictly(device.deviceIdentifier))
        let kept = try #require(try await bench.devices.lookup([identifier]).first)
        #expect(kept.tokenHash == Hexadecimal.decode(device.pushTokenHash))
        for wrong in [device.otherUserSignatureOverSamePreimage, device.wrongSignatureOverIdentifier] {
          fields[2].1 = wrong
          let answer = try await bench.call(.post, "/devices", userAgent: agent, body: Form.encode(fields))
          #expect(answer.status == 400)
        }
      }
      let body = Array(vectors.registerBody.utf8)
      #expect(try await bench.call(.post, "/devices", body: body).status == 200)
      #expect(try await bench.number("SELECT COUNT(*) FROM registrations WHERE wire = 3") == 3)
    }
  }

  @Test
  func `is told what is wrong with its parameters, and nothing changes`() async throws {
    try await ProxyBench.test { bench in
      let phone = ProxyPhone()
      let long = String(repeating: "A", count: 5000)
      let pem = phone.user.publicKey.pem
      let other = ProxyPhone(user: ProxyPhone.users[1])
      let cases: [(String, [String?])] = [
        (
          "pushToken",
          [nil, "", "short", long, "with a space in it, which no token has, but long", "\u{0}\(long)"]
        ),
        ("deviceIdentifier", [nil, "", "AAAA", "%%%", phone.identifierText + "A", phone.signature, " "]),
        (
          "deviceIdentifierSignature",
          [
            nil, "", "AAAA", "****", other.signature, phone.identifierText,
            String(phone.signature.dropLast(4)),
          ]
        ),
        (
          "userPublicKey",
          [nil, "", "x", String(pem.dropLast(40)), phone.user.pem, other.user.publicKey.pem, long]
        ),
      ]
      for (name, values) in cases {
        for value in values {
          let answer = try await post(change(phone.fields, name, value), to: bench)
          #expect(answer.status == 400, "\(name) \(value ?? "-")")
          #expect(answer.message?.isEmpty == false)
          #expect(answer.unknown == nil && answer.failed == nil)
          if let value, value.utf8.count > 30 { #expect(!answer.text.contains(value)) }
          guard name != "pushToken" else { continue }
          let form = Form.encode(change(Array(phone.fields.dropFirst()), name, value))
          #expect(try await bench.call(.delete, "/devices", body: form).status == 400)
        }
      }
      #expect(try await bench.number("SELECT COUNT(*) FROM registrations WHERE wire = 3") == 0)
    }
  }

  @Test
  func `may send its parameters as JSON or split them, but not say two things at once`() async throws {
    try await ProxyBench.test { bench in
      let phone = ProxyPhone()
      let json = JSON.object(
        JSON.Object(phone.fields.map { .init($0.name, .string($0.value)) } + [.init("more", [1])]))
      for type in ["application/json", "application/json; charset=utf-8", "text/plain", nil] {
        #expect(try await bench.call(.post, "/devices", type: type, body: json.bytes).status == 200)
      }
      let query = String(decoding: Form.encode(Array(phone.fields.dropFirst())), as: UTF8.self)
      let token = Form.encode(Array(phone.fields.prefix(1)))
      #expect(try await bench.call(.post, "/devices?\(query)", body: token).status == 200)
      #expect(try await bench.call(.post, "/devices?\(query)", body: Form.encode(phone.fields)).status == 200)
      let contradiction = try await bench.call(
        .delete, "/devices?\(query)", body: Form.encode([("deviceIdentifier", "AAAA")]))
      #expect(contradiction.status == 400)
      #expect(contradiction.message?.contains("deviceIdentifier") == true)
      for body in ["[]", "{", #"{"pushToken":7}"#, "null"] {
        #expect(
          try await bench.call(.post, "/devices", type: "application/json", body: body.utf8).status == 400)
      }
      let many = Form.encode((0..<2000).map { ("x\($0)", "") })
      #expect(try await bench.call(.post, "/devices", body: many).status == 400)
      #expect(
        try await bench.call(.delete, "/devices", type: "application/json", body: json.bytes).status == 200)
    }
  }

  @Test
  func `gets a new token or comes back with the old one under the same key, however that is laid out`()
    async throws
  {
    try await ProxyBench.test { bench in
      var phone = ProxyPhone(.talkIOS)
      _ = try await phone.register(at: bench)
      let before = try #require(try await bench.devices.lookup([phone.identifier]).first)
      try await bench.recorder.note([.init(before.reference, reason: "TooBig")])
      bench.clock.advance(100)
      phone.token = ProxyPhone.App.filesIOS.token.lowercased()
      var fields = phone.fields
      fields[3].value = phone.user.publicKey.pem.replacing("\n", with: "\r\n")
      let answer = try await bench.call(
        .post, "/devices", userAgent: ProxyPhone.App.filesIOS.rawValue, body: Form.encode(fields))
      #expect(answer.status == 200)
      let after = try #require(try await bench.devices.lookup([phone.identifier]).first)
      #expect(after.id == before.id)
      #expect(after.token == phone.token)
      #expect(after.tokenHash == Hexadecimal.decode(phone.tokenHash))
      #expect(after.destination.app == "Files for iOS")
      #expect(after.registeredAt.timeIntervalSince(before.registeredAt) >= 100)
      #expect(
        try await bench.rows("SELECT failure, failed_at FROM registrations WHERE wire = 3") == [
          [.null, .null]
        ])
    }
  }

  @Test
  func `shares its token with the other accounts on the phone`() async throws {
    try await ProxyBench.test { bench throws in
      let token = ProxyPhone.App.talkAndroid.token
      for user in ProxyPhone.users {
        #expect(try await ProxyPhone(user: user, token: token).register(at: bench).status == 200)
      }
      #expect(try await bench.number("SELECT COUNT(*) FROM registrations WHERE wire = 3") == 2)
    }
  }

  @Test
  func `is its own beside others with its identifier, whoever guesses that`() async throws {
    try await ProxyBench.test { bench in
      let phone = ProxyPhone()
      _ = try await phone.register(at: bench)
      #expect(try await bench.notify([phone.entry()]).failed == 0)
      // Without a signature nobody gets anywhere, nor learns whether it is there.
      var thief = phone
      thief.user = ProxyPhone.users[1]
      let strange = change(thief.fields, "deviceIdentifierSignature", phone.signature)
      #expect(try await post(strange, to: bench).status == 400)
      // With one of its own a stranger has a device beside it, and no more than three.
      for number in 0..<6 {
        thief.token = ProxyPhone.App.talkAndroid.token
        if number > 1 { thief.user = .generate() }
        #expect(try await thief.register(at: bench).status == 200)
      }
      let rows = try await bench.devices.lookup([phone.identifier])
      #expect(rows.count == 4 && rows.contains { $0.token == phone.token })
      // Each gets what its own key has signed, and removes itself alone.
      for sender in [phone, thief] {
        #expect(try await bench.notify([sender.entry()]).failed == 0)
        #expect(bench.simulator.deliveries().last?.token == sender.token)
      }
      #expect(try await thief.unregister(at: bench).status == 200)
      #expect(try await thief.unregister(at: bench).status == 403)
      #expect(try await bench.notify([phone.entry()]).failed == 0)
      #expect(try await phone.unregister(at: bench).status == 200)
    }
  }

  @Test(arguments: [nil, "a@b"])
  func `works at once when its server has made new keys, with cloudId or without`(cloudID: String?)
    async throws
  {
    try await ProxyBench.test { bench in
      let phone = ProxyPhone()
      let neighbour = ProxyPhone(token: phone.token)
      for phone in [phone, neighbour] { _ = try await phone.register(at: bench) }
      var renewed = phone
      renewed.user = ProxyPhone.users[1]
      // Its server signs with the new key before the phone has brought it: nothing is deleted for that.
      let early = try await bench.notify([renewed.entry()])
      #expect(early.status == 200 && early.unknown == [] && early.failed == 1)
      let more = cloudID.map { [(name: "cloudId", value: $0)] } ?? []
      let answer = try await renewed.register(at: bench, with: more)
      #expect(answer.status == 200 && answer.json == [:])
      #expect(try await bench.notify([renewed.entry()]).failed == 0)
      #expect(try await bench.notify([phone.entry()]).failed == 1)
      #expect(try await bench.devices.lookup([phone.identifier]).count == 1)
      // The other account on the phone, which has the same token, is as it was.
      #expect(try await bench.notify([neighbour.entry()]).failed == 0)
      #expect(bench.simulator.deliveries().count == 2)
      #expect(try await phone.unregister(at: bench).status == 403)
      #expect(try await renewed.unregister(at: bench).status == 200)
    }
  }

  @Test
  func `of an app that nobody knows is refused, and the operator is told once what it calls itself`()
    async throws
  {
    let recorder = LogRecorder()
    try await ProxyBench.test({ $0.log = { _ in recorder.handler } }) { bench in
      let phone = ProxyPhone()
      for agent in ["Mozilla/5.0 (Android) Brand-Talk v1", nil, "Mozilla/5.0 (Android) Brand-Talk v1"] {
        let answer = try await bench.call(
          .post, "/devices", userAgent: agent, body: Form.encode(phone.fields))
        #expect(answer.status == 400 && answer.message?.contains("not known") == true)
      }
      let field = Form.encode(phone.fields + [("http.useragent", "Brand-android/1\n2")])
      #expect(
        try await bench.call(.post, "/devices", userAgent: "Jakarta Commons-HttpClient/3.1", body: field)
          .status == 400)
      // Whoever cannot sign is not worth a line.
      let unsigned = change(phone.fields, "deviceIdentifierSignature", "AAAA")
      _ = try await bench.call(.post, "/devices", userAgent: "Nobody/1", body: Form.encode(unsigned))
      #expect(try await bench.number("SELECT COUNT(*) FROM registrations WHERE wire = 3") == 0)
      #expect(
        recorder.lines.map { $0.metadata["user_agent"]?.description } == [
          "Mozilla/5.0 (Android) Brand-Talk v1", "(none)", "Brand-android/1?2",
        ])
      #expect(recorder.lines.allSatisfy { $0.level == .warning })
    }
    let apps = try NextcloudApps(own: [], default: "Talk for Android")
    try await ProxyBench.test({ $0.configuration.apps = apps }) { bench throws in
      let phone = ProxyPhone()
      let answer = try await bench.call(
        .post, "/devices", userAgent: "Brand/1", body: Form.encode(phone.fields))
      #expect(answer.status == 200)
      #expect(try await bench.notify([phone.entry()]).failed == 0)
    }
  }

  @Test
  func `may call so often, each address by itself, and bodies have a limit`() async throws {
    try await ProxyBench.test({
      $0.configuration.rateLimitPerAddress = RateLimit(calls: 3, seconds: 60)
      $0.configuration.maximumBodyBytes = 4096
    }) { bench in
      let body = Form.encode(ProxyPhone().fields)
      for _ in 0..<3 {
        #expect(try await bench.call(.post, "/devices", address: "192.0.2.1", body: body).status == 200)
      }
      let refused = try await bench.call(.delete, "/devices", address: "192.0.2.1", body: body)
      #expect(refused.status == 429)
      #expect(refused.message != nil && refused.headers[.retryAfter].flatMap(Int.init) != nil)
      #expect(try await bench.call(.post, "/devices", address: "192.0.2.2", body: body).status == 200)
      // Notifications are counted apart.
      let empty = Form.encode([("notifications[]", "x")])
      for status in [200, 200, 200, 503] {
        let answer = try await bench.call(.post, "/notifications", address: "192.0.2.1", body: empty)
        #expect(answer.status == status)
        #expect((answer.unknown == nil) == (status == 503) && (answer.failed == nil) == (status == 503))
        #expect((answer.reason == nil) == (status == 200))
        #expect((answer.headers[.retryAfter].flatMap(Int.init) == nil) == (status == 200))
      }
      let large = try await bench.call(
        .post, "/devices", address: "192.0.2.3", body: [UInt8](repeating: 65, count: 5000))
      #expect(large.status == 413)
      #expect(large.message != nil)
      bench.clock.advance(61)
      #expect(try await bench.call(.delete, "/devices", address: "192.0.2.1", body: body).status == 200)
    }
  }

  @Test
  func `is refused where its address has brought too many new ones, and renewed all the same`() async throws {
    try await ProxyBench.test({ $0.configuration.newDevicesPerAddress = RateLimit(calls: 3, seconds: 3600) })
    {
      bench throws in
      var phones = (0..<5).map { _ in ProxyPhone() }
      func register(_ phone: ProxyPhone, from address: String = "2001:db8::1") async throws
        -> ProxyBench.Answer
      {
        try await bench.call(.post, "/devices", address: address, body: Form.encode(phone.fields))
      }
      for phone in phones.prefix(3) { #expect(try await register(phone).status == 200) }
      for (phone, address) in [(phones[3], "2001:db8::2"), (phones[4], "2001:db8::3")] {
        let answer = try await register(phone, from: address)
        #expect(answer.status == 429 && answer.message != nil)
        #expect(answer.headers[.retryAfter].flatMap(Int.init).map { (1...3600).contains($0) } == true)
      }
      // With the same token, another token, and another key.
      for phone in phones.prefix(3) { #expect(try await register(phone).status == 200) }
      phones = phones.map { phone in
        var phone = phone
        phone.token = phone.app.token
        return phone
      }
      for phone in phones.prefix(3) { #expect(try await register(phone).status == 200) }
      phones[0].user = ProxyPhone.users[1]
      #expect(try await register(phones[0]).status == 200)
      #expect(try await bench.number("SELECT COUNT(*) FROM registrations WHERE wire = 3") == 3)
      #expect(try await register(phones[3], from: "2001:db8:0:1::1").status == 200)
      bench.clock.advance(3601)
      #expect(try await register(phones[4]).status == 200)
    }
  }

  @Test
  func `gets so many notifications at once, and the rest one after the other as far as there is room`()
    async throws
  {
    try await ProxyBench.test({
      $0.configuration.notificationsPerDevice = [RateLimit(calls: 5, seconds: 3600)]
      $0.isSending = false
    }) { bench in
      let (loud, quiet) = (ProxyPhone(), ProxyPhone())
      for phone in [loud, quiet] { #expect(try await phone.register(at: bench).status == 200) }
      let first = try await bench.notify((0..<150).map { _ in loud.entry() })
      // Five are sent, a hundred wait.
      #expect(first.status == 200 && first.failed == 45 && first.unknown == [])
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 100)
      let second = try await bench.notify((0..<6).map { _ in loud.entry() } + [quiet.entry()])
      #expect(second.status == 200 && second.failed == 6)
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 100)
    }
  }

  @Test
  func `is kept to each of its paces: what a minute allows an hour may not`() async throws {
    #expect(
      NextcloudProxyRoutes.Configuration().notificationsPerDevice.map { [Double($0.calls), $0.seconds] }
        == [[240, 60], [5000, 3600]])
    try await ProxyBench.test({
      $0.configuration.notificationsPerDevice = [
        RateLimit(calls: 4, seconds: 60), RateLimit(calls: 6, seconds: 3600),
      ]
      $0.isSending = false
    }) { bench in
      let phone = ProxyPhone()
      #expect(try await phone.register(at: bench).status == 200)
      _ = try await bench.notify((0..<4).map { _ in phone.entry() })
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 0)
      bench.clock.advance(60)
      _ = try await bench.notify((0..<4).map { _ in phone.entry() })
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 2)
    }
  }

  @Test
  func `waits while the store is away, and nobody is told anything about it`() async throws {
    try await ProxyBench.test { bench in
      let phone = ProxyPhone()
      _ = try await phone.register(at: bench)
      await bench.database.close()
      for answer in [try await phone.register(at: bench), try await phone.unregister(at: bench)] {
        #expect(answer.status == 503 && answer.message != nil && answer.headers[.retryAfter] != nil)
      }
      let answer = try await bench.notify([phone.entry()])
      #expect(answer.status == 503 && answer.reason != nil && answer.headers[.retryAfter] != nil)
    }
  }
}
