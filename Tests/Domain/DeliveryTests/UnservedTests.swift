import Basics
import Foundation
import HTTPClient
import Logging
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import TestSupport
import Testing

@testable import Delivery

/// Tests what is said of notifications whose app no credential serves, and which of them wait.
@Suite(.bench(isSending: false)) struct UnservedTests {
  private let bench = Fixture<DeliveryBench>.current

  private func found(_ device: DeliveryBench.Device) async throws -> FoundDevice {
    let search = DeviceSearch(
      database: bench.database, storageKey: StorageKey(bytes: [UInt8](repeating: 7, count: 32)))
    let kind = device.registration.wire.rawValue
    return try #require(
      try await search.find(.registration(wire: kind, id: device.registration.id)).devices.first)
  }

  private func warnings(_ text: String = "no key in") -> [LogRecorder.Line] {
    bench.log.lines.filter {
      $0.level == .warning && $0.message.contains("no key in") && $0.message.contains(text)
    }
  }

  @Test
  func `One that nothing was delivered to is refused with the reason, and its app is named once an hour`()
    async throws
  {
    let device = try await bench.devices(.apns)[0]
    func send(_ topic: String = "org.example.Chat") async throws {
      let push = bench.push("n", to: device, topic: topic)
      #expect(try await bench.deliverer.deliver([push]) == [.refused(.unconfigured)])
    }
    for _ in 0..<3 { try await send() }
    #expect(bench.outbox.count == 0)
    let found = try await found(device)
    #expect(found.state == .failing && found.failure?.reason == "unconfigured")
    #expect(found.advice.hasPrefix(Reason.unconfigured.explanation.meaning))

    let report = try #require(bench.deliverer.unserved().first)
    #expect(
      report.sentence
        == "3 notifications for org.example.Chat came in the last hour; no key in Keys/apns lists it")
    #expect(
      report.advice.hasPrefix("org.example.chat is listed, which differs in upper and lower case only: add"))
    #expect(report.isFault)
    #expect(warnings("org.example.Chat").count == 1)
    #expect(warnings().first?.metadata["target"] == "apns org.example.Chat")
    bench.advance(3599)
    try await send("org.example.other")
    #expect(bench.deliverer.unserved().map(\.came) == [3, 1])
    bench.advance(302)
    try await send()
    #expect(warnings("org.example.Chat").count == 2 && warnings("org.example.other").count == 1)
    #expect(bench.deliverer.unserved().map(\.came) == [1, 1])
    // A key that lists them leaves nothing to say.
    bench.providers.use(try bench.credentials(topics: ["org.example.Chat", "org.example.other"]))
    #expect(bench.deliverer.unserved().isEmpty)
  }

  @Test func `One that something was delivered to waits for its key, and goes as soon as there is one`()
    async throws
  {
    let device = try await bench.devices(.apns)[0]
    #expect(try await bench.deliver("before", to: device) == .delivered)
    try await bench.history.flush()
    bench.providers.use(Credentials(apns: [], fcm: []))
    #expect(try await bench.deliver("meanwhile", to: device) == .queued)
    let found = try await found(device)
    #expect(found.state == .waiting && found.waitReason == "unconfigured")
    #expect(found.failure == nil && found.waitingUntil != nil)
    let report = try #require(bench.deliverer.unserved().first)
    #expect(
      report.sentence
        == "1 notification for org.example.chat came in the last hour, and 1 waits; no key in Keys/apns lists it"
    )
    try await bench.sending {
      // Tries in vain neither lose it nor count as further notifications.
      try await eventually {
        bench.advance(31)
        return try await bench.number("SELECT MAX(attempts) FROM outbox") > 3
      }
      #expect(bench.deliverer.unserved().map(\.came) == [1] && bench.outbox.count == 1)
      // A key is back, under another name.
      var credentials = try bench.credentials()
      credentials.apns[0].name = "another"
      bench.providers.use(credentials)
      bench.advance(31)
      try await bench.drained()
    }
    #expect(bench.accepted()["meanwhile"]?.count == 1)
    #expect(bench.deliverer.unserved().isEmpty)
    #expect(try await self.found(device).failure == nil)
  }

  @Test
  func `Without the database's answer whether something was delivered, it is kept or nothing is promised`()
    async throws
  {
    let device = try await bench.devices(.apns)[0]
    let push = bench.push("n", to: device, topic: "org.example.other")
    await bench.database.close()
    await #expect(throws: (any Error).self) { try await bench.deliverer.deliver([push]) }
  }

  @Test func `Nobody fills log or memory with apps of his own, or hides those of others`() async throws {
    let device = try await bench.devices(.apns)[0]
    for number in 0..<1000 {
      let push = bench.push("n", to: device, of: .chatServer(1), topic: "org.stranger.n\(number)")
      _ = try await bench.deliverer.deliver([push])
    }
    let ours = bench.push("n", to: device, of: .chatServer(2), topic: "org.example.ours")
    _ = try await bench.deliverer.deliver([ours])
    let reports = bench.deliverer.unserved()
    #expect(reports.count <= UnservedTargets.places && reports.map(\.came).reduce(0, +) == 1001)
    #expect(reports.contains { $0.sentence.contains("for org.example.ours") })
    #expect(reports.contains { $0.sentence.contains("for further apps") })
    #expect(warnings().count <= UnservedTargets.places && !warnings("org.example.ours").isEmpty)
  }

  @Test func `Devices that anybody may register, and Web Push that is off, are no fault of the service`() {
    let targets = UnservedTargets()
    let now = bench.clock.now
    for (provider, isUntrusted) in [(Route.Provider.apns, true), (.webPush, false), (.fcm, false)] {
      let target = UnservedTargets.Target(provider, "", isUntrusted: isUntrusted)
      #expect(targets.record(target, 1, of: .nobody, now: now))
      #expect(UnservedReport(target: target).isFault == (provider == .fcm))
    }
    #expect(targets.counts(now: now).values.sorted() == [1, 1, 1])
  }
}
