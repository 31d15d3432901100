import Foundation
import HTTP
import Providers
import Testing

@testable import Operations

/// What the page says first.
@Suite struct VerdictTests {
  private let now = Date(timeIntervalSince1970: 1_795_373_000)

  @Test func `Routes that fail for one reason are explained once, and causes come before what waits`() throws
  {
    let routes = ["b.example", "a.example"].map { target in
      Verdict.FailingRoute(
        route: Route(provider: .apns, credential: "k", target: target), reason: .connectFailed,
        since: now.addingTimeInterval(-40), waiting: target == "a.example" ? 79 : 0)
    }
    let verdict = Verdict(
      .degraded,
      [
        "checks": [
          "database": ["status": "ok"],
          "outbox": ["status": "degraded", "reason": "a notification has waited for 6 min"],
          "apns:k": ["status": "open", "reason": "connectFailed", "route": "a.example"],
          "keys": [
            "status": "failing", "reason": "key files cannot be used",
            "problems": [["file": "apns/x.json", "problem": "it is not JSON"]],
          ],
        ]
      ], routes: routes, waiting: 79, canDeliver: true, now: now)
    #expect(verdict.summary == "key files cannot be used, 2 routes do not work, 79 notifications wait")
    #expect(verdict.problems.count == 3)
    #expect(verdict.problems.first?.sentence == "key files cannot be used; apns/x.json: it is not JSON")
    let parts = verdict.problems[1].parts
    #expect(parts.count == 2)
    #expect(parts[0].hasPrefix("apns:k a.example for 40 s (since ") && parts[0].hasSuffix(" UTC), 79 wait"))
    #expect(verdict.problems[1].sentence.hasSuffix("(connectFailed)"))
    #expect(verdict.problems.last?.parts == ["outbox"])
  }

  @Test func `Without a credential not everything works, whatever /readyz says`() {
    let verdict = Verdict(.ready, ["checks": [:]], routes: [], waiting: 0, canDeliver: false, now: now)
    #expect(verdict.word.style == "doubtful" && !verdict.summary.contains("everything"))
    let fine = Verdict(.ready, ["checks": [:]], routes: [], waiting: 0, canDeliver: true, now: now)
    #expect(fine.word.style.isEmpty && fine.summary == "everything works" && fine.problems.isEmpty)
  }

  @Test func `A rate that rounds to nothing is not shown as nothing`() {
    #expect([0, 0.01, 0.06, 12].map(Shown.rate) == ["0", "< 0.1", "0.1", "12"])
  }
}
