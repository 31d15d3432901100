import Delivery
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
  private var bench: ProxyBench { Fixture.current }

  private func change(
    _ fields: [(name: String, value: String)], _ name: String, _ value: String?
  ) -> [(name: String, value: String)] {
    fields.compactMap { field in
      guard field.name == name else { return field }
      return value.map { (name, $0) }
    }
  }

  @Test(.bench)
  func `is told what is wrong without a word of what it sent`() async throws {
    let (fields, long) = (ProxyPhone().fields, String(repeating: "secret ", count: 800))
    for field in fields {
      let answer = try await bench.call(
        .post, "/devices", body: Form.encode(change(fields, field.name, long)))
      #expect(answer.status == 400 && answer.message?.contains(field.name) == true)
      #expect(!answer.text.contains("secret"))
    }
    // Servers show their admin a body that is no JSON.
    let wrong = try await bench.call(.get, "/notifications")
    #expect(wrong.status == 405 && wrong.reason != nil)
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
      // A request with an invalid signature is not logged.
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
    try await ProxyBench.test({ $0.apps = apps }) { bench throws in
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
      $0.settings["nextcloud.rate_limit.per_address"] = "3/60s"
      $0.settings["http.max_body_bytes"] = "4 KiB"
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
      #expect(try await bench.call(.post, "/notifications", address: "192.0.2.1", body: empty).status == 200)
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
    try await ProxyBench.test({ $0.settings["nextcloud.new_devices_per_address"] = "3/1h" }) {
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
  func `finds room beside those of an address that has most of it`() async throws {
    // Of 40 an address has 30 at most, and a whole /48 is one.
    try await ProxyBench.test({ $0.settings["nextcloud.max_devices"] = "40" }) { bench in
      let phones = (0..<34).map { _ in ProxyPhone() }
      func register(_ phone: ProxyPhone, from address: String) async throws -> ProxyBench.Answer {
        try await bench.call(.post, "/devices", address: address, body: Form.encode(phone.fields))
      }
      for (index, phone) in phones.prefix(30).enumerated() {
        #expect(try await register(phone, from: "2001:db8:1:\(index)::1").status == 200)
      }
      func expectSharing() async throws {
        let refusal = try await register(phones[30], from: "2001:db8:1:ffff::1")
        #expect(refusal.status == 429 && refusal.headers[.retryAfter] == "3600")
        #expect(refusal.message?.contains("no room") == true)
        // What is there is renewed.
        #expect(try await register(phones[0], from: "2001:db8:1::1").status == 200)
      }
      try await expectSharing()
      #expect(try await register(phones[31], from: "2001:db8:2::1").status == 200)
      // The same after the rows were counted.
      try await bench.room.count()
      try await expectSharing()
      #expect(try await register(phones[32], from: "192.0.2.1").status == 200)
      try await bench.database.execute(
        "DELETE FROM registrations WHERE id IN (SELECT id FROM registrations ORDER BY id LIMIT 12)")
      try await bench.room.count()
      #expect(try await register(phones[30], from: "2001:db8:1:ffff::1").status == 200)
    }
  }

  @Test
  func `is kept to its pace, and no other device with it`() async throws {
    #expect(DevicePace.google == .init(places: 160, seconds: 0.75))
    try await ProxyBench.test({
      // Whoever has no credentials has three quarters of half.
      $0.pace = .init(places: 8, seconds: 60)
      $0.isSending = false
    }) { bench in
      let (phone, quiet) = (ProxyPhone(), ProxyPhone())
      for phone in [phone, quiet] { #expect(try await phone.register(at: bench).status == 200) }
      _ = try await bench.notify((0..<3).map { _ in phone.entry() } + [quiet.entry()])
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 0)
      _ = try await bench.notify([phone.entry()])
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 1)
      bench.clock.advance(61)
      _ = try await bench.notify((0..<2).map { _ in phone.entry() })
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 2)
    }
  }

  @Test(.bench)
  func `waits while the store is away, and nobody is told anything about it`() async throws {
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
