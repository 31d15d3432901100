import Foundation
import HTTPTypes
import Registrations
import Testing
import Wire

@Suite("Notifications") struct NotificationTests {
  @Test("go to the user's devices as they are, and what became of them comes back")
  func send() async throws {
    try await Host.test { host in
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
  }

  @Test(
    "that cannot be sent whole are not sent at all",
    arguments: [
      ([:], "zulip"), (["zulip": nil], "zulip"), (["zulip": []], "zulip"), (["zulip": "a"], "zulip"),
      (["zulip": [:], "legacy": [:]], "legacy"), (["legacy": [:]], "legacy"),
      (["zulip": [:], "nextcloud": [:]], "nextcloud"), (["nextcloud": [:]], "nextcloud"),
      (["zulip": [:], "Zulip": [:]], "Zulip"), (["apns": [:]], "apns"),
    ] as [(JSON, String)])
  func wrong(_ body: JSON, _ field: String) async throws {
    try await Host.test { host in
      let user = try await host.user()
      let answer = try await host.call(.post, "\(user)/notifications", body)
      #expect(answer.status == 400)
      #expect(answer.message.contains(field))
      #expect(host.asked.notifications.isEmpty)
    }
  }

  @Test("by a way that is not served yet are told so", arguments: ["legacy", "nextcloud"])
  func notYet(_ part: String) async throws {
    try await Host.test { host in
      let body = JSON.object(JSON.Object([.init(part, [:])]))
      let user = try await host.user()
      let answer = try await host.call(.post, "\(user)/notifications", body)
      #expect(answer.message.contains("\(part) is not served yet"))
      // A part that is null is none.
      let without = JSON.object(JSON.Object([.init("zulip", [:]), .init(part, nil)]))
      #expect(try await host.status(.post, "\(user)/notifications", without) == 200)
    }
  }

  @Test("that are refused further on come back with that refusal")
  func refused() async throws {
    try await Host.test { host in
      host.asked.refuse(with: APIError(.badGateway, code: "BOUNCER_GONE", "The bouncer is not there"))
      let user = try await host.user()
      let answer = try await host.call(.post, "\(user)/notifications", ["zulip": [:]])
      #expect(answer.status == 502)
      #expect(answer.json["code"] == "BOUNCER_GONE")
      #expect(answer.message == "The bouncer is not there")
    }
  }
}
