import Basics
import HTTP
import Server
import TestService
import Testing
import ZulipBouncer

@Suite struct BouncerLimitsTests {
  @Test(arguments: [nil, "1/60s", "0"])
  func `Who lifts the limit on a server's calls lifts the one on its registrations`(_ limit: String?)
    async throws
  {
    try await TestService.run(limit.map { ["bouncer.rate_limit.per_server": $0] } ?? [:]) { test in
      let expected = limit == "0" ? nil : RateLimit(calls: 60_000, seconds: 60)
      #expect(test.service.bouncer.rateLimitOfRegistrations == expected)
    }
  }
}
