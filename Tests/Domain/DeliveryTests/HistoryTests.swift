import Foundation
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import TestSupport
import Testing

@testable import Delivery

/// Tests the record of deliveries: counts by the hour, and each registration's last success.
@Suite struct HistoryTests {
  private var bench: DeliveryBench { Fixture.current }

  @Test(.bench()) func `Accepted and refused notifications are counted by route, with reasons and times`()
    async throws
  {
    let devices = try await bench.devices(.apns, 3)
    bench.simulator.setToken(devices[1].token, TokenRule(status: 410))
    bench.simulator.setToken(devices[2].token, TokenRule(status: 413, reason: "PayloadTooLarge"))
    _ = try await bench.deliverer.deliver(devices.map { bench.push("n", to: $0) })
    try await bench.history.flush()
    let report = try await bench.counts.report(hours: 2)
    #expect(report.hours.map(\.accepted) == [0, 1])
    #expect(report.total.refused == 2)
    let route = try #require(report.routes.first)
    #expect(report.routes.count == 1 && route.route == bench.apnsRoute.description)
    #expect(Set(route.refused.map(\.reason)) == ["Unregistered", "PayloadTooLarge"])
    let median = try #require(report.total.latency.percentile(0.5))
    #expect(median > 0 && median < 60)
  }

  @Test(.bench()) func `Whoever looks at a device sees within seconds that it was reached`() async throws {
    let device = try await bench.devices(.apns, 1)[0]
    let running = Task { await bench.history.run(every: .seconds(3600)) }
    // Its first look has passed when a key's use is counted.
    bench.history.registered(key: "key")
    _ = try await bench.deliverer.deliver([bench.push("n", to: device)])
    await eventually("the success") {
      (try? await bench.database.read { connection in
        try connection.query(
          Statement(
            "SELECT delivered_at FROM registrations WHERE delivered_at IS NOT NULL"))
      }.isEmpty) == false
    }
    running.cancel()
    await running.value
  }

  @Test(.bench()) func `However many push services there are, Web Push is counted as one`() async throws {
    let device = try await bench.devices(.fcm)[0]
    for number in 0..<30 {
      let route = Route(provider: .webPush, credential: "push.\(number).example", target: "")
      for result in [.delivered, .refused(.payloadTooLarge), .queued] as [DeliveryResult] {
        bench.tried(result, device, route)
      }
      bench.history.count(.givenUp(route))
    }
    try await bench.history.flush()
    let routes = try await bench.counts.report(hours: 1).routes
    #expect(routes.map(\.route) == ["webpush"])
    let total = try #require(routes.first?.total)
    #expect([total.accepted, total.refused, total.postponed, total.givenUp] == [30, 30, 30, 30])
  }

  @Test(.bench()) func `Counts of two nodes, and of one before and after a restart, add up`() async throws {
    let device = try await bench.devices(.fcm)[0]
    let other = History(database: bench.database, now: { bench.clock.now })
    for history in [bench.history, other, History(database: bench.database, now: { bench.clock.now })] {
      bench.tried(.delivered, device, by: history)
      history.countSent([.delivered, .queued, .refused(.timeout)], of: 7)
      history.registered(key: "key")
      try await history.flush()
      // What was written is not written again.
      try await history.flush()
    }
    #expect(try await bench.counts.report(hours: 1).total.accepted == 3)
    let servers = try await bench.counts.servers(hours: 1)
    #expect(servers[7]?.sent == 9 && servers[7]?.failed == 3)
    let hours = try await bench.counts.report(ofServer: 7, hours: 3)
    #expect(hours.map(\.sent) == [0, 0, 9] && hours.map(\.failed) == [0, 0, 3])
    #expect(try await bench.counts.registrationsByKey(hours: 1) == ["key": 3])
  }

  @Test(.bench()) func `What cannot be written is kept, with its hour, and written once`() async throws {
    let device = try await bench.devices(.fcm)[0]
    bench.tried(.delivered, device)
    try await bench.run("ALTER TABLE hourly_counts RENAME TO away")
    await #expect(throws: DatabaseError.self) { try await bench.history.flush() }
    bench.advance(3600)
    bench.tried(.refused(.timeout), device)
    await #expect(throws: DatabaseError.self) { try await bench.history.flush() }
    try await bench.run("ALTER TABLE away RENAME TO hourly_counts")
    try await bench.history.flush()
    try await bench.history.flush()
    let report = try await bench.counts.report(hours: 2)
    #expect(report.hours.map(\.accepted) == [1, 0])
    #expect(report.hours.map(\.refused) == [0, 1])
    #expect(report.routes.first?.latestAccepted == 1)
    #expect(try await bench.deliveredAt(device) != nil)
    bench.advance(3600)
    #expect(try await bench.counts.report(hours: 2).routes.first?.total.accepted == 0)
  }

  @Test(.bench()) func `When a device was reached is kept until it can be written`() async throws {
    let device = try await bench.devices(.fcm)[0]
    bench.tried(.delivered, device)
    try await bench.run("ALTER TABLE registrations RENAME TO away")
    await #expect(throws: DatabaseError.self) { try await bench.history.flush() }
    try await bench.run("ALTER TABLE away RENAME TO registrations")
    try await bench.history.flush()
    #expect(try await bench.deliveredAt(device) != nil)
  }

  @Test(.bench()) func `However many were reached, each has its success`() async throws {
    for device in try await bench.devices(.fcm, 1001) { bench.tried(.delivered, device) }
    try await bench.history.flush()
    #expect(try await bench.number("SELECT COUNT(delivered_at) FROM registrations WHERE wire = 1") == 1001)
  }

  @Test(.bench(isSending: false))
  func `What waits is counted as postponed, and its time runs from when it was promised`() async throws {
    let device = try await bench.devices(.apns)[0]
    bench.simulator.setToken(
      device.token, TokenRule(status: 429, reason: "TooManyRequests", times: 1))
    #expect(try await bench.deliver("n", to: device) == .queued)
    bench.advance(100)
    let sending = Task { await bench.sender.run() }
    defer { sending.cancel() }
    try await bench.drained()
    try await bench.history.flush()
    let total = try await bench.counts.report(hours: 2).total
    #expect(total.postponed == 1 && total.accepted == 1)
    #expect(try #require(total.latency.percentile(0.5)) > 80)
  }

  @Test(.bench(isSending: false)) func `What is given up, and what no credential serves, is counted`()
    async throws
  {
    let device = try await bench.devices(.apns)[0]
    _ = try await bench.deliverer.deliver([bench.push("n", to: device, topic: "org.example.none")])
    bench.simulator.setToken(device.token, TokenRule(status: 429, reason: "TooManyRequests"))
    #expect(try await bench.deliver("m", to: device) == .queued)
    bench.advance(25 * 3600)
    let sending = Task { await bench.sender.run() }
    defer { sending.cancel() }
    try await bench.drained()
    try await bench.history.flush()
    let report = try await bench.counts.report(hours: 26)
    #expect(report.total.givenUp == 1)
    #expect(report.routes.first { $0.route == "apns" }?.refused.map(\.reason) == ["unconfigured"])
  }

  @Test(.bench()) func `A registration's last success is written once a day, and at once after a failure`()
    async throws
  {
    bench.advance(86_400 - bench.clock.now.timeIntervalSince1970.truncatingRemainder(dividingBy: 86_400))
    let device = try await bench.devices(.apns)[0]
    func deliver() async throws -> Int64? {
      _ = try await bench.deliver("n", to: device)
      try await bench.history.flush()
      return try await bench.deliveredAt(device)
    }
    let first = try #require(try await deliver())
    let midnight = first - first % 86_400_000
    #expect(first - midnight < 3_600_000)
    bench.advance(3600)
    #expect(try await deliver() == first)
    // Another node, or this one after a restart, knows nothing of that, and writes nothing either.
    let other = History(database: bench.database, now: { bench.clock.now })
    bench.tried(.delivered, device, bench.apnsRoute, by: other)
    try await other.flush()
    #expect(try await bench.deliveredAt(device) == first)
    bench.simulator.setToken(
      device.token, TokenRule(status: 413, reason: "PayloadTooLarge", times: 1))
    #expect(try await deliver() == first)
    bench.advance(60)
    let afterFailure = try #require(try await deliver())
    #expect(afterFailure >= first + 3_660_000)
    bench.advance(86_400)
    #expect(try #require(try await deliver()) > afterFailure)
  }

  @Test(.bench()) func `A registration that was made again keeps its last success, and gets no other's`()
    async throws
  {
    let device = try await bench.devices(.fcm)[0]
    _ = try await bench.deliver("n", to: device)
    try await bench.history.flush()
    let first = try #require(try await bench.deliveredAt(device))
    bench.advance(86_400)
    _ = try await bench.deliver("n", to: device)
    bench.advance(1)
    try await bench.register(try PushToken(device.token, kind: .fcm))
    try await bench.history.flush()
    #expect(try await bench.deliveredAt(device) == first)
  }

  @Test(.bench()) func `Old counts are removed, those of chat servers sooner`() async throws {
    bench.history.countSent([.delivered], of: 7)
    bench.history.count(.refused(bench.apnsRoute, .timeout))
    try await bench.history.flush()
    #expect(try await bench.counts.removeOld(limit: 10) == 0)
    bench.advance(14 * 86_400 + 3600)
    #expect(try await bench.counts.removeOld(limit: 10) == 1)
    bench.advance(76 * 86_400)
    #expect(try await bench.counts.removeOld(limit: 10) == 1)
  }

  @Test(.bench()) func `What is held in memory is bounded`() async throws {
    let history = History(
      database: bench.database, limits: .init(counts: 3, successes: 2, known: 2), now: { bench.clock.now })
    let devices = try await bench.devices(.fcm, 4)
    for device in devices { bench.tried(.delivered, device, by: history) }
    for server in 1...9 { history.countSent([.delivered], of: Int64(server)) }
    try await history.flush()
    #expect(try await bench.number("SELECT COUNT(*) FROM hourly_counts") == 3)
    #expect(try await bench.number("SELECT COUNT(delivered_at) FROM registrations WHERE wire = 1") == 2)
  }

  @Test func `Percentiles are right to a fifth, from a millisecond to a day`() throws {
    for seconds in [0.002, 0.05, 0.13, 2.7, 300, 80_000] {
      var latency = Latency()
      latency.add(99, bucket: Latency.bucket(of: seconds))
      latency.add(1, bucket: Latency.bucket(of: 1e9))
      let median = try #require(latency.percentile(0.5))
      #expect(median > seconds * 0.7 && median < seconds * 1.42)
    }
    #expect(Latency().percentile(0.5) == nil)
    for strange in [-1, 0, .infinity, -.infinity, .nan] as [TimeInterval] {
      #expect((0...54).contains(Latency.bucket(of: strange)))
    }
  }
}

extension DeliveryBench {
  fileprivate var counts: HourlyCounts { HourlyCounts(database: database, now: { [clock] in clock.now }) }

  func tried(
    _ result: DeliveryResult, _ device: Device, _ route: Route? = nil, by other: History? = nil
  ) {
    (other ?? history).countAttempt(
      result, waitsFor: .vapidRefused, of: device.registration, on: route ?? fcmRoute, since: clock.now)
  }

  fileprivate func run(_ sql: String) async throws {
    try await database.write { try $0.runScript(sql) }
  }

  fileprivate func deliveredAt(_ device: Device) async throws -> Int64? {
    let statement = Statement(
      "SELECT delivered_at FROM registrations WHERE wire = 1 AND id = $1", .integer(device.registration.id))
    return try await database.query(statement).first?.optionalInt64("delivered_at")
  }
}
