import Delivery
import Foundation
import HTTP
import Logging
import Providers
import TestSupport
import Testing

@testable import Basics
@testable import Operator

/// Tests the log lines about Web Push: those about all of it, and a limited number about single push
/// services.
@Suite struct PushServicesTests {
  private var service: Operator { Fixture.current }

  static let now = Date(timeIntervalSince1970: 1_800_000_000)
  static let broken = PushProviders.RouteState.open(.connectFailed, since: now - 60)

  static func route(_ host: String) -> Route { Route(provider: .webPush, credential: host, target: "") }

  static func service(
    _ host: String, _ state: PushProviders.RouteState = .ok, triedAt: Date? = now, hasAnswered: Bool = false
  ) -> PushServices.Service {
    .init(route: route(host), state: state, triedAt: triedAt, hasAnswered: hasAnswered)
  }

  static func services(
    failing: [String], hadWorked: Bool = false, working: [String] = [], waiting: [Route: Int] = [:],
    own: Set<String> = []
  ) -> PushServices {
    PushServices(
      failing.map { service($0, broken, hasAnswered: hadWorked) } + working.map { service($0) },
      waiting: waiting, own: own, now: now)
  }

  @Test(arguments: [false, true])
  func `One push service that fails is the matter of those who chose it`(hadWorked: Bool) {
    for failing in [["a.example"], ["a.example", "b.example"], ["a.example", "b.example", "c.example"]] {
      #expect(
        Self.services(failing: failing, hadWorked: hadWorked, working: ["y.example", "z.example"]).outage
          == nil)
    }
    #expect(Self.services(failing: ["a.example", "b.example"]).outage == nil)
  }

  @Test func `What most push services have in common is everybody's matter`() {
    let three = ["a.example", "b.example", "c.example"]
    #expect(Self.services(failing: three).outage == .init(reason: .connectFailed, since: Self.now - 60))
    #expect(Self.services(failing: three, hadWorked: true, working: ["d.example"]).outage == nil)
    let four = Self.services(failing: three + ["e.example"], hadWorked: true, working: ["d.example"])
    #expect(four.outage != nil && four.failing == 4 && four.working == 1)
    // Anybody can think of names.
    #expect(Self.services(failing: (0..<99).map { "\($0).example" }, working: ["d.example"]).outage == nil)
    // One person has as many under a domain as they like.
    let one = (0..<500).map { "\($0).stranger.example" }
    #expect(Self.services(failing: one).outage == nil)
    #expect(Self.services(failing: one + ["a.example", "b.example"]).outage != nil)
    // It works there, too.
    let more = one + ["a.example", "b.example"]
    #expect(Self.services(failing: more, hadWorked: true, working: ["good.stranger.example"]).outage == nil)
    // Addresses have no domain.
    #expect(Self.services(failing: ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3"]).outage != nil)
  }

  @Test func `The only one that is used and has worked before is everybody's matter`() {
    let failing = PushServices.Service(
      route: Self.route("a.example"), state: .failing(.timeout, since: Self.now - 5), triedAt: Self.now,
      hasAnswered: true)
    #expect(
      PushServices([failing], waiting: [:], now: Self.now).outage
        == .init(reason: .timeout, since: Self.now - 5))
    #expect(
      PushServices([failing, Self.service("b.example")], waiting: [:], now: Self.now).outage == nil)
  }

  @Test func `The operator's own is the operator's matter`() {
    for host in ["ntfy", "ntfy:8443"] {
      #expect(Self.services(failing: [host], working: ["a.example"], own: ["ntfy"]).outage != nil)
    }
    #expect(
      Self.services(failing: ["[fd00::1]:8443"], working: ["a.example"], own: ["fd00::1"]).outage != nil)
    #expect(Self.services(failing: ["ntfy.example"], working: ["a.example"], own: ["ntfy"]).outage == nil)
  }

  @Test func `Only what was used recently tells of the present`() {
    let old = Self.now - PushServices.memory - 1
    let idle = (0..<50).map { Self.service("\($0).example", triedAt: old) }
    let failing = ["x.example", "y.example", "z.example"].map { Self.service($0, Self.broken) }
    #expect(PushServices(idle + failing, waiting: [:], now: Self.now).outage != nil)
    let gone = PushServices(
      ["x.example", "y.example", "z.example"].map { Self.service($0, Self.broken, triedAt: old) },
      waiting: [:], now: Self.now)
    #expect(gone.outage == nil && gone.failing == 0 && gone.state == nil)
  }

  // MARK: /readyz

  @Test(.listener())
  func `/readyz lists ten push services at most, those for which most waits, and degrades for nobody's one`()
    async throws
  {
    #expect(try await service.check("webpush") == nil)
    let hosts = (0..<25).map { "\($0).stranger.example" }
    service.stage.now.services = Self.services(
      failing: hosts, working: ["push.example.org"],
      waiting: Dictionary(uniqueKeysWithValues: hosts.enumerated().map { (Self.route($1), $0) }))
    var (status, document) = try await service.ready()
    #expect(status == 200 && document["status"] == "ready")
    let check = document["checks"]?["webpush"]
    #expect(check?["status"] == "ok" && check?["working"] == 1 && check?["failing"] == 25)
    #expect(check?["waiting"] == 300)
    guard case .array(let listed)? = check?["failing_services"] else {
      Issue.record("\(document)")
      return
    }
    #expect(listed.count == 10)
    let first = try #require(listed.first)
    #expect(first["route"] == "webpush:24.stranger.example" && first["waiting"] == 24)
    let report = StatusReport(
      "open", since: Self.now - 60, reason: "connectFailed",
      meaning: Reason.connectFailed.explanation.meaning, advice: Reason.connectFailed.explanation.advice)
    #expect(StatusReport(first) == report)
    let read = try #require(ReportedHealth(document))
    #expect(read.services.count == 10 && read.failingServices == 25)
    #expect(read.services["webpush:24.stranger.example"] == report)
    #expect(read.checks["webpush"] == StatusReport("ok"))

    service.stage.now.services = Self.services(failing: ["a.example", "b.example", "c.example"])
    (status, document) = try await service.ready()
    #expect(status == 200 && document["status"] == "degraded")
    #expect(document["checks"]?["webpush"]?["status"] == "failing")
    #expect(document["checks"]?["webpush"]?["reason"] == "connectFailed")
    #expect(document["checks"]?["webpush"]?["advice"]?.string?.contains("network") != nil)

    service.stage.now.services = Self.services(failing: [], working: ["a.example"])
    #expect(
      try await service.check("webpush") == [
        "status": "ok", "working": 1, "failing": 0,
      ])
    service.stage.now.services = PushServices([], waiting: [:], now: Self.now)
    #expect(try await service.check("webpush")?["status"] == "unknown")
  }

  @Test(.listener()) func `What waits for push services makes nothing late for the operator`() async throws {
    try await service.keep(3, since: 90_000, route: Self.route("a.example"))
    #expect(try await service.outbox.oldestLate() == nil)
    #expect(try await service.ready().document["status"] == "ready")
    #expect(service.outbox.counts(of: .webPush) == [Self.route("a.example"): 3])
    // Nor does it hide what is late.
    try await service.keep(since: 3000)
    #expect(try await service.outbox.oldestLate() == service.clock.now - 3000)
    #expect(try await service.ready().document["status"] == "degraded")
  }

  // MARK: The log

  /// The log lines for these states of Web Push, five seconds apart.
  private static func log(_ states: [PushServices]) async throws -> [LogRecorder.Line] {
    let log = LogRecorder()
    try await Operator.test { service in
      var problems = ProblemLog(log.logger)
      for services in states {
        problems.check(services, service.outbox, now: service.clock.now)
        service.clock.advance(5)
      }
    }
    return log.lines
  }

  @Test func `A push service that fails is a line when it begins and one when it is over, and no warning`()
    async throws
  {
    let fails = Self.services(failing: ["a.example"], working: ["b.example"])
    let works = Self.services(failing: [], working: ["a.example", "b.example"])
    let lines = try await Self.log([works, fails, fails, fails, works, works, works])
    #expect(
      lines.map(\.message) == [
        "webpush:a.example does not work (connectFailed): 0 notifications wait of those who chose it",
        "webpush:a.example works again, after \(Phrase.span(lines.last?.seconds ?? 0))",
      ])
    #expect(lines.map(\.level) == [.notice, .info])
    #expect(lines.first?.metadata["route"] == "webpush:a.example")
  }

  @Test func `Many push services fill no log, and what concerns everybody is one warning`() async throws {
    let hosts = (0..<3000).map { "push.\($0).example" }
    let waiting = [Self.route(hosts[0]): 7]
    let fails = Self.services(failing: hosts, waiting: waiting)
    let works = Self.services(failing: [], working: hosts)
    let lines = try await Self.log(
      [works, fails] + Array(repeating: fails, count: 11) + [works, works, works])
    let warnings = lines.filter { $0.level == .warning }
    #expect(
      warnings.map(\.message) == [
        "Web Push does not work (connectFailed): of 3,000 push services used recently 3,000 fail, 7 notifications wait"
      ])
    #expect(warnings.first?.metadata["advice"] != nil && warnings.first?.metadata["route"] == "webpush")
    #expect(lines.contains { $0.level == .notice && $0.message.hasPrefix("Web Push works again, after ") })
    #expect(lines.count { $0.message.hasPrefix("webpush:") } == 20)
    let rest = lines.first { $0.message.hasPrefix("more lines were left out: push services") }?.metadata[
      "left_out"]
    #expect(rest.map { "\($0)" } == "2990")
  }

  @Test func `What is not used any more is no news`() async throws {
    let fails = Self.services(failing: ["a.example", "b.example", "c.example"])
    let idle = PushServices([], waiting: [:], now: Self.now)
    let lines = try await Self.log([fails, idle, idle, idle])
    #expect(lines.count == 4 && !lines.contains { $0.message.contains("again") })
  }
}

extension LogRecorder.Line {
  fileprivate var seconds: Double? { metadata["seconds"].flatMap { Double("\($0)") } }
}
