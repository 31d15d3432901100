import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Sealing
import Synchronization
import TestSupport

@testable import Demo

/// Attackers, with a new address for each call.
final class Strangers: Sendable {
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
          "POST", "/devices", [("User-Agent", NextcloudAccount.userAgent)],
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
      { await self.hold(Self.pipelined, connections: 1, isRead: false) },
      { await self.flood("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n") },
      { await self.flood("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n") },
      // Forms of nothing but fields.
      { await self.call("POST", "/notifications", body: Self.fields) },
      { await self.call("POST", "/api/v1/remotes/server/register", body: Self.fields) },
      // Logins that nobody will finish.
      { await self.call("POST", "/index.php/login/v2") },
    ]
  }

  private static let fields = String(repeating: "a=&", count: 1 << 20)

  /// More requests than anybody waits for the answers to.
  private static let pipelined = ByteBuffer(
    string: String(repeating: "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", count: 2500))

  private static let floodOfBytes = ByteBuffer(repeating: UInt8(ascii: "a"), count: 20 << 20)

  /// Sends what ends parsing, and then as much as is taken in a second.
  private func flood(_ head: String) async {
    guard let port = running.port(of: "public"),
      let connection = try? await RawConnection(port: port, from: Self.address)
    else { return }
    connection.begin(ByteBuffer(string: head))
    connection.begin(Self.floodOfBytes)
    try? await Task.sleep(for: .seconds(1))
    await connection.close()
    state.withLock { $0.calls += 1 }
  }

  /// One of this machine's.
  private static var address: String { "127.1.0.\(Int.random(in: 1...20))" }

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

  private func hold(_ bytes: ByteBuffer, connections: Int, isRead: Bool = true) async {
    guard state.withLock({ $0.held.count }) < 600, let port = running.port(of: "public") else { return }
    for _ in 0..<connections {
      guard let connection = try? await RawConnection(port: port, from: Self.address, isRead: isRead) else {
        return
      }
      connection.begin(bytes)
      state.withLock { $0.held.append(connection) }
    }
  }
}
