import Delivery
import Foundation
import HTTP
import Providers
import Testing

@testable import Operator

/// What the page says first.
@Suite struct HealthTests {
  private static let now = Date(timeIntervalSince1970: 1_795_373_000)

  private func health(
    _ checks: [Health.Check] = [], _ routes: [Health.RouteHealth] = [], waiting: Int = 0
  ) -> Health {
    Health(
      at: Self.now, checks: checks, routes: routes, pushServices: nil, waiting: waiting)
  }

  @Test func `Routes that fail for one reason are explained once, and causes come before what waits`() {
    let since = Self.now - 40
    var credential = Health.Check(name: "apns:k")
    credential.fail(.connectFailed, on: "a.example", since: since)
    let health = health(
      [
        .init(name: "database"),
        .init(
          name: "outbox", status: .degraded, state: "degraded",
          meaning: "A notification has waited for 6 min."),
        credential,
        .init(
          name: "keys", status: .degraded, state: "failing", summary: "key files cannot be used",
          meaning: "Key files cannot be used.", files: [.init(file: "apns/x.json", message: "it is not JSON")]
        ),
      ],
      ["b.example", "a.example"].map { target in
        .init(
          route: Route(provider: .apns, credential: "k", target: target),
          state: .failing(.connectFailed, since: since), waiting: target == "a.example" ? 79 : 0)
      }, waiting: 79)
    #expect(health.status == .degraded)
    #expect(health.summary == "key files cannot be used, 2 routes do not work, 79 notifications wait")
    let problems = health.problems
    #expect(problems.count == 3)
    #expect(problems.first?.sentence == "Key files cannot be used. apns/x.json: it is not JSON")
    let parts = problems[1].parts
    #expect(parts.count == 2)
    #expect(parts[0].hasPrefix("apns:k a.example for 40 s (since ") && parts[0].hasSuffix(" UTC), 79 wait"))
    #expect(problems[1].sentence.hasSuffix("(connectFailed)"))
    #expect(problems.last?.parts == ["outbox"])
    #expect(problems.last?.sentence == "A notification has waited for 6 min.")
  }

  @Test func `What waits is told of with a route that does not work, and what a check means`() {
    let route = Health.RouteHealth(
      route: Route(provider: .apns, credential: "k", target: "a.example"),
      state: .failing(.connectFailed, since: Self.now - 40), waiting: 1)
    #expect(health([], [route], waiting: 1).summary == "1 route does not work, 1 notification waits")
    #expect(health(waiting: 1).summary == "everything works")
    var credential = Health.Check(name: "apns:k")
    credential.fail(.connectFailed, on: "a.example", since: Self.now - 40)
    let sentence = health([credential]).problems.first?.sentence
    #expect(
      credential.meaning != nil && sentence?.hasPrefix(credential.meaning ?? "") == true, "\(sentence ?? "")")
  }

  @Test func `Deletions held back are told with their number, and how to end them with its condition`() throws
  {
    let route = Health.RouteHealth(
      route: Route(provider: .fcm, credential: "default", target: "demo"),
      state: .failing(.deletionsHeld, since: Self.now - 40), waiting: 0, held: 35)
    var check = Health.Check(name: "fcm:default")
    check.fail(.deletionsHeld, on: "demo", since: Self.now - 40, of: "fcm:default")
    let health = health([check], [route])
    #expect(health.summary == "35 deletions are held back")
    let problem = try #require(health.problems.first)
    #expect(health.problems.count == 1 && problem.parts[0].hasSuffix(", 35 deletions held back"))
    for advice in [problem.advice, check.advice] {
      let text = try #require(advice)
      #expect(text.contains("push-bouncer routes trust fcm:default only if you know why so many are dead"))
      #expect(text.hasPrefix("Each ends if the provider says the same of it again"))
    }
  }

  @Test func `Without a fault everything works`() {
    #expect(health().summary == "everything works" && health().problems.isEmpty)
  }

  @Test func `What no credential serves is named, and degrades only where it is the operator's fault`() {
    func report(_ target: String, isUntrusted: Bool) -> UnservedReport {
      UnservedReport(target: .init(.apns, target, isUntrusted: isUntrusted), came: 2)
    }
    let ours = report("org.example.chat", isUntrusted: false)
    let strangers = report("com.example.talk", isUntrusted: true)
    for (reports, isDegraded) in [([strangers, ours], true), ([strangers], false)] {
      let check = Health.check(reports)
      #expect(check?.status == (isDegraded ? .degraded : .ready))
      #expect(check?.meaning?.hasPrefix("2 notifications for \(isDegraded ? "org" : "com").example") == true)
      #expect(check?.json["targets"]?.elements.count == reports.count)
      var health = health([check].compactMap(\.self))
      health.unserved = reports
      #expect(health.problems.map(\.sentence) == reports.map { "\($0.sentence)." })
      #expect(health.summary.contains("no credential serves"))
    }
    let many = (0..<50).map { report("org.example.n\($0)", isUntrusted: false) }
    var health = health()
    health.unserved = many
    #expect(health.problems.count == Health.mostUnserved + 1)
    let check = Health.check(many)?.json
    #expect(check?["targets"]?.elements.count == Health.mostUnserved)
    #expect(check?["more_targets"]?.integer == Int64(many.count - Health.mostUnserved))
    #expect(Health.check([]) == nil)
  }

  @Test func `A rate that rounds to nothing is not shown as nothing`() {
    #expect([0, 0.01, 0.06, 12].map(PageText.rate) == ["0", "< 0.1", "0.1", "12"])
  }

  @Test func `A time is told to the minute, in UTC`() {
    #expect(Date(timeIntervalSince1970: 1_790_000_000).minute == "2026-09-21 14:13 UTC")
  }

  // MARK: What is kept for a while

  private struct Away: Error {}

  @Test func `What was found out before stays, with its age, while nothing newer can be had`() async throws {
    let answers = AsyncStream<Int?>.makeStream()
    for answer in [7, nil, 8] { answers.continuation.yield(answer) }
    let cached = Cached<Int>(for: .zero) {
      for await answer in answers.stream { if let answer { return answer } else { throw Away() } }
      throw Away()
    }
    for (value, isOld) in [(7, false), (7, true), (8, false)] {
      let found = try #require(await cached.value(within: .seconds(60)))
      #expect(found.value == value && (found.age != nil) == isOld)
    }
  }

  @Test func `Nothing is made up where it never could be had`() async throws {
    let cached = Cached<Int>(for: .seconds(5)) { throw Away() }
    #expect(await cached.value(within: .seconds(60)) == nil)
  }
}
