import Foundation
import ProviderSimulator
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// A long outage gathers on the disk, not in memory. `CHAOS_ENTRIES` says how many notifications;
  /// it takes minutes, so it runs only where that is set.
  @Suite struct LongOutageTests {
    private static let entries = Int(ProcessInfo.processInfo.environment["CHAOS_ENTRIES"] ?? "") ?? 0

    @Test(.enabled(if: entries > 0)) func `Memory stays flat while the outbox grows and empties`()
      async throws
    {
      try await Stage.test { stage in
        try await stage.serve("--delivery.deadline", "1s", "--log.level", "notice") { running, server in
          // Half as many for each as a device may have.
          let phones = try await stage.phones(max(100, Self.entries / 50), at: server)
          await stage.faults { $0.outage = true }
          let batches = Self.entries / 100
          let warm = max(1, batches / 10)
          var memory: [Int] = []
          for (first, last) in [(0, warm), (warm, batches)] {
            try await withThrowingTaskGroup(of: Void.self) { group in
              for sender in 0..<4 {
                group.addTask {
                  for batch in stride(from: first + sender, to: last, by: 4) {
                    let start = batch * 100 % (phones.count - 99)
                    _ = try await server.mark(Array(phones[start..<start + 100]))
                  }
                }
              }
              try await group.waitForAll()
            }
            memory.append(try running.memory("VmRSS"))
          }
          print("resident memory with \(warm * 100) entries and with \(Self.entries): \(memory) kB")
          // What arrives while they are counted counts twice until the next time.
          let depth = try await running.metric("push_bouncer_outbox_entries")
          #expect(depth ?? 0 >= Double(Self.entries))
          // Caches may fill; so many sealed pushes in memory would be hundreds of megabytes.
          #expect(memory[1] - memory[0] < 8 << 10)

          let began = ContinuousClock.now
          var faults = Faults()
          faults.record = false
          await stage.simulator.setFaults(faults)
          await eventually("an empty outbox") {
            try? await Task.sleep(for: .seconds(1))
            return (try? await running.metric("push_bouncer_outbox_entries")) == 0
          }
          let counts = stage.simulator.counts
          print(
            "sent in \((.now - began).components.seconds) s: \(counts.apns) by APNs, \(counts.fcm) by FCM; "
              + "resident memory then: \(try running.memory("VmRSS")) kB")
          #expect(counts.apns + counts.fcm >= Self.entries)
        }
      }
    }
  }
}
