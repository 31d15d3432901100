import HTTP
import Operations
import Testing
import ZulipBouncer

@testable import Server

@Suite struct BouncerLimitsTests {
  @Test func `Who lifts the limit on a server's calls lifts the one on its registrations`() throws {
    func limit(_ settings: [String: String]) throws -> RateLimit? {
      let (configuration, _) = try Configuration.load(
        file: nil, environment: [:], overrides: settings, workingDirectory: "/")
      return Bouncer.Configuration(configuration, port: Port()).rateLimitOfRegistrations
    }
    #expect(try limit([:]) == RateLimit(calls: 60_000, seconds: 60))
    #expect(try limit(["bouncer.rate_limit.per_server": "1/60s"]) == RateLimit(calls: 60_000, seconds: 60))
    #expect(try limit(["bouncer.rate_limit.per_server": "0"]) == nil)
  }
}
