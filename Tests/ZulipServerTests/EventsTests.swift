import Foundation
import HTTP
import HTTPTypes
import Registrations
import Sealing
import TestSupport
import Testing

@testable import ZulipServer

/// `POST register`, `GET events`, `DELETE events` (`Documentation/Protocols/Zulip.md` 10.3).
@Suite struct EventsTests {
  private func open(_ client: Client, _ form: (String, String)...) async throws -> (
    queue: String, last: String, JSON
  ) {
    let answer = try await client.call(.post, "register", form)
    #expect(answer.status == 200)
    return (
      try #require(answer.json["queue_id"]?.string), "\(try #require(answer.json["last_event_id"]?.integer))",
      answer.json
    )
  }

  private func events(_ answer: Chat.Answer) throws -> [JSON] {
    guard case .array(let events)? = answer.json["events"] else {
      throw try #require(nil as (any Error)?, "\(answer.json.text)")
    }
    return events
  }

  @Test func `A snapshot has every field of every device, null where there is nothing`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      let (empty, full) = (try await client.addDevice(), try await client.addDevice())
      try await client.register(full, keyID: 4_294_967_295, token: "android-token")
      try await client.waitUntil(full, "active") { $0.tokenID != nil }
      let (_, last, answer) = try await open(client, ("event_types", #"["device"]"#))
      let nothing: JSON = [
        "push_key_id": nil, "push_token_id": nil, "pending_push_token_id": nil,
        "push_token_last_updated_timestamp": nil, "push_registration_error_code": nil,
      ]
      let something: JSON = [
        "push_key_id": 4_294_967_295, "push_token_id": "RjY0jpbVz/o=", "pending_push_token_id": nil,
        "push_token_last_updated_timestamp": 1_790_000_000, "push_registration_error_code": nil,
      ]
      #expect(
        answer["devices"] == .object(JSON.Object([.init(empty, nothing), .init(full, something)])))
      #expect(last == "4")
      #expect(answer["zulip_feature_level"] == 500)
      #expect(answer["ignored_parameters_unsupported"] == nil)
    }
  }

  @Test func `Events tell what changed and nothing else`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      let (queue, last, _) = try await open(client)
      let device = try await client.addDevice()
      let id = JSON.integer(try #require(Int64(device)))
      try await client.register(device, keyID: 10, token: "a")
      try await client.waitUntil(device, "active") { $0.tokenID != nil }
      try await client.call(
        .post, "mobile_push/register", ("device_id", device), ("push_key", PushKey.generate().base64),
        ("push_key_id", "11"))
      try await client.call(.post, "remove_client_device", ("device_id", device))
      let answer = try await client.call(.get, "events", ("queue_id", queue), ("last_event_id", last))
      let token = JSON.string(TokenID(token: "a").base64)
      #expect(
        try events(answer) == [
          ["type": "device", "op": "add", "device_id": id, "id": 1],
          [
            "type": "device", "op": "update", "device_id": id, "id": 2, "push_key_id": 10,
            "pending_push_token_id": token, "push_token_last_updated_timestamp": 1_790_000_000,
            "push_registration_error_code": nil,
          ],
          [
            "type": "device", "op": "update", "device_id": id, "id": 3, "push_token_id": token,
            "pending_push_token_id": nil,
          ],
          ["type": "device", "op": "update", "device_id": id, "id": 4, "push_key_id": 11],
          ["type": "device", "op": "remove", "device_id": id, "id": 5],
        ])
      let later = try await client.call(.get, "events", ("queue_id", queue), ("last_event_id", "4"))
      #expect(try events(later).count == 1)
    }
  }

  @Test func `Who waits hears of what happens, and of nobody else's`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      let other = try await chat.user("desdemona", id: 11)
      let (queue, last, _) = try await open(client)
      let began = ContinuousClock.now
      async let waiting = client.call(.get, "events", ("queue_id", queue), ("last_event_id", last))
      // The test's client has one connection, and that is waiting.
      _ = try await chat.devices.add(user: other.user.id)
      let device = try await chat.devices.add(user: client.user.id)
      let found = try events(try await waiting)
      #expect(found.map { $0["device_id"]?.integer } == [device])
      #expect(.now - began < .seconds(10))
    }
  }

  @Test func `What another process does is heard of too`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      let (queue, last, _) = try await open(client)
      async let waiting = client.call(.get, "events", ("queue_id", queue), ("last_event_id", last))
      let device = try await chat.elsewhere.add(user: client.user.id)
      let found = try events(try await waiting)
      #expect(found.map { $0["device_id"]?.integer } == [device])
    }
  }

  @Test func `Who does not want to wait is answered at once`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      let (queue, last, _) = try await open(client)
      let answer = try await client.call(
        .get, "events", ("queue_id", queue), ("last_event_id", last), ("dont_block", "true"))
      #expect(try events(answer) == [])
    }
  }

  @Test func `A service that ends lets nobody wait`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      let (queue, last, _) = try await open(client)
      async let waiting = client.call(.get, "events", ("queue_id", queue), ("last_event_id", last))
      // Whichever of the two comes first.
      chat.eventNotifier.close()
      let answer = try await waiting
      #expect(try events(answer) == [["type": "heartbeat", "id": .integer(try #require(Int64(last)))]])
    }
  }

  @Test func `A queue is its user's, and only as long as it is open`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      let other = try await chat.user("desdemona", id: 11)
      let (queue, last, _) = try await open(client)
      let expected = "Bad event queue ID: \(queue)"
      for answer in [
        try await other.call(.get, "events", ("queue_id", queue), ("last_event_id", last)),
        try await other.call(.delete, "events", ("queue_id", queue)),
      ] {
        #expect(answer.status == 400)
        #expect(answer.code == "BAD_EVENT_QUEUE_ID")
        #expect(answer.message == expected)
        #expect(answer.json["queue_id"]?.string == queue)
      }
      async let waiting = client.call(.get, "events", ("queue_id", queue), ("last_event_id", last))
      #expect(try await chat.devices.closeQueue(queue, user: client.user.id))
      #expect(try await waiting.code == "BAD_EVENT_QUEUE_ID")
      let (second, _, _) = try await open(client)
      #expect(try await client.call(.delete, "events", ("queue_id", second)).status == 200)
      #expect(try await client.call(.delete, "events", ("queue_id", queue)).code == "BAD_EVENT_QUEUE_ID")
    }
  }

  @Test func `What a client asks for otherwise is not there, and no fault`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      _ = try await client.addDevice()
      let (queue, _, answer) = try await open(
        client, ("event_types", #"["message"]"#), ("apply_markdown", "true"), ("unheard_of", "1"))
      #expect(answer["devices"] == nil)
      #expect(answer["ignored_parameters_unsupported"] == ["unheard_of"])
      _ = try await client.addDevice()
      let found = try await client.call(
        .get, "events", ("queue_id", queue), ("last_event_id", "0"), ("dont_block", "true"))
      #expect(try events(found) == [])
      let cases: [(HTTPRequest.Method, String, [(String, String)], String)] = [
        (.post, "register", [("event_types", "device")], "event_types is not valid JSON"),
        (.post, "register", [("event_types", "[1]")], "event_types[0] is not a string"),
        (.get, "events", [("last_event_id", "0")], "Missing 'queue_id' argument"),
        (.get, "events", [("queue_id", queue)], "Missing 'last_event_id' argument"),
        (.delete, "events", [], "Missing 'queue_id' argument"),
      ]
      for (method, endpoint, form, message) in cases {
        #expect(try await client.call(method, endpoint, form).message == message)
      }
    }
  }
}
