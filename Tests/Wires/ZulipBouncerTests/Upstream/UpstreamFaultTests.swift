import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import Logging
import Platform
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import Server
import TestService
import TestSupport
import Testing

@testable import Basics
@testable import Operator
@testable import ZulipBouncer

@Suite("An upstream bouncer that")
struct UpstreamFaultTests {
  /// What it may answer to notifications in place of the truth.
  enum Fault: CaseIterable, CustomTestStringConvertible {
    case unauthorized, missingRealm, busy, broken, notFound, nonsense, noJSON, otherShape

    var answer: (Int, String) {
      switch self {
      case .unauthorized: (401, #"{"result":"error","msg":"wrong key","code":"UNAUTHORIZED"}"#)
      case .missingRealm:
        (403, #"{"result":"error","msg":"Organization not registered","code":"MISSING_REMOTE_REALM"}"#)
      case .busy: (429, #"{"result":"error","msg":"API usage exceeded rate limit","code":"RATE_LIMIT_HIT"}"#)
      case .broken: (500, #"{"result":"error","msg":"Internal server error"}"#)
      case .notFound: (404, "<h1>Not Found</h1>")
      case .nonsense: (200, #"{"result":"success","msg":""}"#)
      case .noJSON: (200, "<html>Welcome</html>")
      case .otherShape: (200, #"{"result":"success","msg":"","delete_token_ids":"all"}"#)
      }
    }

    var testDescription: String { "\(self)" }
  }

  @Test(arguments: Fault.allCases)
  func `refuses or talks nonsense costs ours nothing, and gets its own as soon as it works`(
    _ fault: Fault
  ) async throws {
    try await BeforeZulips.test(["delivery.deadline": "100s"]) { place in
      try await place.registerOwn(place.bouncer.apns("c0ffee"))
      #expect(try await place.registerStore("store").isSuccess)
      place.upstream.fault("push/e2ee/notify", fault.answer.0, fault.answer.1)
      let began = ContinuousClock.now
      let answer = try await place.notify([PushItem.apns("c0ffee"), PushItem.fcm("store")])
      // It waits for nobody's outage until its deadline.
      #expect(.now - began < .seconds(90))
      #expect(answer.json["apple_successfully_sent_count"] == 1, "\(answer.text)")
      #expect(answer.json["android_successfully_sent_count"] == 0)
      #expect(answer.json["delete_token_ids"] == [])
      #expect(place.ours.arrived()["c0ffee"]?.count == 1)
      #expect(try await place.bouncer.rows("SELECT COUNT(*) FROM outbox") == [[1]])
      place.upstream.fault("push/e2ee/notify", nil)
      // A pause may be asked for, or grow.
      await eventually("it arrives") {
        place.bouncer.clock.advance(60)
        return place.heard("store") == 1
      }
      try await eventually("it is done") { try await place.bouncer.rows("SELECT id FROM outbox").isEmpty }
      #expect(place.heard("store") == 1)
      #expect(
        try await place.bouncer.rows("SELECT COUNT(*) FROM registrations WHERE ended_at IS NULL") == [[2]])
    }
  }

  /// The upstream bouncer must be told of the realm first, which is three calls more.
  @Test
  func `answers slowly keeps no server waiting longer than it waits`() async throws {
    // Nothing is reported in the background.
    try await BeforeZulips.test(knowsRealm: false, isWorking: false) { place in
      for endpoint in ["push/e2ee/register", "server/analytics/status", "server/analytics"] {
        place.upstream.fault(endpoint) { [upstream = place.upstream] call in
          // A slow answer: four of them take longer than a server waits.
          try await Task.sleep(for: .seconds(5))
          return upstream.truth(call)
        }
      }
      // After all four calls it would be a success.
      let answer = try await place.registerStore("store")
      #expect(answer.status == 429, "\(answer.text)")
      #expect(try await place.bouncer.rows("SELECT id FROM registrations").isEmpty)
      for endpoint in ["push/e2ee/register", "server/analytics/status", "server/analytics"] {
        place.upstream.fault(endpoint, nil)
      }
      #expect(try await place.registerStore("store").isSuccess)
    }
  }

  @Test
  func `refuses a server's notifications gets its other calls at once`() async throws {
    try await BeforeZulips.test { place in
      #expect(try await place.registerStore("store").isSuccess)
      let refusal = Fault.unauthorized.answer
      place.upstream.fault("push/e2ee/notify", refusal.0, refusal.1)
      #expect(try await place.notify([PushItem.fcm("store")]).isSuccess)
      await eventually("its notifications are held up") {
        place.bouncer.clock.advance(1)
        if case .open = place.bouncer.providers.upstream?.state { return true }
        return false
      }
      let answer = try await place.registerStore("other")
      #expect(answer.isSuccess, "\(answer.text)")
    }
  }

  @Test
  func `cannot be reached keeps nothing of ours waiting, and has a phone try again`() async throws {
    try await Simulated.test(["upstream.url": "http://127.0.0.1:1"], clock: TestClock(nil), isWorking: true) {
      ours in
      let bouncer = ours.bouncer
      let server = try await bouncer.server()
      try await bouncer.enableUpstream()
      let realm = try await bouncer.realm(of: server)
      let place = BeforeZulips(
        ours: ours, upstream: LikeZulips(key: "", realms: []), host: nil, server: server, realm: realm)
      let answer = try await place.registerStore("store")
      #expect((answer.status, answer.code) == (429, "RATE_LIMIT_HIT"))
      #expect(answer.headers[.retryAfter] != nil)
      try await place.registerOwn(bouncer.apns("c0ffee"))
      try await bouncer.registrations.registerUpstream(
        TokenID(token: "store"),
        realm: try #require(try await bouncer.rows("SELECT id FROM remote_realms")[0][0].number))
      let sent = try await place.notify([PushItem.apns("c0ffee"), PushItem.fcm("store")])
      #expect(sent.json["apple_successfully_sent_count"] == 1)
      #expect(try await bouncer.rows("SELECT COUNT(*) FROM outbox") == [[1]])
      await eventually("the route is called failing") {
        if case .failing(.connectionRefused, _) = bouncer.providers.upstream?.state { return true }
        if case .open(.connectionRefused, _) = bouncer.providers.upstream?.state { return true }
        return false
      }
    }
  }

  @Test
  func `answers late is not sent the same again while its answer may come`() async throws {
    try await BeforeZulips.test(["delivery.deadline": "1s"]) { place in
      try await place.registerOwn(place.bouncer.apns("c0ffee"))
      #expect(try await place.registerStore("store").isSuccess)
      let gate = Gate()
      place.upstream.fault("push/e2ee/notify") { [upstream = place.upstream] call in
        await gate.wait()
        return upstream.truth(call)
      }
      // The upstream bouncer's comes after this one.
      let answer = try await place.notify([PushItem.apns("c0ffee"), PushItem.fcm("store")])
      #expect(answer.json["apple_successfully_sent_count"] == 1)
      #expect(answer.json["android_successfully_sent_count"] == 0)
      #expect(try await place.bouncer.rows("SELECT COUNT(*) FROM outbox") == [[1]])
      #expect(place.heard("store") == 0)
      await gate.open()
      try await eventually("the answer settles its entry") {
        try await place.bouncer.rows("SELECT id FROM outbox").isEmpty
      }
      #expect(place.heard("store") == 1)
      #expect(place.upstream.calls.count { $0 == "push/e2ee/notify" } == 1)
    }
  }

  @Test
  func `counts wrongly or names what it was not sent is believed of nothing else`() async throws {
    try await BeforeZulips.test { place in
      try await place.registerOwn(place.bouncer.apns("c0ffee"))
      #expect(try await place.registerStore("store").isSuccess)
      let own = TokenID(token: "c0ffee").base64
      for (apple, android) in [(7, 9_000_000_000), (-3, -1)] {
        place.upstream.fault(
          "push/e2ee/notify", 200,
          """
          {"result":"success","msg":"","apple_successfully_sent_count":\(apple),\
          "android_successfully_sent_count":\(android),"delete_token_ids":["\(own)","AAAAAAAAAAE=","no id"]}
          """)
        let answer = try await place.notify([PushItem.apns("c0ffee"), PushItem.fcm("store")])
        #expect(answer.json["apple_successfully_sent_count"] == 1)
        #expect(answer.json["android_successfully_sent_count"] == (android > 0 ? 1 : 0))
        #expect(answer.json["delete_token_ids"] == [])
      }
      #expect(
        try await place.bouncer.rows("SELECT COUNT(*) FROM registrations WHERE ended_at IS NULL") == [[2]])
      #expect(try await place.bouncer.rows("SELECT id FROM outbox").isEmpty)
    }
  }

  @Test
  func `has lost everything ends no more than a provider may, and one death is told`() async throws {
    try await BeforeZulips.test { place in
      #expect(try await place.registerStore("store").isSuccess)
      place.upstream.end(TokenID(token: "store").base64)
      let one = try await place.notify([PushItem.fcm("store")])
      #expect(one.json["delete_token_ids"] == [.string(TokenID(token: "store").base64)])
      // What has ended is told again, without asking, and lives again when the phone registers.
      let calls = place.upstream.calls.count { $0 == "push/e2ee/notify" }
      #expect(
        try await place.notify([PushItem.fcm("store")]).json["delete_token_ids"]
          == one.json["delete_token_ids"])
      #expect(place.upstream.calls.count { $0 == "push/e2ee/notify" } == calls)
      #expect(try await place.registerStore("store").isSuccess)
      #expect(try await place.bouncer.rows("SELECT id FROM registrations WHERE ended_at IS NOT NULL").isEmpty)

      let many = (0..<60).map { "phone\($0)" }
      for token in many { #expect(try await place.registerStore(token).isSuccess) }
      for token in many { place.upstream.end(TokenID(token: token).base64) }
      let answer = try await place.notify(many.map { PushItem.fcm($0) })
      let told = answer.json["delete_token_ids"]?.elements.count ?? 0
      #expect(told <= 21, "\(told)")
      let held = try await place.bouncer.rows(
        "SELECT COUNT(*) FROM registrations WHERE dead_since IS NOT NULL")
      #expect(held == [[.integer(Int64(60 - told))]])
    }
  }

  @Test
  func `does not want a server's notifications costs ours nothing`() async throws {
    try await BeforeZulips.test { place in
      try await place.registerOwn(place.bouncer.apns("c0ffee"))
      #expect(try await place.registerStore("store").isSuccess)
      place.upstream.fault(
        "push/e2ee/notify", 400,
        #"{"result":"error","msg":"Your plan doesn't allow it","code":"PUSH_NOTIFICATIONS_DISALLOWED"}"#)
      let answer = try await place.notify([PushItem.apns("c0ffee"), PushItem.fcm("store")])
      #expect(answer.isSuccess && answer.json["apple_successfully_sent_count"] == 1)
      #expect(try await place.bouncer.rows("SELECT id FROM outbox").isEmpty)
      #expect(
        try await place.bouncer.rows("SELECT failure FROM registrations WHERE elsewhere = 1") == [
          [.text("upstreamDisallows")]
        ])
    }
  }

  @Test
  func `does not want a server's notifications is named to its operator and to whoever asks for a test`()
    async throws
  {
    let log = LogRecorder()
    try await BeforeZulips.test(logger: log.logger) { place in
      #expect(try await place.registerStore("store").isSuccess)
      let user = OldUser(id: 10)
      place.upstream.know(encrypted: [], legacy: [("decade", 1)], of: user)
      let test: JSON = [
        "token": "decade", "token_kind": 1, "user_id": 10, "user_uuid": .string(user.uuid),
        "base_payload": [:],
      ]
      func tested() async throws -> Answer {
        try await place.bouncer.post("push/test_notification", json: test, as: place.server)
      }
      let server = try #require(try await place.bouncer.servers.find(hostname: "chat.example.org"))
      func bad() async throws -> [String] {
        try await UpstreamReport(of: server.id, place.links, at: "push.example.com")?
          .fact(at: place.bouncer.clock.now).sentences.filter(\.isBad).map(\.text) ?? []
      }
      func warnings() -> Int {
        log.lines.count { $0.level == .warning && $0.metadata["reason"] == "upstreamDisallows" }
      }
      #expect(try await tested().isSuccess)
      place.upstream.fault(
        "push/e2ee/notify", 400,
        #"{"result":"error","msg":"Your plan doesn't allow it","code":"PUSH_NOTIFICATIONS_DISALLOWED"}"#)
      for _ in 1...2 { #expect(try await place.notify([PushItem.fcm("store")]).isSuccess) }
      #expect(warnings() == 1)
      #expect(try await bad().first?.contains("does not send for this chat server") == true)
      // The upstream bouncer sends tests whatever the plan.
      let refused = try await tested()
      #expect((refused.status, refused.code) == (400, "BAD_REQUEST"))
      #expect(refused.message?.contains("because of its plan there") == true, "\(refused.text)")
      place.bouncer.clock.advance(3601)
      #expect(try await place.notify([PushItem.fcm("store")]).isSuccess)
      #expect(warnings() == 2)
      place.upstream.fault("push/e2ee/notify", nil)
      #expect(try await place.notify([PushItem.fcm("store")]).isSuccess)
      #expect(try await bad().isEmpty)
      #expect(try await tested().isSuccess)
    }
  }

  /// What is sealed has 40 bytes more than this.
  private func sealed(_ item: JSON, _ bytes: Int, priority: String = "high") -> JSON {
    guard case .object(var item) = item else { return item }
    if item["fcm_priority"] != nil { item["fcm_priority"] = .string(priority) }
    item["payload"] = [
      "push_key_id": 20, "encrypted_data": .string(Base64.encode([UInt8](repeating: 7, count: 40 + bytes))),
    ]
    return .object(item)
  }

  /// The upstream bouncer refuses these by the server's plan.
  @Test
  func `does not want a server's notifications is named in the answer to an encrypted test`() async throws {
    try await BeforeZulips.test { place in
      try await place.registerOwn(place.bouncer.apns("c0ffee"))
      for token in ["store", "other"] { #expect(try await place.registerStore(token).isSuccess) }
      let (test, message) = (110, 300)
      #expect(try await place.notify([sealed(PushItem.fcm("store"), test)]).isSuccess)
      place.upstream.fault(
        "push/e2ee/notify", 400,
        #"{"result":"error","msg":"Your plan doesn't allow it","code":"PUSH_NOTIFICATIONS_DISALLOWED"}"#)
      let stores = [sealed(PushItem.fcm("store"), test), sealed(PushItem.apns("other"), test)]
      for items in [stores, [stores[0]], [stores[1]]] {
        let answer = try await place.notify(items)
        #expect((answer.status, answer.code) == (400, "BAD_REQUEST"))
        #expect(answer.message?.contains("because of its plan there") == true, "\(answer.text)")
      }
      // A test that arrives somewhere has arrived, and of nothing else a server has to hear.
      let own = sealed(PushItem.apns("c0ffee"), test)
      for items in [
        stores + [own], [sealed(PushItem.fcm("store"), message)],
        [sealed(PushItem.fcm("store"), test, priority: "normal")], [stores[0], PushItem.fcm("unheard of")],
        [],
      ] {
        let answer = try await place.notify(items)
        #expect(answer.isSuccess, "\(answer.text)")
      }
    }
  }

  @Test
  func `has its key put right gets what waits as soon as the operator says so`() async throws {
    try await BeforeZulips.test { place in
      #expect(try await place.registerStore("store").isSuccess)
      place.upstream.key = String(repeating: "w", count: 64)
      #expect(try await place.notify([PushItem.fcm("store")]).isSuccess)
      try await eventually("it is refused") {
        try await place.bouncer.rows("SELECT reason FROM outbox") == [[.text("upstreamKeyRefused")]]
      }
      // As after many refusals.
      _ = try await place.bouncer.database.execute(Statement("UPDATE outbox SET due_at = due_at + 600000"))
      place.upstream.key = place.server.key
      let began = ContinuousClock.now
      try await place.bouncer.enableUpstream()
      let server = Credentials(id: place.server.id, key: place.server.key)
      let call = try await place.bouncer.call("server/analytics/status", .get, authorization: server.header)
      #expect(call.status == 200)
      await eventually("it rings") { place.heard("store") == 1 }
      #expect(.now - began < .seconds(30))
    }
  }

  @Test(arguments: [true, false])
  func `was forgotten keeps its phones for an hour, and the operator is told`(isMended: Bool) async throws {
    let log = LogRecorder()
    try await BeforeZulips.test(isEnabled: false, logger: log.logger) { place in
      let user = OldUser(id: 10)
      place.upstream.know(encrypted: ["store"], legacy: [("decade", 1)], of: user)
      try await place.registerOwn(place.bouncer.apns("c0ffee"))
      func told() async throws -> (JSON?, JSON?) {
        let body = user.notification(
          "hello", realm: place.realm, named: .both, android: [], apple: ["decade"])
        let old = try await place.bouncer.post("push/notify", json: body, as: place.server)
        let answer = try await place.notify([PushItem.apns("c0ffee"), PushItem.fcm("store")])
        #expect(answer.json["apple_successfully_sent_count"] == 1)
        return (answer.json["delete_token_ids"], old.json["deleted_devices"]?["apple_devices"])
      }
      for _ in 1...2 {
        #expect(try await told() == ([], []))
        place.bouncer.clock.advance(1700)
      }
      let warnings = log.lines.filter { "\($0.metadata["advice"] ?? "")".contains("server upstream enable") }
      #expect(warnings.map(\.level) == [.warning])
      let advice = "\(warnings.first?.metadata["advice"] ?? "")"
      #expect(advice.hasSuffix("enable chat.example.org"))
      #expect(try await place.links.serversWithUnknownDevices().map(\.server) == ["chat.example.org"])
      if isMended { try await place.bouncer.enableUpstream() }
      place.bouncer.clock.advance(300)
      #expect(
        try await told() == (isMended ? ([], []) : ([.string(TokenID(token: "store").base64)], ["decade"])))
      #expect(place.heard("store") == (isMended ? 1 : 0))
      #expect(try await place.links.serversWithUnknownDevices().isEmpty == isMended)
    }
  }

  @Test
  func `does not know a realm is told of it before a phone is refused`() async throws {
    // Nothing is reported in the background.
    try await BeforeZulips.test(knowsRealm: false, isWorking: false) { place in
      place.upstream.fault("server/analytics", 500, "{}")
      let early = try await place.registerStore("store")
      #expect((early.status, early.code) == (429, "RATE_LIMIT_HIT"))
      place.upstream.fault("server/analytics", nil)
      let answer = try await place.registerStore("store")
      #expect(answer.isSuccess, "\(answer.text)")
      #expect(place.upstream.realms == [place.realm])
    }
  }

  /// It has rung the phone then, and would ring it again.
  @Test
  func `cuts the connection gets it again after 1, 5 and 15 minutes`() async throws {
    try await BeforeZulips.test { place in
      #expect(try await place.registerStore("store").isSuccess)
      place.upstream.fault("push/e2ee/notify") { [upstream = place.upstream] call in
        _ = upstream.truth(call)
        return Response(status: .ok, body: ResponseBody { _ in throw Cut() })
      }
      var sent = place.bouncer.clock.now
      let answer = try await place.notify([PushItem.fcm("store")])
      #expect(answer.json["android_successfully_sent_count"] == 0, "\(answer.text)")
      for (tries, minutes) in [1.0, 5, 15].enumerated() {
        try await eventually("it waits") {
          try await place.bouncer.rows("SELECT id FROM outbox WHERE doubts = \(tries + 1)").count == 1
        }
        #expect(place.heard("store") == tries + 1)
        let due = try #require(try await place.bouncer.rows("SELECT due_at FROM outbox").first?.first?.number)
        let time = Date(timeIntervalSince1970: Double(due) / 1000)
        // Between the two the connection was cut.
        #expect(time >= sent + minutes * 60 && time <= place.bouncer.clock.now + minutes * 66, "\(tries + 1)")
        if minutes == 15 { place.upstream.fault("push/e2ee/notify", nil) }
        sent = time
        place.bouncer.clock.set(time + 1)
        await eventually("it is sent again") { place.heard("store") == tries + 2 }
      }
      try await eventually("it is done") { try await place.bouncer.rows("SELECT id FROM outbox").isEmpty }
      #expect(place.heard("store") == 4)
    }
  }
}

private struct Cut: Error {}

/// Holds calls back until it is opened.
private actor Gate {
  private var isOpen = false
  private var waiting: [CheckedContinuation<Void, Never>] = []

  func wait() async {
    guard !isOpen else { return }
    await withCheckedContinuation { waiting.append($0) }
  }

  func open() {
    isOpen = true
    for continuation in waiting { continuation.resume() }
    waiting = []
  }
}

extension Value {
  fileprivate var number: Int64? { if case .integer(let number) = self { number } else { nil } }
}
