import Foundation
import ProviderSimulator
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// Providers that take their time, and a process that does not live to hear them.
  @Suite struct SlowProviderKillTests {
    @Test func `What is under way at a kill goes once more at most`() async throws {
      try await Stage.test { stage in
        var promised: Set<String> = []
        try await stage.serve { running, server in
          let phones = try await stage.phones(6, at: server)
          await stage.faults { $0.latencyMilliseconds = 20_000 }
          let start = ContinuousClock.now
          let promise = try await server.mark(phones)
          // The deadline and a little, not the twenty seconds that the providers take.
          #expect(.now - start < .seconds(15))
          #expect(promise.sent == 0 && promise.deleted.isEmpty)
          promised = Set(promise.marks)
          #expect(promised.count == 6)
          await stage.expectArrival(of: promised)
          await running.end(SIGKILL, status: SIGKILL)
        }
        #expect(stage.arrived().values.allSatisfy { $0 == 1 })
        await stage.faults()
        // Nobody can answer any more what the process that is gone had sent.
        try await stage.serve("--clock-offset", "80s") { running, _ in
          await eventually("everything once more") { stage.arrived().values.allSatisfy { $0 == 2 } }
          await eventually("nothing in the outbox") {
            (try? await running.metric("push_bouncer_outbox_entries")) == 0
          }
        }
        #expect(Set(stage.arrived().keys) == promised)
        #expect(stage.arrived().values.allSatisfy { $0 == 2 })
        let apns = stage.simulator.deliveries().filter { $0.provider == .apns }
        #expect(apns.count == 6)
        #expect(Set(apns.map(\.id)).count == 3)
      }
    }
  }
}
