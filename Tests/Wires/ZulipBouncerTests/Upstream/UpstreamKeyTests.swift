import Foundation
import HTTP
import HTTPTypes
import Logging
import Platform
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

@Suite("The key of a server with an upstream link")
struct UpstreamKeyTests {
  private let newKey = String(repeating: "n", count: 64)

  /// What stock `register_server --rotate-key` sends.
  private func rotation(_ place: BeforeZulips, to newKey: String, hostname: String = "chat.example.org")
    -> [(String, String)]
  {
    [
      ("zulip_org_id", place.server.id), ("zulip_org_key", place.server.key), ("hostname", hostname),
      ("contact_email", "admin@example.org"), ("new_org_key", newKey),
    ]
  }

  private func link(_ place: BeforeZulips) async throws -> UpstreamLinks.Link {
    try await Task.sleep(for: RemoteServers.propagation)
    let server = try #require(try await place.bouncer.servers.find(hostname: "chat.example.org"))
    return try #require(try await place.links.link(of: server.id))
  }

  private func status(_ place: BeforeZulips, _ key: String) async throws -> Int {
    let server = Credentials(id: place.server.id, key: key)
    return try await place.bouncer.call("server/analytics/status", .get, authorization: server.header).status
  }

  @Test
  func `is refused only until the upstream bouncer sends for its server again`() async throws {
    try await BeforeZulips.test { place in
      let server = try #require(try await place.bouncer.servers.find(hostname: "chat.example.org")).id
      #expect(try await place.links.recordRefusal(of: server))
      #expect(try await place.links.link(of: server)?.refusedAt != nil)
      // Once an hour is often enough to log it.
      #expect(try await !place.links.recordRefusal(of: server))
      try await place.links.recordAccepted(for: server)
      #expect(try await place.links.link(of: server)?.refusedAt == nil)
    }
  }

  @Test
  func `is kept, sealed, from its next call on, and forgotten`() async throws {
    try await BeforeZulips.test { place in
      #expect(try await link(place).key == place.server.key)
      #expect(!(try await place.bouncer.test.contents()).contains(place.server.key.utf8))
      #expect(try await place.registerStore("store").isSuccess)
      let server = try #require(try await place.bouncer.servers.find(hostname: "chat.example.org"))
      #expect(try await place.links.disable(server.id) == 1)
      try await Task.sleep(for: RemoteServers.propagation)
      #expect(try await place.bouncer.rows("SELECT * FROM upstream_links").isEmpty)
      let answer = try await place.notify([PushItem.fcm("store")])
      #expect(answer.json["delete_token_ids"] == [.string(TokenID(token: "store").base64)])
      #expect(try await place.registerStore("store").code == "INVALID_BOUNCER_PUBLIC_KEY")
      // Taken back, what had ended lives again.
      try await place.bouncer.enableUpstream()
      #expect(try await place.notify([PushItem.fcm("store")]).json["delete_token_ids"] == [])
      #expect(place.heard("store") == 1)
    }
  }

  @Test
  func `changes at both, there first`() async throws {
    try await BeforeZulips.test { place in
      let answer = try await place.bouncer.post("server/register", rotation(place, to: newKey))
      #expect(answer.isSuccess, "\(answer.text)")
      #expect(place.upstream.key == newKey)
      #expect(try await status(place, newKey) == 200)
      // The stock command makes one more call with the old one, which is not kept.
      #expect(try await status(place, place.server.key) == 200)
      #expect(try await link(place).key == newKey)
      #expect(try await place.registerStore("store").isSuccess)
      #expect(try await place.notify([PushItem.fcm("store")]).isSuccess)
      #expect(place.heard("store") == 1)
    }
  }

  @Test(arguments: [503, 400, 0])
  func `stays at both if the other one does not take it`(_ status: Int) async throws {
    try await BeforeZulips.test { place in
      place.upstream.fault("server/register") { _ in
        if status == 0 { throw CancellationError() }
        return OthersHost.response(status, #"{"result":"error","msg":"No","code":"BAD_REQUEST"}"#)
      }
      let before = try await place.bouncer.rows("SELECT key_hash, previous_key_hash FROM remote_servers")
      let answer = try await place.bouncer.post("server/register", rotation(place, to: newKey))
      #expect(answer.status == 400)
      // Without an answer it may have.
      #expect(answer.message?.hasPrefix("Nothing has changed") == (status == 400), "\(answer.text)")
      #expect(
        try await place.bouncer.rows("SELECT key_hash, previous_key_hash FROM remote_servers") == before)
      #expect(try await self.status(place, newKey) == 401)
      #expect(try await self.status(place, place.server.key) == 200)
      place.upstream.fault("server/register", nil)
      try await eventually("it is settled which key it is") {
        place.bouncer.clock.advance(10)
        return try await link(place).nextKey == nil
      }
      #expect(try await place.bouncer.post("server/register", rotation(place, to: newKey)).isSuccess)
      #expect(place.upstream.key == newKey)
    }
  }

  @Test
  func `that the other one refuses is refused with the same reason again, and taken at once when it may be`()
    async throws
  {
    try await BeforeZulips.test { place in
      place.upstream.fault("server/register") { _ in
        OthersHost.response(400, #"{"result":"error","msg":"Enter a valid email","code":"BAD_REQUEST"}"#)
      }
      for _ in 1...2 {
        let answer = try await place.bouncer.post("server/register", rotation(place, to: newKey))
        #expect(
          answer.message?.hasSuffix("did not take the new key: Enter a valid email") == true, "\(answer.text)"
        )
      }
      place.upstream.fault("server/register", nil)
      #expect(try await place.bouncer.post("server/register", rotation(place, to: newKey)).isSuccess)
      #expect(place.upstream.key == newKey)
    }
  }

  /// Each of these says that the key was not taken.
  @Test(arguments: [
    (400, #"{"result":"error","msg":"Zulip server auth failure","code":"INVALID_ZULIP_SERVER"}"#),
    (401, #"{"result":"error","msg":"deactivated","code":"REALM_DEACTIVATED"}"#),
    (403, #"{"result":"error","msg":"No"}"#),
    (429, #"{"result":"error","msg":"No","code":"RATE_LIMIT_HIT"}"#),
    (400, "<html><h1>400 Bad Request</h1></html>"), (404, "Not Found"),
  ])
  func `that the other one refuses in any way may be changed at once`(_ status: Int, _ body: String)
    async throws
  {
    try await BeforeZulips.test { place in
      place.upstream.fault("server/register", status, body)
      for _ in 1...2 {
        let answer = try await place.bouncer.post("server/register", rotation(place, to: newKey))
        #expect(answer.message?.hasPrefix("Nothing has changed: ") == true, "\(answer.text)")
        #expect(answer.message?.contains("ten seconds") == false, "\(answer.text)")
      }
      #expect(try await link(place).nextKey == nil)
      place.upstream.fault("server/register", nil)
      #expect(try await place.bouncer.post("server/register", rotation(place, to: newKey)).isSuccess)
      #expect(place.upstream.key == newKey)
    }
  }

  @Test
  func `that may have been taken is not changed again, and why is said`() async throws {
    try await BeforeZulips.test { place in
      place.upstream.fault("server/register") { _ in throw CancellationError() }
      func refusal() async throws -> String {
        try await place.bouncer.post("server/register", rotation(place, to: newKey)).message ?? ""
      }
      let first = try await refusal()
      #expect(first.hasPrefix("It is not known yet whether the upstream bouncer"))
      #expect(first.contains("does not answer"))
      let second = try await refusal()
      #expect(second.contains("may still be under way: try again in ten seconds"))
      place.upstream.fault("server/analytics/status", 503, "{}")
      let third = try await refusal()
      #expect(third.contains("is not known after the change before: "))
    }
  }

  @Test
  func `that it has taken without a word is found out, and can be changed again`() async throws {
    try await BeforeZulips.test { place in
      #expect(try await place.registerStore("store").isSuccess)
      place.upstream.fault("server/register") { [upstream = place.upstream] call in
        _ = upstream.truth(call)
        throw CancellationError()
      }
      #expect(try await place.bouncer.post("server/register", rotation(place, to: newKey)).status == 400)
      #expect(place.upstream.key == newKey)
      place.upstream.fault("server/register", nil)
      // Nothing is lost meanwhile.
      #expect(try await place.notify([PushItem.fcm("store")]).isSuccess)
      await eventually("it rings") {
        place.bouncer.clock.advance(30)
        return place.heard("store") == 1
      }
      let third = String(repeating: "t", count: 64)
      let answer = try await place.bouncer.post("server/register", rotation(place, to: third))
      #expect(answer.isSuccess, "\(answer.text)")
      #expect(place.upstream.key == third)
      #expect(try await status(place, third) == 200)
    }
  }

  /// Has a report made, signed in with the key that the server is thought to have.
  private func report(_ place: BeforeZulips) async throws {
    place.upstream.fault(
      "push/e2ee/register", 403,
      #"{"result":"error","msg":"Organization not registered","code":"MISSING_REMOTE_REALM"}"#)
    _ = try await place.registerStore("other")
    place.upstream.fault("push/e2ee/register", nil)
  }

  @Test
  func `that it has taken without a word can be changed again as soon as the former one was refused`()
    async throws
  {
    try await BeforeZulips.test { place in
      #expect(try await place.registerStore("store").isSuccess)
      place.upstream.fault("server/register") { [upstream = place.upstream] call in
        _ = upstream.truth(call)
        try await report(place)
        throw CancellationError()
      }
      #expect(try await place.bouncer.post("server/register", rotation(place, to: newKey)).status == 400)
      #expect(place.upstream.key == newKey)
      place.upstream.fault("server/register", nil)
      let third = String(repeating: "t", count: 64)
      let answer = try await place.bouncer.post("server/register", rotation(place, to: third))
      #expect(answer.isSuccess, "\(answer.text)")
      #expect(place.upstream.key == third)
    }
  }

  @Test
  func `is not taken for the former one because of an answer from before the change`() async throws {
    try await BeforeZulips.test { place in
      let registered = try await place.registerStore("store")
      #expect(registered.isSuccess)
      place.upstream.fault("server/register") { [upstream = place.upstream] call in
        // The change is still on its way.
        try await report(place)
        _ = upstream.truth(call)
        throw CancellationError()
      }
      #expect(try await place.bouncer.post("server/register", rotation(place, to: newKey)).status == 400)
      #expect(place.upstream.key == newKey)
      #expect(try await link(place).nextKey != nil)
      place.upstream.fault("server/register", nil)
      #expect(try await place.notify([PushItem.fcm("store")]).isSuccess)
      await eventually("it rings") {
        place.bouncer.clock.advance(30)
        return place.heard("store") == 1
      }
    }
  }

  /// What `doctor` says of the link.
  private func doctor(_ place: BeforeZulips) async throws -> Finding {
    var providers = PushProviders.Configuration(place.bouncer.test.configuration)
    providers.upstream = place.links.provider(at: place.bouncer.test.configuration.upstream.url)
    return try #require(await place.links.findings(providers).first)
  }

  private func call(_ place: BeforeZulips, with key: String) async throws {
    #expect(try await status(place, key) == 200)
    try await Task.sleep(for: RemoteServers.propagation)
  }

  @Test
  func `that was taken without a word is not forgotten when the link is enabled again`() async throws {
    try await BeforeZulips.test(isWorking: false) { place in
      place.upstream.fault("server/register") { [upstream = place.upstream] call in
        _ = upstream.truth(call)
        throw CancellationError()
      }
      #expect(try await place.bouncer.post("server/register", rotation(place, to: newKey)).status == 400)
      place.upstream.fault("server/register", nil)
      try await place.bouncer.enableUpstream()
      try await call(place, with: place.server.key)
      // Until a report has shown which it is, nobody has to do anything.
      #expect(try await doctor(place).standing == .warning)
      // A phone has a report made.
      for _ in 1...2 { try await report(place) }
      #expect(try await link(place).key == newKey)
      #expect(try await doctor(place).standing == .good)
    }
  }

  @Test
  func `that the server still uses in its grace is not taken for the new one when the link is enabled again`()
    async throws
  {
    try await BeforeZulips.test { place in
      #expect(try await place.bouncer.post("server/register", rotation(place, to: newKey)).isSuccess)
      try await place.bouncer.enableUpstream()
      try await call(place, with: place.server.key)
      try await eventually("a report has shown which it is") {
        place.bouncer.clock.advance(10)
        return try await link(place).nextKey == nil
      }
      #expect(try await link(place).key == newKey)
      let found = try await doctor(place)
      #expect(found.standing == .good, "\(found)")
    }
  }

  @Test
  func `changes at both if that is the first call since the link was enabled again`() async throws {
    try await BeforeZulips.test(isWorking: false) { place in
      try await place.bouncer.enableUpstream()
      #expect(try await place.bouncer.post("server/register", rotation(place, to: newKey)).isSuccess)
      #expect(place.upstream.key == newKey)
      // The operator's command needs no call of the server.
      try await place.bouncer.enableUpstream()
      let server = try #require(try await place.bouncer.servers.find(hostname: "chat.example.org"))
      let store = place.bouncer.test.service.store
      let key = try #require(try await store.rotateKey(of: server, place.bouncer.test.configuration))
      #expect(place.upstream.key == key)
      #expect(try await doctor(place).standing == .good)
    }
  }

  @Test
  func `does not change by the operator's command before the one there is known`() async throws {
    try await BeforeZulips.test(isEnabled: false, isWorking: false) { place in
      try await place.bouncer.enableUpstream()
      let server = try #require(try await place.bouncer.servers.find(hostname: "chat.example.org"))
      let store = place.bouncer.test.service.store
      func rotate() async throws -> String? {
        try await store.rotateKey(of: server, place.bouncer.test.configuration)
      }
      let fault = await #expect(throws: Fault.self) { try await rotate() }
      #expect(fault?.description.contains("Nothing has changed: ") == true, "\(String(describing: fault))")
      try await call(place, with: place.server.key)
      let key = try #require(try await rotate())
      #expect(place.upstream.key == key)
    }
  }

  @Test
  func `does not change there if the server's own call is wrong`() async throws {
    try await BeforeZulips.test { place in
      _ = try await place.bouncer.server("other.example.org")
      let taken = try await place.bouncer.post(
        "server/register", rotation(place, to: newKey, hostname: "other.example.org"))
      #expect(taken.code == "HOSTNAME_ALREADY_IN_USE_BOUNCER_ERROR")
      var wrong = rotation(place, to: newKey)
      wrong[1].1 = String(repeating: "w", count: 64)
      #expect(try await place.bouncer.post("server/register", wrong).code == "INVALID_ZULIP_SERVER")
      #expect(place.upstream.key == place.server.key)
    }
  }

  @Test
  func `does not change there if the server has yet to prove the hostname that it brings`() async throws {
    for (registration, code) in [("open", "HOSTNAME_NOT_VERIFIED"), ("closed", "SERVER_REGISTRATION_CLOSED")]
    {
      try await BeforeZulips.test([
        "bouncer.verify_hostnames": "true", "bouncer.registration": registration,
      ]) { place in
        let answer = try await place.bouncer.post(
          "server/register", rotation(place, to: newKey, hostname: "new.example.org"))
        #expect(answer.code == code)
        #expect(place.upstream.key == place.server.key)
        #expect(!place.upstream.calls.contains("server/register"))
        #expect(try await status(place, place.server.key) == 200)
      }
    }
  }

  @Test
  func `changes at both by the operator's command`() async throws {
    try await BeforeZulips.test { place in
      let server = try #require(try await place.bouncer.servers.find(hostname: "chat.example.org"))
      let store = place.bouncer.test.service.store
      let key = try #require(try await store.rotateKey(of: server, place.bouncer.test.configuration))
      #expect(place.upstream.key == key)
      #expect(try await status(place, key) == 200)
      place.upstream.fault("server/register", 503, "{}")
      await #expect(throws: Fault.self) {
        try await store.rotateKey(of: server, place.bouncer.test.configuration)
      }
      #expect(try await status(place, key) == 200)
    }
  }

  @Test
  func `does not change without the address that the other one wants, and what to type is said`() async throws
  {
    try await BeforeZulips.test { place in
      try await place.bouncer.servers.setContact(
        "", of: try #require(try await place.bouncer.servers.find(hostname: "chat.example.org")).id)
      let server = try #require(try await place.bouncer.servers.find(hostname: "chat.example.org"))
      let store = place.bouncer.test.service.store
      let calls = place.upstream.calls.count { $0 == "server/register" }
      let fault = await #expect(throws: Fault.self) {
        try await store.rotateKey(of: server, place.bouncer.test.configuration)
      }
      #expect(
        "\(try #require(fault))".contains(
          "push-bouncer server rotate-key chat.example.org --contact-email ADDRESS"))
      #expect(place.upstream.calls.count { $0 == "server/register" } == calls)
      let key = try #require(
        try await store.rotateKey(of: server, email: "admin@example.org", place.bouncer.test.configuration))
      #expect(place.upstream.key == key)
      #expect(
        try await place.bouncer.servers.find(hostname: "chat.example.org")?.contactEmail
          == "admin@example.org")
    }
  }
}

@Suite("Reports of a server with an upstream link")
struct UpstreamReportTests {
  /// Figures with these ids.
  private func report(_ place: BeforeZulips, _ ids: ClosedRange<Int>) -> [(String, String)] {
    let counts = ids.map { id -> JSON in
      [
        "id": .integer(Int64(id)), "realm": 2, "property": "messages_sent:is_bot:hour", "subgroup": "false",
        "end_time": .number("1790000000.0"), "value": 3,
      ]
    }
    var form = place.bouncer.analytics([place.bouncer.realmJSON(place.realm)])
    form[0].1 = JSON.array(counts).text
    return form + [("version", "\"12.2\""), ("api_feature_level", "500")]
  }

  @Test
  func `bring realms to the other one as they came, with what is not known here`() async throws {
    try await BeforeZulips.test(knowsRealm: false) { place in
      guard case .object(var realm) = place.bouncer.realmJSON(place.realm) else { return }
      realm["description"] = ["text": "d", "more": [1, nil]]
      realm["org_type"] = 33
      let form = place.bouncer.analytics([.object(realm)])
      let answer = try await place.bouncer.post("server/analytics", form, as: place.server)
      #expect(answer.isSuccess, "\(answer.text)")
      await eventually("they are told") { place.upstream.reported == [.object(realm)] }
    }
  }

  @Test
  func `go on after what the other one has got from elsewhere meanwhile`() async throws {
    // A phone's registration has the report made, and nothing else does.
    try await BeforeZulips.test(knowsRealm: false, isWorking: false) { place in
      let first = try await place.bouncer.post("server/analytics", report(place, 1...700), as: place.server)
      #expect(first.isSuccess, "\(first.text)")
      place.upstream.fault("server/analytics") { [upstream = place.upstream] call in
        upstream.fault("server/analytics", nil)
        _ = upstream.truth(call)
        return LikeZulips.error(400, "BAD_REQUEST", "Data is out of order.")
      }
      let answer = try await place.registerStore("store")
      #expect(answer.isSuccess, "\(answer.text)")
      #expect(place.upstream.counts == Array(1...700))
      // A refusal for another reason is one.
      place.upstream.fault("server/analytics", 400, #"{"result":"error","msg":"No","code":"BAD_REQUEST"}"#)
      place.upstream.fault(
        "push/e2ee/register", 403,
        #"{"result":"error","msg":"Organization not registered","code":"MISSING_REMOTE_REALM"}"#)
      #expect(try await place.registerStore("store").status == 429)
      #expect(
        place.upstream.calls.suffix(3) == [
          "server/analytics/status", "server/analytics", "server/analytics/status",
        ])
    }
  }

  /// Of what it is sent, the upstream bouncer may say anything again.
  @Test
  func `that are refused leave nothing of what was sent in the log or the database`() async throws {
    let log = LogRecorder()
    try await BeforeZulips.test(logger: log.logger) { place in
      for endpoint in ["server/analytics", "push/register"] {
        place.upstream.fault(endpoint) { call in
          let authorization = call.headers[.authorization] ?? ""
          let key = Data(base64Encoded: String(authorization.dropFirst(6))).map {
            String(decoding: $0, as: UTF8.self)
          }
          let message = "wrong \u{1B}[31m\n\u{202E} call: \(authorization) \(key ?? "") \(call.body)"
          let text = JSON.object(["result": "error", "msg": .string(message), "code": .string(message)]).text
          return OthersHost.response(403, text)
        }
      }
      let token = String(repeating: "c0ffee99", count: 8)
      let user = OldUser(id: 7)
      let form = user.register(token, .apns, realm: place.realm) + [("ios_app_id", "org.example.store")]
      _ = try await place.bouncer.post("push/register", form, as: place.server)
      _ = try await place.bouncer.post("server/analytics", report(place, 1...3), as: place.server)
      try await eventually("it shows") { try await place.links.all().first?.failure != nil }
      await eventually("it is logged") {
        log.lines.contains { $0.message == "a report to the upstream bouncer failed; it is retried" }
      }
      let failure = try #require(try await place.links.all().first?.failure)
      #expect(failure.hasPrefix("wrong "), "\(failure)")
      let secrets = [
        place.server.key, place.server.header, String(place.server.header.dropFirst(6)), token,
        "zuliprealm_abc",
      ]
      for text in log.texts + [failure] {
        for secret in secrets { #expect(!text.contains(secret), "\(text)") }
        #expect(!text.unicodeScalars.contains { $0.value < 32 || $0.value == 0x202E }, "\(text)")
      }
      #expect(failure.utf8.count <= 300)
    }
  }

  @Test
  func `reach the other one from where it says, whatever it misses meanwhile`() async throws {
    let log = LogRecorder()
    try await BeforeZulips.test(knowsRealm: false, logger: log.logger) { place in
      await eventually("its realms are told") {
        // A first try that fails is followed by another one only when its time has come.
        place.bouncer.clock.advance(1)
        return place.upstream.realms == [place.realm]
      }
      place.upstream.fault("server/analytics", 500, "{}")
      let first = try await place.bouncer.post("server/analytics", report(place, 1...700), as: place.server)
      #expect(first.isSuccess, "\(first.text)")
      let server = try #require(try await place.bouncer.servers.find(hostname: "chat.example.org"))
      try await eventually("it shows") { try await place.links.all().first?.failure != nil }
      #expect(try await place.links.all().first?.failure?.hasSuffix("does not answer: status 500") == true)
      await eventually("the log names the server as everything else does") {
        log.lines.contains {
          $0.message == "a report to the upstream bouncer failed; it is retried"
            && $0.metadata["server"] == "chat.example.org"
        }
      }
      place.upstream.fault("server/analytics", nil)
      #expect(
        try await place.bouncer.post("server/analytics", report(place, 701...702), as: place.server).isSuccess
      )
      await eventually("all is there") {
        place.bouncer.clock.advance(1)
        return place.upstream.counts == Array(1...702)
      }
      // A page follows the one before, and none is sent twice.
      #expect(place.upstream.repetitions == 0)
      try await eventually("it shows that all is well") {
        let link = try await place.links.all().first
        return link?.failure == nil && link?.reportedAt != nil
      }
      try await eventually("so does the operator's report") {
        let host = place.bouncer.test.configuration.upstream.authority
        let report = try await UpstreamReport(of: server.id, place.links, at: host)
        return report?.fact(at: place.bouncer.clock.now).sentences.allSatisfy { !$0.isBad } == true
      }
    }
  }
}
