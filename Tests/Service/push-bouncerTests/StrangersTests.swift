import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import ProviderSimulator
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// What strangers have been seen to try, all at once and from many addresses, or servers that want all that there is, while
  /// a Zulip server, a Nextcloud server and phones without Google go on being notified: each call is answered, and all arrives,
  /// once, about as soon as in quiet, and the memory stays. `STRANGERS_SECONDS` says for how long (a minute, say).
  @Suite struct StrangersTests {
    private static let seconds = Double(ProcessInfo.processInfo.environment["STRANGERS_SECONDS"] ?? "") ?? 8

    enum Hostile: String, CaseIterable, CustomTestStringConvertible {
      case strangers, servers

      var testDescription: String { rawValue }

      /// How much more memory there may be, in MiB: bodies take 64, and strangers hold hundreds of connections.
      var memory: Int { self == .strangers ? 250 : 150 }
    }

    @Test(arguments: Hostile.allCases) func `Their minute`(_ hostile: Hostile) async throws {
      try await OthersHost.runInClear { vendor in
        vendor.reply(200, Self.nothingSent)
        try await Stage.test { stage in
          try await stage.serve(
            "--http.trusted_proxies", "127.0.0.1", "--http.max_connections", "400", "--nextcloud.enabled",
            "true", "--nextcloud.allow_local_proxies", "true", "--backend.token", Stage.backendToken,
            "--log.level", "notice", "--bouncer.allowed_hostnames", "*.example.net", "--upstream.url",
            vendor.url
          ) { running, server in
            let friends: [Friend] = [
              ("Zulip", Post(stage, server, to: try await stage.phones(6, at: server)), 100),
              (
                "Web Push", Post(stage, server, to: try await stage.subscribers(3, at: server, of: running)),
                150
              ),
              // A device gets 60 at once and 80 a minute: more would be late, strangers or not.
              ("Nextcloud", try await nextcloud(stage, running), Self.seconds < 10 ? 300 : 800),
            ]
            let quiet = await Self.send(friends)
            let memory = try running.memory("VmHWM")
            let beset =
              switch hostile {
              case .strangers: await beset(friends, running)
              case .servers: try await beset(friends, stage, running, vendor)
              }
            let more = (try running.memory("VmHWM") - memory) >> 10
            print("\(more) MiB more among \(hostile)")
            for ((name, post, _), (before, delays)) in zip(friends, zip(quiet, beset)) {
              print("\(name): in quiet \(before); beset \(delays)")
              #expect(post.lost == [] && post.twice == 0, "\(name): \(post.lost), twice \(post.twice)")
              #expect(before.isComplete && delays.isComplete && delays.sent > 20, "\(name)")
              let (usual, p99) = (before.p99 ?? .zero, delays.p99 ?? longestWait)
              // A debug build among other suites has little to deal out. Without turns it was half a minute where quiet
              // had milliseconds.
              #expect(p99 <= max(usual * 10, .seconds(15)), "\(name)")
            }
            #expect(more < hostile.memory)
          }
        }
      }
    }

    private func beset(_ friends: [Friend], _ running: Running) async -> [Post.Delays] {
      let strangers = Strangers(running)
      let delays = await Self.send(friends, among: strangers.deeds)
      await strangers.leave()
      #expect(strangers.calls > 50)
      return delays
    }

    private func beset(
      _ friends: [Friend], _ stage: Stage, _ running: Running, _ vendor: OthersHost
    ) async throws -> [Post.Delays] {
      let upstream = ["--upstream.url", vendor.url]
      let guesser = try await stage.anotherServer("guess.example.net", at: running)
      let enabled = try await stage.place.run(
        ["server", "upstream", "enable", "guess.example.net"] + upstream)
      #expect(enabled.status == 0, "\(enabled.errors)")
      let greedy = try await Greedy(stage, running, guesser: guesser)
      let began = ContinuousClock.now
      let delays = await Self.send(friends, among: greedy.deeds)
      let seconds = (ContinuousClock.now - began) / .seconds(1)
      await greedy.leave()
      let shown = try await stage.place.run(
        ["server", "upstream", "show", "guess.example.net", "--json"] + upstream)
      let rows = try shown.json["registrations"]?.integer ?? 0
      print("\(greedy.answers), \(rows) rows by guessing in \(seconds) s")
      // A debug build has read no long report before that.
      let taken = ["huge 200", "guess 200", "status 200"] + (Self.seconds < 30 ? [] : ["report 200"])
      for taken in taken {
        #expect(greedy.answers[taken] ?? 0 > 0, "\(taken)")
      }
      return delays
    }

    /// What the vendor's bouncer says of devices that it does not know.
    private static let nothingSent = """
      {"result":"success","msg":"","apple_successfully_sent_count":0,"android_successfully_sent_count":0,\
      "delete_token_ids":[],"realm_push_status":{"can_push":true,"expected_end_timestamp":null}}
      """

    private typealias Friend = (name: String, post: Post, pause: Int)

    /// Has each of them send at its pace, among what others do all the time.
    ///
    /// - Returns: how long what it sent took.
    private static func send(
      _ friends: [Friend], among deeds: [@Sendable () async -> Void] = []
    ) async -> [Post.Delays] {
      await withTaskGroup(of: Void.self) { group in
        for deed in deeds {
          group.addTask {
            while !Task.isCancelled {
              await deed()
              try? await Task.sleep(for: .milliseconds(50))
            }
          }
        }
        await withTaskGroup(of: Void.self) { group in
          for (_, post, pause) in friends {
            group.addTask { await post.send(Int(seconds * 1000) / pause, every: .milliseconds(pause)) }
          }
        }
        group.cancelAll()
      }
      var delays: [Post.Delays] = []
      // What was under way on a connection that broke waits for its lease.
      for (_, post, _) in friends { delays.append(await post.delays(until: .now + longestWait)) }
      return delays
    }

    /// A Nextcloud server that is part of the program, with a phone.
    private func nextcloud(_ stage: Stage, _ running: Running) async throws -> Post {
      var host = HostApplication(
        service: running.url("public"), token: Stage.backendToken, realm: UUID().uuidString.lowercased(),
        client: HTTPClient.shared)
      host.backend.timeout = TimeAmount(longestWait)
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
      } send: { [host] _, text in
        let answer = try await host.notify(10, chat: text)
        guard answer["devices"]?.integer == 1 else { throw DemoError(answer.text) }
      }
    }
  }
}
