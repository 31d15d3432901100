import Foundation
import HTTP
import ProviderSimulator
import Providers
import Sealing
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// Tests how the operator handles held reports of dead tokens.
  @Suite struct RoutesCommandTests {
    /// Wherever the command is named, that stands beside it.
    private static let condition =
      "push-bouncer routes trust fcm:default only if you know why so many are dead"

    @Test func `What is held back outlives a kill, and ends at the operator's word`() async throws {
      try await Stage.test { stage in
        var phones: [VirtualPhone] = []
        // However slow this machine is, every answer is waited for.
        try await stage.serve("--delivery.deadline", "60s") { running, server in
          for _ in 0..<60 {
            phones.append(Stage.phone(.fcm))
            try await stage.register(phones[phones.count - 1], at: server)
          }
          for phone in phones { stage.simulator.setToken(phone.token, TokenRule(status: 404)) }
          #expect(try await server.mark(phones).deleted.count == 20)
          try await check(running, held: 40)
          #expect(running.logged.contains(Self.condition))
          await running.end(SIGKILL, status: SIGKILL)
        }
        let doctor = try await stage.place.run(
          "doctor", "--json", "--providers.ca_file", "Keys/ca.pem", "--apns.endpoint",
          stage.simulator.apnsEndpoint, "--fcm.endpoint", stage.simulator.fcmEndpoint)
        #expect(doctor.output.contains(Self.condition))
        // Without a service, too.
        #expect(try await stage.place.run("routes", "list").output.contains(Self.condition))
        let shown = try await stage.place.run("device", "find", "chat.example.org")
        #expect(!shown.output.contains("the registration ends") && shown.output.contains("failing"))
        try await stage.serve("--delivery.deadline", "60s") { running, server in
          try await check(running, held: 40)
          let wrong = try await stage.place.run("routes", "trust", "apns:simulator")
          #expect(wrong.status == 1)
          #expect(wrong.errors.contains("fcm:default (40)"))
          let list = try await stage.place.run(
            "routes", "list", "--json", "--admin.port", "\(running.port(of: "admin") ?? 0)")
          let routes = try list.json["routes"]?.elements ?? []
          #expect(routes.map { $0["route"]?.string } == ["apns:simulator", "fcm:default", "webpush"])
          #expect(routes.map { $0["held_deletions"]?.integer } == [0, 40, 0])
          #expect(routes.map { $0["status"]?.string } == ["unknown", "failing", "unknown"])

          let trusted = try await stage.place.run("routes", "trust", "fcm:default", "--json")
          #expect(try trusted.json["ended"]?.integer == 40)
          try await check(running, held: nil)
          // Their server is told.
          #expect(try await server.mark(phones).deleted.count == 60)
          #expect(try await stage.place.run("routes", "trust", "default").status == 1)
        }
      }
    }

    /// Waits until `/readyz` and `/metrics` tell that so many are held back, and the route's state with it.
    private func check(_ running: Running, held: Int64?) async throws {
      try await eventually("\(held ?? 0) held") {
        let check = try await running.check("fcm:default")
        let metrics = try await running.call("admin", path: "/metrics").text
        let gauge = metrics.split(separator: "\n").first { $0.hasPrefix("push_bouncer_held_deletions{") }
        return check["held_deletions"]?.integer == held
          && (check["status"]?.string == "failing") == (held != nil)
          && gauge?.split(separator: " ").last.flatMap { Int64($0) } == held
      }
    }
  }
}
