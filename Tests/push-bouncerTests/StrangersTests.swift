import AsyncHTTPClient
import Foundation
import HTTP
import ProviderSimulator
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// What strangers have been seen to try, all at once and from many addresses, while a Zulip server, a Nextcloud server
  /// and phones without Google go on being notified: each call is answered, and all arrives, once. How soon, beside
  /// strangers' devices, is in FairnessTests. `STRANGERS_SECONDS` says for how long (a minute, say).
  @Suite struct StrangersTests {
    private static let seconds = Double(ProcessInfo.processInfo.environment["STRANGERS_SECONDS"] ?? "") ?? 8

    @Test func `Their minute`() async throws {
      try await Stage.test { stage in
        try await stage.serve(
          "--http.trusted_proxies", "127.0.0.1", "--http.max_connections", "400", "--nextcloud.enabled",
          "true", "--nextcloud.allow_local_proxies", "true", "--backend.token", Stage.backendToken,
          "--log.level", "notice", "--bouncer.allowed_hostnames", "*.example.net"
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
          let strangers = Strangers(running)
          await withTaskGroup(of: Void.self) { group in
            for deed in strangers.deeds {
              group.addTask {
                while !Task.isCancelled {
                  await deed()
                  try? await Task.sleep(for: .milliseconds(50))
                }
              }
            }
            await withTaskGroup(of: Void.self) { group in
              for (_, post, pause) in friends {
                group.addTask {
                  await post.send(Int(Self.seconds * 1000) / pause, every: .milliseconds(pause))
                }
              }
            }
            group.cancelAll()
          }
          await strangers.leave()
          for (name, post, _) in friends {
            // What was under way on a connection that broke waits for its lease.
            let delays = await post.delays(until: .now + longestWait)
            print("\(name), among \(strangers.calls) calls of strangers: \(delays)")
            #expect(post.lost == [] && post.twice == 0, "\(name)")
            #expect(delays.isComplete && delays.sent > 20, "\(name)")
          }
          #expect(strangers.calls > 50)
        }
      }
    }

    /// A Nextcloud server that is part of the program, with a phone.
    private func nextcloud(_ stage: Stage, _ running: Running) async throws -> Post {
      let host = HostApplication(
        service: running.url("public"), token: Stage.backendToken, realm: UUID().uuidString.lowercased(),
        client: HTTPClient.shared)
      try await host.putRealm()
      _ = try await host.putUser(10, email: "alice@example.org")
      var alice = NextcloudPhone(
        NextcloudAccount(
          server: running.url("public"), user: "alice", password: try await host.addAppPassword(10),
          client: HTTPClient.shared))
      try await alice.register()
      return Post(stage.simulator) { [alice] delivery in
        guard delivery.token == alice.token.lowercased() else { return nil }
        return (try? alice.open(JSON.parse(Array(delivery.payload))))?["subject"]?.string
      } send: { _, text in
        let answer = try await host.notify(10, chat: text)
        guard answer["devices"]?.integer == 1 else { throw DemoError(answer.text) }
      }
    }
  }
}
