import Foundation
import HTTP
import HTTPTypes
import Logging
import Platform
import TestService
import TestSupport
import Testing

@testable import Operator
@testable import Server

/// Proxies that write ports beside addresses, and such as write no addresses.
@Suite struct ForwardedForTests {
  private let path = "/api/v1/zulip-services/webpush/vapid"

  private func call(_ test: TestService, from entry: String) async throws -> Int {
    try await test.call(.get, path, headers: [.xForwardedFor: entry]).status
  }

  private func ready(_ test: TestService) async throws -> JSON {
    try await test.callOperator(.get, "/readyz").json
  }

  @Test func `Callers are told apart, whatever the ports`() async throws {
    try await TestService.run(["http.rate_limit.per_address": "1/60s"]) { test in
      for (entry, status) in [
        ("192.0.2.1:51844", 200), ("192.0.2.1:51845", 429), ("192.0.2.2:51844", 200),
        ("[2001:db8:1::1]:51844", 200), ("[2001:db8:1::2]:1", 429), ("[2001:db8:2::1]", 200),
        ("2001:db8:2::2", 429), ("192.0.2.1", 429),
      ] {
        let answered = try await call(test, from: entry)
        #expect(answered == status, "\(entry)")
      }
      let ready = try await ready(test)
      #expect(ready["checks"] != nil && ready["checks"]?["http.trusted_proxies"] == nil)
    }
  }

  @Test func `A proxy that does not say who calls is shown, and doctor reads it`() async throws {
    let log = LogRecorder()
    try await TestService.run(logger: log.logger) { test in
      for _ in 0..<3 { _ = try await call(test, from: "unknown") }
      let lines = log.lines.filter { $0.message.hasPrefix("X-Forwarded-For cannot be read") }
      #expect(lines.count == 1 && lines.first?.level == .warning)
      let ready = try await ready(test)
      let check = ready["checks"]?["http.trusted_proxies"]
      #expect(check?["status"]?.string == "failing" && check?["meaning"]?.string?.contains("unknown") == true)
      let doctor = Doctor(
        test.configuration, providerTime: { nil },
        running: { ReportedState(["health": ready, "settings": [:]]) }, mounts: "")
      let finding = try #require(await doctor.runningFindings().first)
      #expect(finding.check == "http.trusted_proxies" && !finding.isGood)
      #expect(finding.detail.contains("unknown") && finding.advice?.isEmpty == false)
      let other = Doctor(test.configuration, providerTime: { nil }, mounts: "")
      #expect(await other.runningFindings().isEmpty)
    }
  }
}
