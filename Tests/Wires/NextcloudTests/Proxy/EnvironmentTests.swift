import ProviderSimulator
import Providers
import TestSupport
import Testing

@testable import NextcloudProxy

@Suite("A Nextcloud app that is run from Xcode")
struct EnvironmentTests {
  private func environment(_ bench: ProxyBench) async throws -> Int64 {
    try await bench.number("SELECT COALESCE(environment, 0) FROM registrations WHERE wire = 3")
  }

  private func asked(_ bench: ProxyBench) -> [APNsCredential.Environment?] {
    bench.simulator.deliveries(includingRefused: true).map(\.environment)
  }

  @Test
  func `is found in Apple's sandbox, for notifications and calls, until it has another token`() async throws {
    try await ProxyBench.test({ $0.hasSandbox = true }) { bench in
      let phone = ProxyPhone(.talkIOS)
      for token in phone.token.lowercased().split(separator: " ") {
        bench.simulator.setToken(
          String(token), TokenRule(status: 400, reason: "BadDeviceToken", environment: .production))
      }
      let answer = try await phone.register(at: bench)
      #expect(answer.status == 200)
      #expect(try await bench.notify([phone.entry()]).failed == 0)
      #expect(asked(bench) == [.production, .sandbox])
      #expect(try await environment(bench) == 2)
      #expect(try await bench.notify([phone.entry("voip")]).failed == 0)
      #expect(asked(bench) == [.production, .sandbox, .sandbox])
      // The same token again says nothing new.
      #expect(try await phone.register(at: bench).status == 200)
      #expect(try await environment(bench) == 2)
      var renewed = phone
      renewed.token = ProxyPhone.App.talkIOS.token
      let again = try await renewed.register(at: bench)
      #expect(again.status == 200)
      #expect(try await environment(bench) == 0)
      let entry = renewed.entry()
      #expect(try await bench.notify([entry]).failed == 0)
      #expect(asked(bench).last == .production)
    }
  }
}
