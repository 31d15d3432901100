import Foundation
import ProviderSimulator
import Providers
import Sealing
import TestSupport
import Testing

@testable import Delivery

/// Tests that a fault of one route does not affect others.
@Suite struct BulkheadTests {
  @Test(arguments: ["slow", "down", "refusing"])
  func `A provider in trouble does not slow the other`(trouble: String) async throws {
    try await DeliveryBench.test(deadline: .seconds(25)) { bench in
      let apns = try await bench.devices(.apns, 10)
      let fcm = try await bench.devices(.fcm, 10)
      // The connections and tokens are there.
      for device in [apns[0], fcm[0]] { #expect(try await bench.deliver("first", to: device) == .delivered) }
      await bench.faults {
        switch trouble {
        case "slow": $0.fcm.latencyMilliseconds = 30_000
        case "down": $0.fcm.outage = true
        default: $0.fcm.status = 503
        }
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for index in 0..<300 {
          group.addTask { _ = try await bench.deliver("fcm \(index)", to: fcm[index % 10]) }
        }
        if trouble == "slow" {
          // All of them are at the provider or on their way, none has been answered.
          await eventually { bench.simulator.deliveries().count { $0.token != apns[0].token } >= 200 }
        }
        var results: [DeliveryResult] = []
        for index in 0..<100 {
          results.append(try await bench.deliver("apns \(index)", to: apns[index % 10]))
        }
        // One that waits for those for FCM meets its deadline. A busy machine may hold up one as long.
        #expect(results.count { $0 == .delivered } >= 98, "\(Set(results))")
        // Whatever became of those for FCM, they are within their deadline.
        try await group.waitForAll()
      }
      #expect(bench.state(bench.apnsRoute) == .ok)
      await bench.faults { _ in }
      try await bench.drained()
      let accepted = bench.accepted()
      #expect((0..<300).allSatisfy { accepted["fcm \($0)"] != nil })
      #expect((0..<100).allSatisfy { accepted["apns \($0)"] != nil })
    }
  }
}
