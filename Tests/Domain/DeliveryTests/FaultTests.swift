import Foundation
import ProviderSimulator
import Providers
import Sealing
import TestSupport
import Testing

@testable import Delivery

/// Tests that provider faults lose no notification, and duplicate none without a reason.
@Suite(.serialized) struct FaultTests {
  private var bench: DeliveryBench { Fixture.current }

  /// A fault of the providers during many notifications.
  struct Fault: CustomTestStringConvertible, Sendable {
    var testDescription: String
    /// The faults of both providers until all notifications have been handed over.
    let faults: @Sendable (inout ProviderFaults) -> Void
    /// How many notifications may arrive twice.
    let mayRepeat: ClosedRange<Int>

    init(
      _ name: String, mayRepeat: ClosedRange<Int> = 0...0,
      _ faults: @escaping @Sendable (inout ProviderFaults) -> Void
    ) {
      (testDescription, self.mayRepeat, self.faults) = (name, mayRepeat, faults)
    }
  }

  @Test(
    .bench(deadline: .seconds(20)),
    arguments: [
      Fault("GOAWAY every 200") { $0.goAwayEvery = 200 },
      Fault("every 10th connection cut", mayRepeat: 0...Int.max) { $0.dropEvery = 10 },
      Fault("every 10th answer lost", mayRepeat: 1...Int.max) { $0.loseAnswerEvery = 10 },
      Fault("REFUSED_STREAM every 10") { $0.resetEvery = 10 },
      // The simulator takes none that it resets.
      Fault("RST_STREAM INTERNAL_ERROR every 10") { ($0.resetEvery, $0.resetCode) = (10, .internalError) },
      Fault("429 every 3rd") { ($0.status, $0.every, $0.retryAfter) = (429, 3, "1") },
    ])
  func `Faults lose nothing, and repeat only what may have been taken`(fault: Fault) async throws {
    await bench.faults {
      fault.faults(&$0.apns)
      fault.faults(&$0.fcm)
    }
    let account = try await FaultRun.run(fault.testDescription, bench) {
    } afterwards: {
      await bench.faults { _ in }
    }
    #expect(fault.mayRepeat.contains(account.duplicates.values.reduce(0, +)))
  }

  @Test(.bench(deadline: .seconds(5)))
  func `What Google may have is sent again after 1, 5, 15 and 60 minutes, and what Apple may have at once`()
    async throws
  {
    let devices = try await (apple: bench.devices(.apns)[0], google: bench.devices(.fcm)[0])
    await bench.faults { ($0.apns.loseAnswerEvery, $0.fcm.loseAnswerEvery) = (1, 1) }
    #expect(try await bench.deliver("apple", to: devices.apple) == .queued)
    #expect(try await bench.deliver("google", to: devices.google) == .queued)
    func copies() -> Int { bench.accepted()["google"]?.count ?? 0 }
    #expect(copies() == 1)
    // Apple knows it again by its id.
    await eventually("it is tried again") { bench.accepted()["apple"]?.count ?? 0 > 2 }
    await bench.faults { $0.fcm.loseAnswerEvery = 1 }
    for (tries, minutes) in [1.0, 5, 15, 60, 60].enumerated() {
      let due = try await bench.number("SELECT MAX(due_at) FROM outbox WHERE doubts = \(tries + 1)")
      let pause = Double(due) / 1000 - bench.clock.now.timeIntervalSince1970
      #expect((minutes * 60 - 5...minutes * 66).contains(pause), "\(pause) s after \(tries + 1)")
      #expect(copies() == tries + 1)
      bench.advance(pause + 1)
      await eventually("it is sent again") { copies() == tries + 2 }
      try await eventually("that is noted") {
        try await bench.number("SELECT COUNT(*) FROM outbox WHERE doubts = \(tries + 2)") == 1
      }
    }
    await bench.faults { _ in }
    bench.advance(4000)
    try await bench.drained()
    let message = FCMMessage(token: "a", data: [:], collapseKey: "a")
    #expect(Push.fcm(message).isRecognizedAgain)
    #expect(!Push.upstream(UpstreamPush(.legacy(UUID()), [])).isRecognizedAgain)
  }

  @Test(.bench(deadline: .seconds(20)))
  func `Providers that are down for a while get everything afterwards, each once`() async throws {
    let account = try await FaultRun.run("down for \(Int(FaultRun.outageSeconds)) s", bench) {
      await bench.faults { ($0.apns.outage, $0.fcm.outage) = (true, true) }
      try await Task.sleep(for: .seconds(FaultRun.outageSeconds))
      await bench.faults { _ in }
    }
    #expect(account.queued > 0)
    // A connection that is cut takes answers with it that were on their way.
    #expect(account.duplicates.values.reduce(0, +) <= FaultRun.mostUnderWay)
  }

  @Test(.bench(isSending: false)) func `Connections that are taken and cut fail their route within seconds`()
    async throws
  {
    let devices = try await [bench.devices(.apns)[0], bench.devices(.fcm)[0]]
    await bench.faults { ($0.apns.outage, $0.fcm.outage) = (true, true) }
    func deliver(at seconds: TimeInterval, _ expected: DeliveryResult) async throws {
      bench.advance(seconds)
      for device in devices { #expect(try await bench.deliver("\(seconds)", to: device) == expected) }
    }
    let routes = [bench.apnsRoute, bench.fcmRoute]
    try await deliver(at: 0, .queued)
    #expect(routes.allSatisfy { bench.state($0) == .unknown })
    try await deliver(at: 3, .queued)
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
    try await deliver(at: 120, .delivered)
    #expect(routes.allSatisfy { bench.state($0) == .ok })
  }

  @Test(.bench(deadline: .seconds(3)))
  func `Requests that are never answered hold up nobody for longer than the deadline`() async throws {
    await bench.faults { ($0.apns.neverAnswerEvery, $0.fcm.neverAnswerEvery) = (500, 500) }
    let account = try await FaultRun.run("never answering every 500th", bench) {
    } afterwards: {
      await bench.faults { _ in }
    }
    // The simulator takes none that it does not answer: what came twice was slower than the deadline.
    #expect(account.duplicates.values.reduce(0, +) <= account.queued)
  }

  @Test(.bench(deadline: .seconds(20))) func `An OAuth that fails, and then is slow, loses nothing`()
    async throws
  {
    await bench.faults { $0.oauthStatus = 500 }
    let account = try await FaultRun.run("OAuth failing, then slow", bench) {
      await eventually { bench.outbox.count > 50 }
      await bench.faults { $0.oauthLatencyMilliseconds = 1000 }
    }
    #expect(account.queued > 0)
    #expect(account.duplicates == [.apns: 0, .fcm: 0])
  }
}
