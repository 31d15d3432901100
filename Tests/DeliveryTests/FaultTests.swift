import Foundation
import ProviderSimulator
import Providers
import Sealing
import TestSupport
import Testing

@testable import Delivery

/// Nothing is lost whatever the providers do, and nothing comes twice without a reason.
@Suite(.serialized) struct FaultTests {
  @Test func `Providers that are down for a while get everything afterwards, each once`() async throws {
    try await DeliveryBench.test(deadline: .seconds(20)) { bench in
      let account = try await FaultRun.run("down for \(Int(FaultRun.outageSeconds)) s", bench) {
        await bench.faults {
          $0.apns.outage = true
          $0.fcm.outage = true
        }
        try await Task.sleep(for: .seconds(FaultRun.outageSeconds))
        await bench.faults { _ in }
      }
      #expect(account.queued > 0)
      // A connection that is cut takes answers with it that were on their way.
      #expect(account.duplicates.values.reduce(0, +) <= FaultRun.mostUnderWay)
    }
  }

  @Test func `Connections that are taken and cut fail their route within seconds`() async throws {
    try await DeliveryBench.test(isSending: false) { bench in
      let devices = try await [bench.devices(.apns)[0], bench.devices(.fcm)[0]]
      await bench.faults { ($0.apns.outage, $0.fcm.outage) = (true, true) }
      func deliver(at seconds: TimeInterval) async throws {
        bench.advance(seconds)
        for device in devices {
          let result = try await bench.deliver("\(seconds)", to: device)
          #expect(result == .queued)
        }
      }
      let routes = [bench.apnsRoute, bench.fcmRoute]
      try await deliver(at: 0)
      #expect(routes.allSatisfy { bench.state($0) == .unknown })
      try await deliver(at: 3)
      for route in routes {
        guard case .failing(let reason, let since) = bench.state(route) else {
          Issue.record("\(route) is \(String(describing: bench.state(route)))")
          continue
        }
        // Google's token comes from the same host; refused is what a connection ended before it was asked anything.
        #expect(
          [.connectionLost, .connectFailed, .tlsFailed, .tokenUnavailable, .refused].contains(reason),
          "\(route) \(reason)")
        #expect(bench.clock.now.timeIntervalSince(since) >= 3)
      }
      await bench.faults { _ in }
      bench.advance(120)
      for device in devices {
        let result = try await bench.deliver("afterwards", to: device)
        #expect(result == .delivered)
      }
      #expect(routes.allSatisfy { bench.state($0) == .ok })
    }
  }

  @Test func `Connections that say goodbye lose nothing and repeat nothing`() async throws {
    try await DeliveryBench.test(deadline: .seconds(20)) { bench in
      await bench.faults {
        $0.apns.goAwayEvery = 200
        $0.fcm.goAwayEvery = 200
      }
      let account = try await FaultRun.run("GOAWAY every 200", bench)
      #expect(account.duplicates == [.apns: 0, .fcm: 0])
      #expect(bench.simulator.counts.connections > 4)
      #expect(bench.state(bench.apnsRoute) == .ok && bench.state(bench.fcmRoute) == .ok)
    }
  }

  @Test func `Connections that are cut lose nothing`() async throws {
    try await DeliveryBench.test(deadline: .seconds(20)) { bench in
      await bench.faults {
        $0.apns.dropEvery = 10
        $0.fcm.dropEvery = 10
      }
      try await FaultRun.run("every 10th connection cut", bench) {
      } afterwards: {
        await bench.faults { _ in }
      }
    }
  }

  @Test func `Answers that are lost lose nothing`() async throws {
    try await DeliveryBench.test(deadline: .seconds(20)) { bench in
      await bench.faults {
        $0.apns.loseAnswerEvery = 10
        $0.fcm.loseAnswerEvery = 10
      }
      let account = try await FaultRun.run("every 10th answer lost", bench) {
      } afterwards: {
        await bench.faults { _ in }
      }
      #expect(account.duplicates.values.reduce(0, +) > 0)
    }
  }

  @Test func `Streams that are reset before they are looked at repeat nothing`() async throws {
    try await DeliveryBench.test(deadline: .seconds(20)) { bench in
      await bench.faults {
        $0.apns.resetEvery = 10
        $0.fcm.resetEvery = 10
      }
      let account = try await FaultRun.run("REFUSED_STREAM every 10", bench)
      #expect(account.duplicates == [.apns: 0, .fcm: 0])
    }
  }

  @Test func `Streams that are reset for an error lose nothing`() async throws {
    try await DeliveryBench.test(deadline: .seconds(20)) { bench in
      await bench.faults {
        $0.apns.resetEvery = 10
        $0.apns.resetCode = .internalError
        $0.fcm = $0.apns
      }
      let account = try await FaultRun.run("RST_STREAM INTERNAL_ERROR every 10", bench)
      // The simulator takes none that it resets.
      #expect(account.duplicates == [.apns: 0, .fcm: 0])
    }
  }

  @Test func `A storm of refusals for going too fast passes, and each arrives once`() async throws {
    try await DeliveryBench.test(deadline: .seconds(20)) { bench in
      await bench.faults {
        $0.apns.status = 429
        $0.apns.every = 3
        $0.apns.retryAfter = "1"
        $0.fcm = $0.apns
      }
      let account = try await FaultRun.run("429 every 3rd", bench) {
      } afterwards: {
        await bench.faults { _ in }
      }
      #expect(account.queued >= FaultRun.notifications / 4)
      #expect(account.duplicates == [.apns: 0, .fcm: 0])
    }
  }

  @Test func `Requests that are never answered hold up nobody for longer than the deadline`() async throws {
    try await DeliveryBench.test(deadline: .seconds(3)) { bench in
      await bench.faults {
        $0.apns.neverAnswerEvery = 500
        $0.fcm.neverAnswerEvery = 500
      }
      let account = try await FaultRun.run("never answering every 500th", bench) {
      } afterwards: {
        await bench.faults { _ in }
      }
      // The simulator takes none that it does not answer: what came twice was slower than the deadline.
      #expect(account.duplicates.values.reduce(0, +) <= account.queued)
    }
  }

  @Test func `An OAuth that fails, and then is slow, loses nothing`() async throws {
    try await DeliveryBench.test(deadline: .seconds(20)) { bench in
      await bench.faults { $0.oauthStatus = 500 }
      let account = try await FaultRun.run("OAuth failing, then slow", bench) {
        await eventually { bench.outbox.count > 50 }
        await bench.faults { $0.oauthLatencyMilliseconds = 1000 }
      }
      #expect(account.queued > 0)
      #expect(account.duplicates == [.apns: 0, .fcm: 0])
    }
  }
}
