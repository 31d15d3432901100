import Foundation
import HTTP
import TestSupport
import Testing

/// Tests idle clients during a graceful shutdown.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ShutdownTests {
  private var place: Workplace { Fixture.current }

  @Test(.place()) func `A client that never ends does not hold it`() async throws {
    try await place.serve("--delivery.deadline", "500ms") { running in
      let stalled = try await RawConnection(port: try #require(running.port(of: "public")))
      try await stalled.send(
        "POST /api/v1/remotes/server/register HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
      // Another connection's answer: the first has been taken by then, for they are taken in turn.
      _ = try await running.call(path: "/")
      let start = ContinuousClock.now
      await running.end()
      // Less than a client has for its request.
      #expect(ContinuousClock.now - start < .seconds(20))
      #expect(!running.logged.contains(#""level":"error""#))
      await stalled.close()
    }
  }

  @Test(.place(begun: true)) func `Who waits for events does not hold up the shutdown`() async throws {
    let account = try await place.run("account", "add", "--email", "iago@example.org", "--json").json
    let user = ("iago@example.org", try #require(account["api_key"]?.string))
    try await place.serve("--log.level", "notice") { running in
      let queue = try await running.call(path: "/api/v1/register", method: "POST", user: user).json
      let id = try #require(queue["queue_id"]?.string)
      async let waiting = running.call(path: "/api/v1/events?queue_id=\(id)&last_event_id=0", user: user)
      try await eventually("a waiting client") {
        try await running.metric("push_bouncer_event_waiters") == 1
      }
      let began = ContinuousClock.now
      await running.end()
      #expect(try await waiting.json["events"] == [["type": "heartbeat", "id": 0]])
      #expect(.now - began < .seconds(20))
    }
  }
}
