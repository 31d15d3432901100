import AsyncHTTPClient
import Foundation
import HTTP
import ProviderSimulator
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// Everything that strangers have been seen to try, all at once, from many addresses and many servers, while a Zulip
  /// server, a Nextcloud server and phones without Google go on being notified: theirs arrives, and about as soon as ever.
  /// `STRANGERS_SECONDS` says for how long (a minute, say); a few seconds otherwise.
  @Suite struct StrangersTests {
    private static let seconds = Double(ProcessInfo.processInfo.environment["STRANGERS_SECONDS"] ?? "") ?? 8
    private static let token = "c41f1b7ae0d94c7bb9d64a3f1b0a7e5d"

    @Test func `Their minute`() async throws {
      try await Stage.test { stage in
        try await stage.serve(
          "--http.trusted_proxies", "127.0.0.1", "--http.max_connections", "400", "--nextcloud.enabled",
          "true",
          "--nextcloud.allow_local_proxies", "true", "--backend.token", Self.token, "--log.level", "notice",
          "--bouncer.allowed_hostnames", "*.example.net"
        ) { running, server in
          let friends = [
            ("Zulip", Post(stage, server, to: try await stage.phones(6, at: server)), 100),
            (
              "Web Push", Post(stage, server, to: try await stage.subscribers(3, at: server, of: running)),
              150
            ),
            // A device gets 240 a minute at once: more would be late, strangers or not.
            ("Nextcloud", try await nextcloud(stage, running), 300),
          ]
          let strangers = try await Strangers(stage, running)
          let quiet = await send(friends)
          let beset = try await withThrowingTaskGroup(of: Void.self) { group in
            for deed in strangers.deeds {
              group.addTask {
                while !Task.isCancelled {
                  await deed()
                  try? await Task.sleep(for: .milliseconds(50))
                }
              }
            }
            defer { group.cancelAll() }
            return await send(friends)
          }
          await strangers.leave()
          print("among \(strangers.calls) calls of strangers:")
          for ((name, post, _), (quiet, beset)) in zip(friends, zip(quiet, beset)) {
            print("\(name): in quiet \(quiet), beset \(beset)")
            #expect(post.lost == [], "\(name)")
            #expect(post.twice == 0, "\(name)")
            #expect(quiet.isComplete && beset.isComplete && beset.sent > 20, "\(name)")
            // Strangers and friends share this process and its cores, so that a busy machine makes both slower; in quiet
            // it tells how much. Alone on two cores a friend waits 0.2 s at most; the rest is for a machine that is busy.
            #expect(
              beset.p99 ?? .seconds(60) <= max((quiet.p99 ?? .zero) * 20, .seconds(6)), "\(name)")
          }
          #expect(strangers.calls > 50)
        }
      }
    }

    /// All of them send, each at its pace.
    private func send(_ friends: [(name: String, post: Post, milliseconds: Int)]) async -> [Post.Delays] {
      await withTaskGroup(of: Void.self) { group in
        for (_, post, pause) in friends {
          group.addTask {
            await post.send(Int(Self.seconds * 1000) / pause, every: .milliseconds(pause))
          }
        }
      }
      let end = ContinuousClock.now + .seconds(40)
      var delays: [Post.Delays] = []
      for (_, post, _) in friends { delays.append(await post.delays(until: end)) }
      return delays
    }

    /// A Nextcloud server that is part of the program, with a phone.
    private func nextcloud(_ stage: Stage, _ running: Running) async throws -> Post {
      let url = running.url("public")
      let host = HostApplication(
        service: url, token: Self.token, realm: UUID().uuidString.lowercased(), client: HTTPClient.shared)
      try await host.putRealm(name: "Example", url: "https://cloud.example.org")
      _ = try await host.putUser(10, email: "alice@example.org")
      let password = try await host.addAppPassword(10, name: "Talk")
      var alice = NextcloudPhone(
        server: url, login: ("alice", password), proxy: url, client: HTTPClient.shared)
      try await alice.register()
      return Post(stage.simulator) { [alice] delivery in
        guard delivery.token == alice.token.lowercased() else { return nil }
        return (try? JSON.parse(Array(delivery.payload))).flatMap(alice.open)?["subject"]?.string
      } send: { _, text in
        let answer = try await host.notify(
          10,
          parts: [
            "nextcloud": ["nid": 1, "app": "spreed", "subject": .string(text), "type": "chat", "id": "x"]
          ])
        guard answer["nextcloud"]?["devices"]?.integer == 1 else { throw DemoError(answer.text) }
      }
    }
  }
}
