import Foundation
import HTTP
import HTTPTypes
import Registrations
import TestSupport
import Testing

@Suite("Notifications", .host) struct BackendNotificationTests {
  private let host = Fixture<Host>.current

  @Test
  func `go to the user's devices as they are, and what became of them comes back`() async throws {
    let user = try await host.user()
    let payload: JSON = [
      "event": "message", "content": "Grüße\u{0}", "nested": ["a": [1, .number("1.0"), nil]],
    ]
    let answer = try await host.call(.post, "\(user)/notifications", ["zulip": payload])
    #expect(answer.status == 200)
    #expect(answer.text == #"{"zulip":{"devices":2,"apple_successfully_sent_count":1}}"# + "\n")
    #expect(answer.headers[.contentType] == "application/json")
    let sent = host.asked.notifications
    #expect(sent.count == 1)
    #expect(sent.first.map { JSON.object($0.payload) } == payload)
    #expect(sent.first?.user.email == "iago@example.org")
  }

  @Test(
    arguments: [
      ([:], "zulip"), (["zulip": nil], "zulip"), (["zulip": []], "zulip"), (["zulip": "a"], "zulip"),
      (["legacy": 1], "legacy"), (["zulip": [:], "nextcloud": "a"], "nextcloud"),
      (["zulip": [:], "Zulip": [:]], "Zulip"), (["apns": [:]], "apns"),
    ] as [(JSON, String)])
  func `that cannot be sent whole are not sent at all`(_ body: JSON, _ field: String) async throws {
    let user = try await host.user()
    let answer = try await host.call(.post, "\(user)/notifications", body)
    #expect(answer.status == 400)
    #expect(answer.message.contains(field))
    #expect(host.asked.notifications.isEmpty)
  }

  @Test
  func `of which a part cannot be sent tell so, and are not refused for it`() async throws {
    host.asked.refuse("no", with: APIError(.badGateway, code: "BOUNCER_GONE", "The bouncer is not there"))
    let path = "\(try await host.user())/notifications"
    let failure: JSON = [
      "result": "error", "status": 502, "msg": "The bouncer is not there", "code": "BOUNCER_GONE",
    ]
    let answer = try await host.call(
      .post, path, ["zulip": ["content": "no"], "legacy": ["content": "yes"], "nextcloud": nil])
    #expect(answer.status == 200)
    #expect(answer.json == ["zulip": failure, "legacy": Host.sent])
    // Where no part was sent the whole may be sent again.
    let none = try await host.call(.post, path, ["zulip": ["content": "no"], "legacy": ["content": "no"]])
    #expect(none.status == 502)
    #expect(none.json["code"] == "BOUNCER_GONE")
    #expect(none.message == "The bouncer is not there")
  }
}
