import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import ProviderSimulator
import Sealing
import Synchronization
import TestSupport
import Testing
import Wire

@testable import Demo

extension Chaos {
  /// Everything that strangers have been seen to try, all at once and from many addresses, while a Zulip server and a
  /// Nextcloud server go on sending: theirs arrives, and about as soon as ever. `STRANGERS_SECONDS` says for how long
  /// (a minute, say); a few seconds otherwise.
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
          let friends = try await Friends(stage, running, server, token: Self.token)
          try await friends.send(for: .seconds(Self.seconds))
          let quiet = friends.takeDurations()
          let strangers = Strangers(running)
          try await withThrowingTaskGroup(of: Void.self) { group in
            for deed in strangers.deeds {
              group.addTask {
                while !Task.isCancelled {
                  await deed()
                  try? await Task.sleep(for: .milliseconds(50))
                }
              }
            }
            try await friends.send(for: .seconds(Self.seconds))
            group.cancelAll()
          }
          await strangers.leave()
          let beset = friends.takeDurations()
          print(
            """
            p99 of \(quiet.count) calls in quiet \(Self.p99(quiet)), of \(beset.count) among \
            \(strangers.calls) calls of strangers \(Self.p99(beset))
            """)
          #expect(quiet.count > 20 && beset.count > 20 && strangers.calls > 50)
          #expect(friends.lost == [])
          // Here strangers and friends are this process, and share its cores with whatever else the machine does: the
          // figures above tell more than this limit, which nothing reaches unless somebody waits for somebody else.
          #expect(Self.p99(beset) <= max(Self.p99(quiet) * 3, .seconds(5)))
          await stage.expectArrival(of: friends.marks)
          await eventually("Nextcloud's pushes", within: .seconds(60)) { friends.unread.isEmpty }
          #expect(stage.arrived().values.allSatisfy { $0 == 1 })
        }
      }
    }

    private static func p99(_ durations: [Duration]) -> Duration {
      durations.sorted()[max(0, (durations.count * 99 + 99) / 100 - 1)]
    }
  }
}

/// Two servers that belong here, each with its phones.
private final class Friends: Sendable {
  private struct State {
    var durations: [Duration] = []
    var marks: Set<String> = []
    var texts: Set<String> = []
    var lost: [String] = []
  }

  private let stage: Stage
  private let server: ChatServer
  private let phones: [VirtualPhone]
  private let host: HostApplication
  private let alice: NextcloudPhone
  private let state = Mutex(State())

  init(_ stage: Stage, _ running: Running, _ server: ChatServer, token: String) async throws {
    self.stage = stage
    self.server = server
    phones = try await stage.phones(6, at: server)
    let url = running.url("public")
    host = HostApplication(
      service: url, token: token, realm: UUID().uuidString.lowercased(), client: HTTPClient.shared)
    try await host.putRealm(name: "Example", url: "https://cloud.example.org")
    _ = try await host.putUser(10, email: "alice@example.org")
    let password = try await host.addAppPassword(10, name: "Talk")
    var alice = NextcloudPhone(
      server: url, login: ("alice", password), proxy: url, client: HTTPClient.shared)
    try await alice.register()
    self.alice = alice
  }

  var marks: Set<String> { state.withLock { $0.marks } }
  var lost: [String] { state.withLock { $0.lost } }

  /// What the Nextcloud server has sent and the phone has not read.
  var unread: Set<String> {
    state.withLock { $0.texts }.subtracting(
      stage.simulator.deliveries().filter { $0.token == alice.token.lowercased() }.compactMap { delivery in
        (try? JSON.parse(Array(delivery.payload))).flatMap(alice.open)?["subject"]?.string
      })
  }

  /// How long the calls took since the last time.
  func takeDurations() -> [Duration] {
    state.withLock { state in
      defer { state.durations = [] }
      return state.durations
    }
  }

  /// Both send, each one call after the other.
  func send(for time: Duration) async throws {
    let end = ContinuousClock.now + time
    await withTaskGroup(of: Void.self) { group in
      group.addTask {
        while ContinuousClock.now < end {
          await self.timed {
            let promise = try await self.server.mark(Array(self.phones.shuffled().prefix(2)))
            self.state.withLock { $0.marks.formUnion(promise.marks) }
          }
        }
      }
      group.addTask {
        while ContinuousClock.now < end {
          let text = UUID().uuidString
          await self.timed {
            let answer = try await self.host.notify(
              10,
              parts: [
                "nextcloud": ["nid": 1, "app": "spreed", "subject": .string(text), "type": "chat", "id": "x"]
              ])
            guard answer["nextcloud"]?["devices"]?.integer == 1 else { throw DemoError(answer.text) }
            self.state.withLock { _ = $0.texts.insert(text) }
          }
          // A device gets 240 a minute at once: more would be late, strangers or not.
          try? await Task.sleep(for: .milliseconds(300))
        }
      }
    }
  }

  private func timed(_ call: () async throws -> Void) async {
    let start = ContinuousClock.now
    do {
      try await call()
      state.withLock { $0.durations.append(.now - start) }
    } catch {
      state.withLock { $0.lost.append("\(error)") }
    }
    try? await Task.sleep(for: .milliseconds(50))
  }
}

/// Who has no business here, at a new address each time.
private final class Strangers: Sendable {
  private struct State {
    var calls = 0
    var held: [RawConnection] = []
  }

  private let running: Running
  private let client: HTTPClient
  private let state = Mutex(State())

  init(_ running: Running) {
    self.running = running
    var configuration = HTTPClient.Configuration()
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 32
    client = HTTPClient(configuration: configuration)
  }

  var calls: Int { state.withLock { $0.calls } }

  /// Gives back what is held.
  func leave() async {
    let held = state.withLock { state in
      defer { state.held = [] }
      return state.held
    }
    for connection in held { await connection.close() }
    try? await client.shutdown()
  }

  /// What each of them does, again and again.
  var deeds: [@Sendable () async -> Void] {
    [
      // Texts that cost more than they weigh.
      { await self.call("POST", "/notifications", body: "\(Self.hostile)=1") },
      {
        await self.call(
          "POST", "/api/v1/remotes/server/register", body: "{\"\(Self.hostile)\":1}", type: "json")
      },
      {
        await self.call(
          "GET", "/ocs/v2.php/cloud/user?\(UUID().uuidString)=1",
          [("Accept", String(repeating: "a/b;", count: 1000))])
      },
      // Guesses at secrets.
      { await self.call("GET", "/ocs/v2.php/cloud/user", [Self.basic("alice", UUID().uuidString)]) },
      {
        await self.call(
          "PUT", "/backend/v1/realms/x", [("Authorization", "Bearer \(UUID().uuidString)")], body: "{}",
          type: "json")
      },
      {
        await self.call(
          "POST", "/api/v1/mobile_push/register", [Self.basic("alice@example.org", UUID().uuidString)],
          body: "a=1")
      },
      // Names that are not theirs.
      {
        await self.call("POST", "/api/v1/remotes/server/register/transfer", body: "hostname=chat.example.org")
      },
      {
        await self.call(
          "POST", "/api/v1/remotes/server/register/transfer",
          body: "hostname=\(UUID().uuidString).example.net")
      },
      { await self.register() },
      // Devices without end.
      {
        await self.call(
          "POST", "/devices", [("User-Agent", NextcloudPhone.userAgent)],
          body: "pushToken=\(UUID().uuidString)&deviceIdentifier=x")
      },
      {
        await self.call(
          "POST", "/notifications",
          body: "notifications[]=%7B%22deviceIdentifier%22%3A%22\(UUID().uuidString)%22%7D")
      },
      // Room.
      { await self.hold("GET /healthz HTTP/1.1\r\nX-Slow: ") },
      { await self.hold("") },
      {
        await self.hold(
          "POST /notifications HTTP/1.1\r\nHost: x\r\nContent-Length: 16000000\r\n\r\n"
            + String(repeating: "a", count: 1 << 16))
      },
      { await self.hold(Self.longBody, connections: 2) },
    ]
  }

  /// All but the end of a body: more than can be held of a few such.
  private static let longBody: ByteBuffer = {
    var bytes = ByteBuffer(
      string: "POST /notifications HTTP/1.1\r\nHost: x\r\nContent-Length: 4000001\r\n\r\n")
    bytes.writeRepeatingByte(UInt8(ascii: "a"), count: 4_000_000)
    return bytes
  }()

  private static let hostile = HostileText.marks.text(bytes: 1 << 16)

  private static func basic(_ user: String, _ password: String) -> (String, String) {
    ("Authorization", "Basic " + Base64.encode(Array("\(user):\(password)".utf8)))
  }

  private func register() async {
    let body = [
      "zulip_org_id=\(UUID().uuidString.lowercased())", "zulip_org_key=\(String(repeating: "k", count: 64))",
      "hostname=\(UUID().uuidString.lowercased()).example.net", "contact_email=a@example.net",
    ].joined(separator: "&")
    await call("POST", "/api/v1/remotes/server/register", body: body)
  }

  private func call(
    _ method: String, _ path: String, _ headers: [(String, String)] = [], body: String? = nil,
    type: String? = nil
  ) async {
    var request = HTTPClientRequest(url: running.url("public") + path)
    request.method = .init(rawValue: method)
    request.headers.add(
      name: "X-Forwarded-For", value: "203.\(Int.random(in: 0...255)).113.\(Int.random(in: 0...255))")
    for (name, value) in headers { request.headers.add(name: name, value: value) }
    if let body {
      request.headers.add(
        name: "Content-Type", value: type.map { "application/\($0)" } ?? "application/x-www-form-urlencoded")
      request.body = .bytes(ByteBuffer(string: body))
    }
    // Whatever they are told.
    _ = try? await client.execute(request, timeout: .seconds(20)).body.collect(upTo: 1 << 20)
    state.withLock { $0.calls += 1 }
  }

  /// Opens a connection and keeps it, up to more than there may be.
  private func hold(_ text: String) async { await hold(ByteBuffer(string: text), connections: 10) }

  private func hold(_ bytes: ByteBuffer, connections: Int) async {
    guard state.withLock({ $0.held.count }) < 600, let port = running.port(of: "public") else { return }
    for _ in 0..<connections {
      let source = "127.1.0.\(Int.random(in: 1...20))"
      guard let connection = try? await RawConnection(port: port, from: source) else { return }
      connection.begin(bytes)
      state.withLock { $0.held.append(connection) }
    }
  }
}
