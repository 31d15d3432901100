import Foundation
import Logging
import Operator
import Platform
import ProviderSimulator
import Providers
import Registrations
import Sealing
import TestSupport
import Testing

@testable import Delivery

/// Tests the log lines and metrics of delivered and refused notifications.
@Suite(.bench(isSending: false)) struct LossTests {
  private let bench = Fixture<DeliveryBench>.current

  @Test
  func `Each registration that ends and each notification that is refused has a line, without its token`()
    async throws
  {
    let devices = try await bench.devices(.apns, 3)
    _ = try await bench.deliver("good", to: devices[0])
    bench.simulator.setToken(devices[1].token, TokenRule(status: 410))
    bench.simulator.setToken(devices[2].token, TokenRule(status: 413))
    let results = try await bench.deliverer.deliver(devices.map { bench.push("n", to: $0) })
    #expect(results == [.delivered, .ended(.unregistered), .refused(.payloadTooLarge)])
    let fingerprint = PushToken.fingerprint(of: devices[1].token)
    let ended = try #require(bench.log.lines.first { $0.message == "registration ended" })
    #expect(
      ended.metadata.mapValues { "\($0)" } == [
        "reason": "Unregistered", "token": fingerprint, "kind": "e2ee", "route": "\(bench.apnsRoute)",
        "server": "chat.example.org",
      ])
    let refused = try #require(bench.log.lines.first { $0.message == "notification refused" })
    #expect(
      refused.metadata["reason"] == "PayloadTooLarge" && refused.metadata["server"] == "chat.example.org")
    #expect(!"\(bench.log.lines)".contains(devices[1].token))
    let counted = await bench.metrics.text()
    #expect(
      counted.contains(#"push_bouncer_registrations_ended_total{kind="e2ee",reason="Unregistered"} 1"#))
    #expect(
      counted.contains(#"push_bouncer_registrations_ended_total{kind="legacy",reason="Unregistered"} 0"#))
  }

  @Test func `A notification that a dead token loses is told of although its registration was made again`()
    async throws
  {
    let device = try await bench.devices(.fcm)[0]
    bench.simulator.setToken(device.token, TokenRule(status: 404))
    let push = bench.push("n", to: device)
    bench.advance(1)
    try await bench.register(PushToken(device.token, kind: .fcm))
    #expect(try await bench.deliverer.deliver([push]) == [.refused(.fcmUnregistered)])
    let lines = bench.log.lines.filter { $0.metadata["token"] != nil }
    #expect(lines.map(\.message) == ["notification refused"])
    #expect(lines.first?.metadata["token"] == "\(PushToken.fingerprint(of: device.token))")
  }

  @Test func `A notification that has waited for too long is told of`() async throws {
    let device = try await bench.devices(.fcm)[0]
    await bench.faults { $0.fcm.status = 503 }
    #expect(try await bench.deliver("n", to: device) == .queued)
    bench.advance(86_500)
    try await bench.sending { await eventually { bench.outbox.count == 0 } }
    let line = try #require(bench.log.lines.first { $0.message == "notification given up" })
    #expect(line.metadata["reason"] == "UNAVAILABLE" && line.metadata["server"] == "chat.example.org")
    #expect(line.metadata["route"] == "\(bench.fcmRoute)")
    #expect(line.metadata["token"] == "\(PushToken.fingerprint(of: device.token))")
    // That of the request; the one that found it too old has not sent it.
    #expect(line.metadata["tries"].map { "\($0)" } == "1")
    #expect(86_500...86_600 ~= line.metadata["seconds"].flatMap { Int("\($0)") } ?? 0)
  }

  @Test func `One that its provider kept refusing is told of with the provider's reason`() async throws {
    let device = try await bench.devices(.fcm)[0]
    bench.simulator.setToken(device.token, TokenRule(status: 429, reason: "QUOTA_EXCEEDED"))
    #expect(try await bench.deliver("n", to: device) == .queued)
    bench.advance(86_500)
    try await bench.sending { await eventually { bench.outbox.count == 0 } }
    let line = try #require(bench.log.lines.first { $0.message == "notification given up" })
    #expect(line.metadata["reason"] == "\(Reason.fcmQuotaExceeded)")
  }

  @Test func `A storm of dead tokens does not fill the disk`() async throws {
    let devices = try await bench.devices(.fcm, 100)
    await bench.faults { ($0.fcm.status, $0.fcm.reason) = (400, "INVALID_ARGUMENT") }
    let results = try await bench.deliverer.deliver(devices.map { bench.push("n", to: $0) })
    #expect(results.allSatisfy { if case .refused = $0 { true } else { false } })
    #expect(bench.log.lines.count { $0.message == "notification refused" } == 60)
    bench.advance(61)
    bench.deliverer.rateLimitedLog.logLeftOut(to: bench.log.logger, now: bench.clock.now)
    let line = try #require(bench.log.lines.last)
    #expect(line.metadata["left_out"].map { "\($0)" } == "40")
  }

  @Test func `Refusals because of a backlog are one warning a minute, with their number`() async throws {
    let device = try await bench.devices(.apns)[0]
    bench.providers.use(try bench.credentials(keyID: "ZZZZZZZZZZ"))
    _ = try await bench.deliverer.deliver((0..<103).map { bench.push("\($0)", to: device) })
    bench.advance(61)
    _ = try await bench.deliver("more", to: device)
    let lines = bench.log.lines.filter { $0.message.contains("refused") }
    let warnings = lines.filter { $0.level == .warning }
    #expect(warnings.count == 2)
    #expect(warnings.allSatisfy { $0.message.hasPrefix("notifications refused:") })
    #expect(warnings.first?.message.contains("100 already wait for this device") == true)
    #expect(lines.compactMap { $0.metadata["left_out"].map { "\($0)" } } == ["2"])
    #expect(!bench.log.lines.contains { $0.message == "notification refused" })
  }

  @Test func `The time to acceptance is measured from the call, by way of the outbox too`() async throws {
    let device = try await bench.devices(.apns)[0]
    _ = try await bench.deliverer.deliver([bench.push("at once", to: device)], after: .seconds(2))
    await bench.faults { $0.apns.status = 503 }
    #expect(try await bench.deliver("later", to: device) == .queued)
    await bench.faults { _ in }
    bench.advance(600)
    try await bench.sending { await eventually { bench.outbox.count == 0 } }
    let text = await bench.metrics.text()
    func bucket(_ bound: String) -> Bool {
      text.contains(#"push_bouncer_notify_to_accepted_seconds_bucket{provider="apns",le="\#(bound)"}"#)
    }
    #expect(bucket("900") && bucket("86400"))
    #expect(text.contains(#"seconds_bucket{provider="apns",le="1"} 0"#))
    #expect(text.contains(#"seconds_bucket{provider="apns",le="300"} 1"#))
    #expect(text.contains(#"seconds_bucket{provider="apns",le="900"} 2"#))
    #expect(text.contains(#"seconds_count{provider="fcm"} 0"#))
  }
}
