import Foundation
import HTTP
import HTTPTypes
import Registrations
import Sealing
import TestSupport
import Testing

@testable import ZulipServer

/// `POST register`, `GET events`, `DELETE events` (`Documentation/Protocols/Zulip.md` 10.3).
@Suite(.chat) struct EventsTests {
  private let chat = Fixture<Chat>.current

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

  @Test func `What another process does is heard of too`() async throws {
    let client = try await chat.user()
    let (queue, last, _) = try await open(client)
    async let waiting = client.call(.get, "events", ("queue_id", queue), ("last_event_id", last))
    let device = try await chat.elsewhere.add(user: client.user.id)
    let found = try events(try await waiting)
    #expect(found.map { $0["device_id"]?.integer } == [device])
  }

  @Test func `Who asks for other events hears of no devices`() async throws {
    let client = try await chat.user()
    let (queue, last, _) = try await open(client, ("event_types", #"["message"]"#))
    _ = try await chat.elsewhere.add(user: client.user.id)
    let answer = try await client.call(
      .get, "events", ("queue_id", queue), ("last_event_id", last), ("dont_block", "true"))
    #expect(try events(answer).allSatisfy { $0["type"] == "heartbeat" })
  }

  @Test func `A service that ends lets nobody wait`() async throws {
    let client = try await chat.user()
    let (queue, last, _) = try await open(client)
    async let waiting = client.call(.get, "events", ("queue_id", queue), ("last_event_id", last))
    // Whichever of the two comes first.
    chat.eventNotifier.close()
    let answer = try await waiting
    #expect(try events(answer) == [["type": "heartbeat", "id": .integer(try #require(Int64(last)))]])
  }

  @Test func `Who waits is told when the queue is closed`() async throws {
    let client = try await chat.user()
    let (queue, last, _) = try await open(client)
    async let waiting = client.call(.get, "events", ("queue_id", queue), ("last_event_id", last))
    // Nobody closes another's.
    #expect(try await !chat.devices.closeQueue(queue, user: client.user.id + 1))
    #expect(try await chat.devices.closeQueue(queue, user: client.user.id))
    #expect(try await waiting.code == "BAD_EVENT_QUEUE_ID")
  }
}
