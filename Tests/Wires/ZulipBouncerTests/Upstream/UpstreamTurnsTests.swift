import Foundation
import HTTP
import HTTPTypes
import Registrations
import Sealing
import Server
import Synchronization
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

/// What is told to the upstream bouncer later, of several chat servers.
@Suite("At the upstream bouncer")
struct UpstreamTurnsTests {
  /// What one chat server's calls are answered: nothing, until the door opens.
  private final class Hanging: Sendable {
    private struct State {
      var isOpen = false
      var waiting: [CheckedContinuation<Void, Never>] = []
      var calls: [String] = []
      var most = 0
    }

    private let state = Mutex(State())
    let authorization: String
    let endpoint: String

    init(_ server: Credentials, at endpoint: String) {
      (authorization, self.endpoint) = (server.header, endpoint)
    }

    /// How many hang.
    var hanging: Int { state.withLock(\.waiting.count) }
    var most: Int { state.withLock(\.most) }
    /// Whose calls there were of an endpoint.
    func calls(_ endpoint: String, of server: Credentials) -> Int {
      state.withLock { $0.calls.count { $0 == "\(endpoint) \(server.header)" } }
    }

    func answer(_ call: OthersHost.Call) async -> OthersHost.Call {
      let name = String(call.path.dropFirst("/api/v1/remotes/".count))
      let shown = call.headers[.authorization] ?? ""
      let hangs = state.withLock { state in
        state.calls.append("\(name) \(shown)")
        return shown == authorization && name == endpoint && !state.isOpen
      }
      if hangs {
        await withCheckedContinuation { continuation in
          let isOpen = state.withLock { state in
            if !state.isOpen { state.waiting.append(continuation) }
            state.most = max(state.most, state.waiting.count)
            return state.isOpen
          }
          if isOpen { continuation.resume() }
        }
      }
      return call
    }

    func open() {
      let waiting = state.withLock { state in
        state.isOpen = true
        defer { state.waiting = [] }
        return state.waiting
      }
      for continuation in waiting { continuation.resume() }
    }
  }

  private static let success = #"{"result":"success","msg":""}"#
  private static let status =
    #"{"result":"success","msg":"","last_realm_count_id":0,"last_installation_count_id":0,"last_realmauditlog_id":0}"#

  /// Runs a test with two chat servers, of which the first one's calls of an endpoint hang.
  private static func test(
    _ endpoint: String,
    _ body:
      @escaping @Sendable (Bouncer, Hanging, _ slow: Credentials, _ other: Credentials) async throws ->
      Void
  ) async throws {
    try await OthersHost.runInClear { host in
      try await Bouncer.test(["upstream.url": host.url], clock: TestClock(nil), isWorking: true) { bouncer in
        let (slow, other) = (
          try await bouncer.server("slow.example.org"), try await bouncer.server("other.example.org")
        )
        let hanging = Hanging(slow, at: endpoint)
        host.reply { call in
          let call = await hanging.answer(call)
          return OthersHost.response(200, call.path.hasSuffix("/status") ? status : success)
        }
        for (server, name) in [(slow, "slow.example.org"), (other, "other.example.org")] {
          try await bouncer.enableUpstream(name)
          _ = try await bouncer.realm(of: server)
        }
        try await body(bouncer, hanging, slow, other)
        hanging.open()
      }
    }
  }

  private static func unregister(_ bouncer: Bouncer, _ user: Int, of server: Credentials) async throws {
    let answer = try await bouncer.post("push/unregister/all", [("user_id", "\(user)")], as: server)
    #expect(answer.isSuccess, "\(answer.text)")
  }

  /// Far less than a report may take.
  private static let soon = Duration.seconds(6)

  @Test func `a server's report that hangs holds up neither another's nor unregistrations`() async throws {
    try await Self.test("server/analytics") { bouncer, hanging, slow, other in
      await eventually("the slow server's report hangs") { hanging.hanging == 1 }
      let began = ContinuousClock.now
      let reports = hanging.calls("server/analytics", of: other)
      _ = try await bouncer.realm(of: other)
      for server in [slow, other] { try await Self.unregister(bouncer, 1, of: server) }
      await eventually("the others' are through") {
        hanging.calls("server/analytics", of: other) > reports
          && hanging.calls("push/unregister/all", of: other) == 1
          && hanging.calls("push/unregister/all", of: slow) == 1
      }
      #expect(.now - began < Self.soon)
      // It is one call, however often the server reports meanwhile.
      _ = try await bouncer.realm(of: slow)
      _ = try await bouncer.realm(of: other)
      await eventually("another of the other's") {
        hanging.calls("server/analytics", of: other) > reports + 1
      }
      #expect(hanging.hanging == 1)
    }
  }

  @Test func `a server's unregistrations that hang hold up no other server's`() async throws {
    try await Self.test("push/unregister/all") { bouncer, hanging, slow, other in
      // More than there are places, and all before the other's.
      for user in 0..<100 { try await Self.unregister(bouncer, user, of: slow) }
      await eventually("some hang") { hanging.hanging > 0 }
      let began = ContinuousClock.now
      for user in 0..<10 { try await Self.unregister(bouncer, user, of: other) }
      await eventually("the other's are through") {
        hanging.calls("push/unregister/all", of: other) == 10
      }
      #expect(.now - began < Self.soon)
      #expect(hanging.most <= 4, "\(hanging.most)")
      hanging.open()
      try await eventually("the rest follows") {
        try await bouncer.rows("SELECT id FROM upstream_unregistrations").isEmpty
      }
    }
  }

  @Test func `what is reported is given before it may go`() async throws {
    try await Self.test("none") { bouncer, hanging, slow, _ in
      let rows = (1...700).map {
        #"{"id":\#($0),"realm":2,"property":"messages_read::hour","subgroup":null,"end_time":1,"value":5}"#
      }
      let form = [("realm_counts", "[" + rows.joined(separator: ",") + "]"), ("installation_counts", "[]")]
      let row = try #require(try await bouncer.servers.find(hostname: "slow.example.org"))
      #expect(try await bouncer.post("server/analytics", form, as: slow).isSuccess)
      try await eventually("it is given") {
        try await bouncer.rows(
          "SELECT given_realm_count_id FROM upstream_links WHERE server_id = \(row.id)") == [[700]]
      }
      let reports = Reports(database: bouncer.database, isRemovable: UpstreamLinks.isAccepted)
      #expect(try await reports.remove(before: bouncer.clock.now, limit: 1000) == 700)
      #expect(try await reports.lastIDs(of: row.id)[.realmCounts] == 700)
    }
  }
}
