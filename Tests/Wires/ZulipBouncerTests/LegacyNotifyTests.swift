import Foundation
import HTTP
import HTTPTypes
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@Suite("push/notify")
struct LegacyNotifyTests {
  private func totals(_ answer: Answer) -> [Int64?] {
    [answer.json["total_android_devices"]?.integer, answer.json["total_apple_devices"]?.integer]
  }

  @Test(arguments: PushToken.Kind.allCases, [false, true])
  func `calls a phone that moves to encryption meanwhile missing only if it does not have the notification`(
    _ kind: PushToken.Kind, isRefused: Bool
  ) async throws {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let user = OldUser(id: 10)
      _ = try await bouncer.post("push/register", user.register("c0ffee", kind, realm: realm), as: server)
      var faults = simulated.simulator.faults
      faults.fcm.latencyMilliseconds = 1500
      faults.apns.latencyMilliseconds = 1500
      await simulated.simulator.setFaults(faults)
      if isRefused {
        simulated.simulator.setToken(
          "c0ffee",
          TokenRule(status: kind == .apns ? 413 : 400, reason: kind == .apns ? nil : "INVALID_ARGUMENT"))
      }
      func notify(_ text: String) async throws -> [JSON?] {
        let tokens = [kind == .apns ? "C0FFEE" : "c0ffee"]
        let json = user.notification(
          text, realm: realm, android: kind == .fcm ? tokens : [], apple: kind == .apns ? tokens : [])
        let answer = try await bouncer.post("push/notify", json: json, as: server)
        #expect(answer.isSuccess, "\(answer.text)")
        let name = kind == .apns ? "apple" : "android"
        return [answer.json["total_\(name)_devices"], answer.json["deleted_devices"]?["\(name)_devices"]]
      }
      async let first = notify("first")
      await eventually("it is under way") {
        simulated.simulator.deliveries(includingRefused: true).count == 1
      }
      let registration = kind == .apns ? bouncer.apns("c0ffee") : bouncer.fcm("c0ffee")
      let form = try bouncer.registerForm(realm: realm, registration)
      #expect(try await bouncer.post("push/e2ee/register", form, as: server).isSuccess)
      // Its server learns of it with the next one, which does not reach the old app.
      let missing: JSON = [.string(kind == .apns ? "C0FFEE" : "c0ffee")]
      #expect(try await notify("second") == [0, missing])
      #expect(try await first == [1, isRefused ? missing : []])
      #expect(simulated.simulator.deliveries(includingRefused: true).count == 1)
    }
  }

  @Test
  func `names what a provider has declared dead, for every server that has the token and that app`()
    async throws
  {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let other = try await bouncer.server("other.example.org")
      let user = OldUser(id: 10)
      _ = try await bouncer.post("push/register", user.register("fcm-gone", .fcm), as: other)
      _ = try await bouncer.post("push/register", user.register("c0ffee", .apns), as: other)
      // The same token of another app is another registration.
      var otherApp = user.register("C0FFEE", .apns)
      otherApp[otherApp.firstIndex { $0.0 == "ios_app_id" } ?? 0].1 = "other.app"
      let third = try await bouncer.server("third.example.org")
      _ = try await bouncer.post("push/register", otherApp, as: third)
      bouncer.clock.advance(1)
      for (token, kind) in [("fcm-gone", PushToken.Kind.fcm), ("c0ffee", .apns), ("beef01", .apns)] {
        _ = try await bouncer.post("push/register", user.register(token, kind), as: server)
      }
      simulated.simulator.setToken("fcm-gone", TokenRule(status: 404, reason: "UNREGISTERED"))
      simulated.simulator.setToken("c0ffee", TokenRule(status: 410, reason: "Unregistered", timestamp: .none))
      let answer = try await bouncer.post(
        "push/notify", json: user.notification("x", android: ["fcm-gone"], apple: ["C0FFEE", "beef01"]),
        as: server)
      #expect(totals(answer) == [1, 2])
      #expect(
        answer.json["deleted_devices"]
          == ["android_devices": ["fcm-gone"], "apple_devices": ["C0FFEE"]])
      let left = try await bouncer.rows(
        """
        SELECT s.hostname, l.target FROM registrations l
        JOIN remote_servers s ON s.id = l.server_id WHERE wire = 2 ORDER BY s.hostname
        """)
      #expect(
        left == [
          [.text("chat.example.org"), .text(Simulated.topic)],
          [.text("third.example.org"), .text("other.app")],
        ])
    }
  }
}
