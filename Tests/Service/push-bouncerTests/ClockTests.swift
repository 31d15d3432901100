import Foundation
import HTTP
import NIOHTTP1
import ProviderSimulator
import Providers
import Sealing
import TestSupport
import Testing

@testable import Demo

/// Tests the real program with a clock that is wrong for a while.
@Suite(.serialized, .stage) struct ClockTests {
  private let stage = Fixture<Stage>.current

  /// Promises a notification to each of four phones while no provider takes any, and ends the service.
  private func promise(_ stage: Stage, _ arguments: String...) async throws -> Set<String> {
    // So that it shows who was refused.
    await stage.faults { $0.status = 503 }
    var marks: Set<String> = []
    try await stage.serve(["--delivery.deadline", "1s"] + arguments) { running, server in
      let phones = try await stage.phones(4, at: server)
      let promise = try await server.mark(phones)
      #expect(promise.sent == 0 && promise.deleted.isEmpty)
      marks = Set(promise.marks)
      await running.end()
    }
    return marks
  }

  @Test func `A day ahead for a moment loses nothing`() async throws {
    let promised = try await promise(stage)
    let before = stage.simulator.deliveries(includingRefused: true).count
    try await stage.serve("--clock-offset", "25h", "--delivery.deadline", "1s") { running, server in
      // By this clock all of them are over, and due.
      await eventually("tries") {
        stage.simulator.deliveries(includingRefused: true).count >= before + promised.count
      }
      do {
        try await stage.register(Stage.phone(.fcm), at: server)
        Issue.record("a registration that is a day old by a wrong clock was taken")
      } catch let refusal as JSONService.Refusal {
        #expect(refusal.status.code == 429 && refusal.code == "RATE_LIMIT_HIT")
      }
      let ready = try await running.call("admin", path: "/readyz")
      #expect(ready.status == 200 && ready.json["status"]?.string == "degraded")
      #expect(ready.json["checks"]?["clock"]?["meaning"]?.string?.contains("25 h ahead of") == true)
      #expect(
        try await running.call("admin", path: "/metrics").text.contains("push_bouncer_clock_trusted 0"))
      await eventually("a warning") { running.logged.contains("push-bouncer clock trust") }
      await running.end()
    }
    await stage.faults()
    try await stage.serve { running, _ in
      await stage.expectArrival(of: promised)
      let ready = try await running.call("admin", path: "/readyz")
      #expect(ready.json["checks"]?["clock"]?["status"]?.string == "ok")
    }
  }

  @Test func `What was promised before it was put back is sent`() async throws {
    let promised = try await promise(stage, "--clock-offset", "6h")
    await stage.faults()
    try await stage.serve { running, server in
      await stage.expectArrival(of: promised)
      let clock = try await running.call("admin", path: "/readyz").json["checks"]?["clock"]
      #expect(clock?["meaning"]?.string?.contains("6 h behind") == true)
      // What is new goes out, too.
      let phone = Stage.phone(.fcm)
      try await stage.register(phone, at: server)
      #expect(try await server.mark([phone]).sent == 1)
      // The operator knows that the clock is right now.
      #expect(try await stage.place.run("clock", "trust").status == 0)
      await eventually("trust") {
        (try? await running.call("admin", path: "/readyz").json["checks"]?["clock"]?["status"]?.string)
          == "ok"
      }
      #expect(
        try await running.call("admin", path: "/metrics").text.contains("push_bouncer_clock_trusted 1"))
    }
  }
}
