import Foundation
import HTTP
import NIOCore
import ProviderSimulator
import TestSupport
import Testing

@testable import Demo

/// Tests what does not hold up a shutdown: idle clients, and a second signal.
@Suite(.serialized) struct ShutdownTests {
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
      #expect(ContinuousClock.now - start < .seconds(30))
      #expect(!running.logged.contains(#""level":"error""#))
      await stalled.close()
    }
  }

  @Test(.stage) func `The second signal ends it at once`() async throws {
    let stage = Fixture<Stage>.current
    var promised: Set<String> = []
    try await stage.serve("--delivery.deadline", "20s") { running, server in
      let phones = try await stage.phones(4, at: server)
      await stage.faults { $0.status = 503 }
      promised.formUnion(try await server.mark(phones).marks)
      await stage.faults()
      for phone in phones {
        stage.simulator.setToken(phone.token, TokenRule(status: 200, delayMilliseconds: 60_000))
      }
      let unanswered = Task { try await server.mark(phones) }
      try await stage.simulator.waitForDeliveries(count: 1)
      running.send(SIGTERM)
      await eventually("the drain") { !running.accepts }
      #expect(running.process.isRunning)
      // One that waits for what is under way ends with 0.
      running.send(SIGTERM)
      #expect(await running.status() == 1)
      await #expect(throws: (any Error).self) { try await unanswered.value }
    }
    stage.simulator.reset()
    // What was under way is taken over when nobody can answer it any more: a minute and a quarter later.
    try await stage.serve("--clock-offset", "80s") { _, _ in await stage.expectArrival(of: promised) }
  }

  @Test(.place(begun: true)) func `Who waits for events does not hold up the shutdown`() async throws {
    let account = try await place.run("account", "add", "--email", "iago@example.org", "--json").json
    let user = ("iago@example.org", try #require(account["api_key"]?.string))
    try await place.serve("--log.level", "notice") { running in
      let queue = try await running.call(path: "/api/v1/register", method: "POST", user: user).json
      let id = try #require(queue["queue_id"]?.string)
      async let waiting = running.call(path: "/api/v1/events?queue_id=\(id)&last_event_id=0", user: user)
      try await eventually("a waiting client") {
        try await running.metric("push_bouncer_server_event_waiters") == 1
      }
      let start = ContinuousClock.now
      await running.end()
      #expect(try await waiting.json["events"] == [["type": "heartbeat", "id": 0]])
      // Before one without a shutdown.
      #expect(ContinuousClock.now - start < .seconds(50))
    }
  }
}
