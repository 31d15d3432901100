import Foundation
import HTTP
import ProviderSimulator
import Providers
import Sealing
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// A chat server with two apps, before two bouncers that are killed in turn.
  @Suite struct UpstreamTests {
    @Test func `Nothing that was answered is lost between two bouncers, whichever is killed`() async throws {
      let seed =
        ProcessInfo.processInfo.environment["CHAOS_SEED"].flatMap { UInt64($0) } ?? .random(in: 0 ... .max)
      print("CHAOS_SEED=\(seed)")
      try await Stage.test { theirs in
        try await Stage.test { ours in
          let added = try await theirs.place.run(
            "server", "add", "--hostname", "company.example.org", "--org-id",
            ours.credentials["org_id"]?.string ?? "", "--org-key", ours.credentials["org_key"]?.string ?? "")
          #expect(added.status == 0, "\(added.errors)")
          try await Self.run(ours, theirs, SplitMix(seed: seed))
        }
      }
    }

    private static func run(_ ours: Stage, _ theirs: Stage, _ random: SplitMix) async throws {
      var random = random
      let (own, store) = (Ledger(), Ledger())
      let arrivals = (own: Arrivals(at: ours.simulator), store: Arrivals(at: theirs.simulator))
      func cut() {
        arrivals.own.cut()
        arrivals.store.cut()
      }
      for round in 0..<6 {
        let moment = Duration.milliseconds(.random(in: 100...1200, using: &random))
        try await serve(theirs) { theirRunning in
          try await serve(ours, before: theirRunning) { running, server in
            cut()
            await withThrowingTaskGroup(of: Void.self) { group in
              for _ in 0..<3 {
                group.addTask { await load(own, ours.bouncerKey, server) }
                group.addTask { await load(store, theirs.bouncerKey, server) }
              }
              try? await Task.sleep(for: moment)
              await (round.isMultiple(of: 2) ? running : theirRunning).end(SIGKILL, status: SIGKILL)
              cut()
              // What goes on without the other one is promised, too.
              if round % 2 == 1 { try? await Task.sleep(for: moment) }
              group.cancelAll()
            }
            if round % 2 == 1 { await running.end(SIGKILL, status: SIGKILL) }
            cut()
          }
        }
      }
      let promised = (own: own.now, store: store.now)
      print(
        """
        promised: \(promised.own.marks.count) notifications of ours, \(promised.store.marks.count) of theirs; \
        \(promised.own.phones.count) and \(promised.store.phones.count) registrations
        """)
      #expect(!promised.own.marks.isEmpty && !promised.store.marks.isEmpty)
      #expect(promised.own.deletions == 0 && promised.store.deletions == 0)
      // What was under way at a kill is taken over a minute and a quarter later, and what the killed one may have is sent again
      // after an hour at most.
      try await serve(theirs, "--clock-offset", "4200s") { theirRunning in
        try await serve(ours, before: theirRunning, "--clock-offset", "4200s") { running, server in
          for (ledger, phones) in [(own, promised.own.groups), (store, promised.store.groups)] {
            for some in phones { ledger.add(try await server.mark(some)) }
            #expect(ledger.now.deletions == 0)
          }
          for (ledger, arrivals) in [(own, arrivals.own), (store, arrivals.store)] {
            var missing = ledger.now.marks
            await eventually("every notification") {
              missing = arrivals.missing(of: missing)
              return missing.isEmpty
            }
            #expect(missing.isEmpty, "\(missing.count) of \(ledger.now.marks.count) never arrived")
            print("sent more than once: \(arrivals.twice)")
            #expect(arrivals.unexplained.isEmpty, "twice, and nothing had been cut off")
          }
          #expect(arrivals.own.missing(of: store.now.marks) == store.now.marks, "ours sent what is theirs")
          await running.end()
          await theirRunning.end()
        }
      }
    }

    private static func serve(_ theirs: Stage, _ more: String..., test: (Running) async throws -> Void)
      async throws
    {
      try await theirs.serve(["--log.level", "notice"] + more) { running, _ in try await test(running) }
    }

    /// Runs the company's bouncer before the vendor's.
    private static func serve(
      _ ours: Stage, before theirs: Running, _ more: String...,
      test: (Running, ChatServer) async throws -> Void
    ) async throws {
      let upstream = ["--upstream.url", theirs.url("public")]
      let enabled = try await ours.place.run(["server", "upstream", "enable", "chat.example.org"] + upstream)
      #expect(enabled.status == 0, "\(enabled.errors)")
      try await ours.serve(
        ["--delivery.deadline", "1s", "--log.level", "notice"] + upstream + more, test: test)
    }

    /// Registers and notifies until there is no answer any more.
    private static func load(_ ledger: Ledger, _ key: String, _ server: ChatServer) async {
      while !Task.isCancelled {
        do {
          let phones = ledger.phones(.random(in: 1...4))
          if phones.isEmpty || Int.random(in: 0..<5) == 0 {
            let phone = Stage.phone(.random() ? .apns : .fcm)
            try await server.register(phone, bouncerKey: key)
            ledger.add(phone)
          } else {
            ledger.add(try await server.mark(phones))
          }
        } catch is JSONService.Refusal {
          ledger.addRefusal()
        } catch {
          return
        }
      }
    }
  }
}

@Suite(.place(begun: true)) struct UpstreamCommandTests {
  private let place = Fixture<Workplace>.current
  private let url = ["--set", "upstream.url=https://push.example.com"]

  @Test func `A second app is switched on, shown and switched off`() async throws {
    #expect(try await place.run("server", "add", "--hostname", "a.example.org").status == 0)
    let unset = try await place.run("server", "upstream", "enable", "a.example.org")
    #expect(unset.status == 1 && unset.errors.contains("upstream.url is not set"), "\(unset.errors)")
    let on = try await place.run(["server", "upstream", "enable", "a.example.org", "--json"] + url)
    #expect(try on.json["enabled"] == true, "\(on.errors)")
    let shown = try await place.run(["server", "upstream", "show", "a.example.org", "--json"] + url).json
    #expect(shown["enabled"] == true && shown["has_key"] == false && shown["host"] == "push.example.com")
    #expect(shown["registrations"] == 0 && shown["last_report_at"] == .null)
    #expect(shown["last_report_failure"] == .null && shown["sending_refused_at"] == .null)
    let text = try await place.run(["server", "show", "a.example.org"] + url).output
    #expect(text.contains("Upstream bouncer push.example.com\n"), "\(text)")
    #expect(text.contains("The server's key is not known yet"))
    #expect(try await place.run("server", "show", "a.example.org").output.contains("upstream.url is not set"))
    let off = try await place.run(["server", "upstream", "disable", "a.example.org", "--json"] + url)
    #expect(try off.json["enabled"] == false && off.json["ended"] == 0)
    #expect(
      try await place.run("server", "upstream", "show", "a.example.org").output.contains(
        "nothing is passed on"))
    #expect(try await place.run(["server", "upstream", "enable", "b.example.org"] + url).status == 1)
  }

  @Test(arguments: ["http://push.example.com", "ftp://127.0.0.1", "push.example.com", "http://10.0.0.1:80"])
  func `Keys go nowhere in clear`(_ url: String) async throws {
    let list = try await place.run("server", "list", "--set", "upstream.url=\(url)")
    #expect(list.status == 1)
    #expect(list.errors.contains("upstream.url must be a URL with https:// and a host"), "\(list.errors)")
  }

  @Test func `Doctor asks with each server's key and sends nothing`() async throws {
    try await OthersHost.runInClear { host in
      let place = Fixture<Workplace>.current
      let added = try await place.run("server", "add", "--hostname", "a.example.org", "--json").json
      let url = ["--set", "upstream.url=\(host.url)"]
      func findings() async throws -> [JSON] {
        try await place.run(["doctor", "--json"] + url).json["findings"]?.elements.filter {
          $0["check"]?.string?.hasPrefix("upstream") == true
        } ?? []
      }
      #expect(try await findings().first?["detail"]?.string?.hasPrefix("no chat server") == true)
      #expect(try await place.run(["server", "upstream", "enable", "a.example.org"] + url).status == 0)
      #expect(try await findings().first?["status"] == "warning")
      #expect(host.seen.isEmpty)
      try await place.serve(["--upstream.url", host.url]) { running in
        let answer = try await running.call(
          path: "/api/v1/remotes/server/analytics/status",
          user: (added["org_id"]?.string ?? "", added["org_key"]?.string ?? ""))
        #expect(answer.status == 200)
        await running.end()
      }
      host.reply(401, #"{"result":"error","msg":"wrong key","code":"UNAUTHORIZED"}"#)
      let wrong = try await findings().first
      #expect(wrong?["status"] == "fault")
      #expect(
        wrong?["detail"]?.string?.hasPrefix("a.example.org: The upstream bouncer") == true,
        "\(wrong?.text ?? "")")
      host.reply(200, #"{"result":"success","msg":"","last_realm_count_id":0}"#)
      #expect(try await findings().first?["status"] == "ok")
      #expect(Set(host.seen.map(\.path)) == ["/api/v1/remotes/server/analytics/status"])
      for (status, body) in [(200, "<html>"), (200, "{}"), (404, "<html>"), (503, "{}")] {
        host.reply(status, body)
        let finding = try await findings().first
        #expect(finding?["status"] == "fault")
        #expect(finding?["detail"]?.string?.contains("status \(status)") == true, "\(finding?.text ?? "")")
      }
    }
  }
}
