import Foundation
import HTTP
import ProviderSimulator
import Providers
import Sealing
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// Tests how the operator lists and drops the notifications that wait for a provider.
  @Suite struct OutboxCommandTests {
    @Test func `What waits is listed and dropped, while the service runs`() async throws {
      try await Stage.test { stage in
        try await stage.serve("--delivery.deadline", "200ms") { running, server in
          let phones = [Stage.phone(.fcm), Stage.phone(.apns)]
          for phone in phones { try await stage.register(phone, at: server) }
          for phone in phones {
            stage.simulator.setToken(phone.token, TokenRule(status: 503))
          }
          for phone in phones { _ = try await server.mark([phone]) }
          try await eventually("two that wait") { try await waiting(stage) == 2 }

          let text = try await stage.place.run("outbox").output
          #expect(text.hasPrefix("2 notifications wait, the oldest for "))
          #expect(
            text.contains("apns:simulator") && text.contains("fcm:default") && text.contains("e2ee"))
          for phone in phones { #expect(!text.contains(phone.token)) }
          let groups = try await stage.place.run("outbox", "list", "--json").json["groups"]?.elements ?? []
          #expect(groups.map { $0["route"]?.string } == ["apns:simulator", "fcm:default"])
          #expect(groups.map { $0["kind"]?.string } == ["e2ee", "e2ee"])

          let unasked = try await stage.place.run("outbox", "drop", "--all")
          #expect(
            unasked.status == 1 && unasked.errors.contains("this would drop 2 notifications: add --yes"))
          for arguments in [
            ["--route", "apns:other"], ["--kind", "legacy"], ["--older-than", "1h"],
            ["--route", "apns:simulator", "--kind", "nextcloud"], ["--kind", "nextcloud_webpush"],
            ["--kind", "webpush_gateway"],
          ] {
            let none = try await stage.place.run(["outbox", "drop", "--yes"] + arguments)
            #expect(none.status == 1 && none.errors.contains("no such notification waits"))
          }
          for arguments in [
            [], ["--all", "--kind", "legacy"], ["--older-than", "long"], ["--kind", "odd"],
          ] {
            #expect(try await stage.place.run(["outbox", "drop", "--yes"] + arguments).status == 64)
          }
          let dropped = try await stage.place.run("outbox", "drop", "--route", "apns:simulator", "--yes")
          #expect(dropped.status == 0 && dropped.output == "1 notification was dropped\n")
          #expect(try await waiting(stage) == 1)
          let rest = try await stage.place.run("outbox", "drop", "--all", "--yes", "--json")
          #expect(try rest.json["dropped"] == 1)
          #expect(try await stage.place.run("outbox").output == "nothing waits\n")

          // The sender has not been disturbed: what comes now arrives, what was dropped does not.
          for phone in phones { stage.simulator.setToken(phone.token, nil) }
          let promise = try await server.mark(phones)
          await stage.expectArrival(of: Set(promise.marks))
          #expect(!running.logged.contains("the outbox could not be processed"))
        }
      }
    }

    @Test func `A chat server over its pace is named, with how much waits for that`() async throws {
      try await Stage.test { stage in
        try await stage.serve("--bouncer.notifications_per_server", "2/1h") { running, server in
          let phone = Stage.phone(.fcm)
          try await stage.register(phone, at: server)
          for _ in 0..<5 { _ = try await server.mark([phone]) }
          let listing = try await stage.place.run("outbox", "list")
          #expect(listing.output.contains("chat.example.org: 3 notifications wait"))
          let json = try await stage.place.run("outbox", "list", "--json").json["servers_over_pace"]?.elements
          #expect(json?.map { $0["hostname"]?.string } == ["chat.example.org"])
          #expect(json?.map { $0["waiting"]?.integer } == [3] && json?.first?["org_id"]?.string == server.id)
          let list = try await stage.place.run("server", "list", "--json").json["servers"]?.elements
          let counts = list?.compactMap { server in
            server["waiting_over_pace"]?.integer.map { (server["hostname"]?.string, $0) }
          }
          #expect(counts?.filter { $0.1 > 0 }.map(\.0) == ["chat.example.org"])
          #expect(counts?.map(\.1).max() == 3)
          let show = try await stage.place.run("server", "show", "chat.example.org")
          #expect(show.output.contains("3 notifications wait (bouncer.notifications_per_server)"))
          let page = try await running.call("admin", path: "/admin").text
          #expect(page.contains("over its pace"))
          let place = try #require(page.firstMatch(of: /(\/admin\/servers\/[0-9]+)">chat\.example\.org/))
          let own = try await running.call("admin", path: "\(place.output.1)").text
          #expect(own.contains("3 notifications wait (bouncer.notifications_per_server)"))
        }
      }
    }

    private func waiting(_ stage: Stage) async throws -> Int64? {
      try await stage.place.run("outbox", "list", "--json").json["waiting"]?.integer
    }
  }
}
