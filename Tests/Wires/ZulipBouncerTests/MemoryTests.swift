import Basics
import Delivery
import Foundation
import HTTP
import ProviderSimulator
import Providers
import Registrations
import Sealing
import Synchronization
import TestService
import TestSupport
import Testing

@testable import SQL
@testable import ZulipBouncer

/// A server that asks for as much as it may while the provider is slow, beside another server.
@Suite("The memory for notifications", .serialized)
struct MemoryTests {
  /// In bytes: far above what is counted, since the simulated providers are in this process, too, and far below what
  /// would be taken.
  private static let bound = 192 << 20
  private static let calls = 60

  @Test
  func `is bounded where requests have a thousand items each`() async throws {
    try await Simulated.test(["delivery.deadline": "3s"]) { simulated in
      let bouncer = simulated.bouncer
      let (server, realm) = try await Self.server(of: bouncer, "chat.example.org")
      _ = try await bouncer.post(
        "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.apns("c0ffee")), as: server)
      let body = PushItem.body(realm, (0..<1000).map { _ in PushItem.apns("c0ffee") })
      try await Self.flood(simulated, "push/e2ee/notify", body, to: ["c0ffee"], as: server)
    }
  }

  @Test
  func `is bounded where a user has old apps without end`() async throws {
    try await Simulated.test(["delivery.deadline": "3s", "bouncer.rate_limit.per_server": "0"]) { simulated in
      let bouncer = simulated.bouncer
      let (server, _) = try await Self.server(of: bouncer, "chat.example.org")
      let user = OldUser(id: 10)
      let tokens = (0..<1500).map { String(0xC0_0000 + $0, radix: 16) }
      for token in tokens {
        _ = try await bouncer.post("push/register", user.register(token, .apns), as: server)
      }
      try await Self.flood(simulated, "push/notify", user.notification("x"), to: tokens, as: server)
    }
  }

  private static func server(
    of bouncer: Bouncer, _ name: String
  ) async throws -> (Credentials, realm: String) {
    let server = try await bouncer.server(name)
    return (server, try await bouncer.realm(of: server))
  }

  /// Makes so many calls at once from five addresses, while the provider answers late for these tokens.
  private static func flood(
    _ simulated: Simulated, _ endpoint: String, _ body: JSON, to tokens: [String],
    as server: Credentials
  ) async throws {
    let bouncer = simulated.bouncer
    let (other, realm) = try await Self.server(of: bouncer, "other.example.org")
    _ = try await bouncer.post(
      "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.apns("decade")), as: other)
    for token in tokens {
      simulated.simulator.setToken(token, TokenRule(status: 200, delayMilliseconds: 8000))
    }
    let before = try resident()
    let most = Mutex(0)
    let watch = Task {
      while !Task.isCancelled {
        let now = try resident()
        most.withLock { $0 = max($0, now) }
        try await Task.sleep(for: .milliseconds(20))
      }
    }
    let bytes = body.bytes
    let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
      for number in 0..<calls {
        group.addTask {
          try await bouncer.call(
            endpoint, authorization: server.header, type: "application/json",
            from: "192.0.2.\(number % 5)", body: bytes
          ).status
        }
      }
      await eventually("they are under way") { bouncer.parts.deliverer.work.taken > 0 }
      let answer = try await bouncer.post(
        "push/e2ee/notify", json: PushItem.body(realm, [PushItem.apns("decade")]), as: other)
      #expect(answer.status == 200, "\(answer.text)")
      return try await group.reduce(into: []) { $0.append($1) }
    }
    watch.cancel()
    let taken = most.withLock { $0 } - before
    print("taken: \(taken >> 20) MiB, answered: \(Dictionary(grouping: statuses) { $0 }.mapValues(\.count))")
    #expect(taken < bound)
    #expect(Set(statuses).isSubset(of: [200, 503]) && statuses.contains(200))
  }

  /// The memory of this process, in bytes.
  private static func resident() throws -> Int {
    let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
    return (Int(pages[1]) ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE)))
  }
}

@Suite("A user's old apps")
struct OldAppsTests {
  @Test
  func `are the newest five hundred of a kind, and the server is told of the others`() async throws {
    try await Simulated.test(["bouncer.rate_limit.per_server": "0"]) { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let user = OldUser(id: 10)
      let tokens = (0..<503).map { String(0xC0_0000 + $0, radix: 16) }
      for token in tokens {
        #expect(try await bouncer.post("push/register", user.register(token, .apns), as: server).isSuccess)
      }
      // One that is renewed is no old one.
      #expect(try await bouncer.post("push/register", user.register(tokens[3], .apns), as: server).isSuccess)
      _ = try await bouncer.post("push/register", user.register("android", .fcm), as: server)
      #expect(try await bouncer.rows("SELECT COUNT(*) FROM registrations") == [[501]])
      let answer = try await bouncer.post(
        "push/notify", json: user.notification("x", android: ["android"], apple: tokens), as: server)
      #expect(answer.json["total_apple_devices"] == 500 && answer.json["total_android_devices"] == 1)
      #expect(
        answer.json["deleted_devices"]
          == ["android_devices": [], "apple_devices": .array(tokens.prefix(3).map(JSON.string))])
    }
  }
}
