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
          var faults = Faults()
          (faults.apns.outage, faults.fcm.outage) = (true, true)
          await stage.simulator.setFaults(faults)
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
            memory.append(try residentMemory(of: running))
          }
          print(
            "resident memory with \(warm * 100) entries: \(memory[0]) kB, with \(Self.entries): \(memory[1]) kB"
          )
          // What arrives while they are counted counts twice until the next time.
          #expect(try await depth(of: running) >= Self.entries)
          // Caches may fill; so many sealed pushes in memory would be hundreds of megabytes.
          #expect(memory[1] - memory[0] < 8 << 10)

          let began = ContinuousClock.now
          faults = Faults()
          faults.record = false
          await stage.simulator.setFaults(faults)
          await eventually("an empty outbox", within: .seconds(60 + Self.entries / 500)) {
            try? await Task.sleep(for: .seconds(1))
            return (try? await depth(of: running)) == 0
          }
          let counts = stage.simulator.counts
          print(
            "sent in \((.now - began).components.seconds) s: \(counts.apns) by APNs, \(counts.fcm) by FCM; "
              + "resident memory then: \(try residentMemory(of: running)) kB")
          #expect(counts.apns + counts.fcm >= Self.entries)
        }
      }
    }

    private func depth(of running: Running) async throws -> Int {
      let metrics = try await running.call("admin", path: "/metrics").text
      let line = metrics.split(separator: "\n").first { $0.hasPrefix("push_bouncer_outbox_entries ") }
      return try #require(line?.split(separator: " ").last.flatMap { Int($0) })
    }

    /// In kB.
    private func residentMemory(of running: Running) throws -> Int {
      let status = try String(
        contentsOfFile: "/proc/\(running.process.processIdentifier)/status", encoding: .utf8)
      let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") })
      return try #require(Int(line.filter(\.isNumber)))
    }
  }
}
