import AsyncHTTPClient
import HTTP
import NIOCore
import NIOHTTP1
import Providers
import Sealing
import Synchronization
import TestSupport
import Testing

@testable import Demo

/// Servers that are served here like all others, keep to every limit, and want all that there is: one sends huge requests
/// for one device, one has a second app and guesses token ids, one reports without end and asks how its devices fare, and one
/// brings the push proxy thousands of entries of one device at a time.
final class Greedy: Sendable {
  /// `proxy` is the Nextcloud server, the others are chat servers.
  private enum Deed: String {
    case huge, guess, report, status, proxy
  }

  private let running: Running
  private let client: HTTPClient
  private let huge, guesser, reporter: ChatServer
  private let hugeBody, proxyBody: ByteBuffer
  private let statuses = Mutex<[String: Int]>([:])
  /// The last id in a report.
  private let reported = Mutex(0)

  /// How often each of them was answered what: `huge 200`.
  var answers: [String: Int] { statuses.withLock(\.self) }

  /// - Parameter guesser: the chat server with a second app.
  init(_ stage: Stage, _ running: Running, guesser: ChatServer) async throws {
    self.running = running
    self.guesser = guesser
    client = HTTPClient()
    huge = try await stage.anotherServer("huge.example.net", at: running)
    reporter = try await stage.anotherServer("report.example.net", at: running)
    let phone = Stage.phone(.apns)
    try await stage.register(phone, at: huge)
    hugeBody = Self.body(huge, (0..<1000).map { _ in phone.tokenID.base64 })
    let cloud = StrangersCloud(
      devices: 1, at: running.url("public"), from: Self.addresses[0], client: HTTPClient.shared)
    try await cloud.register()
    let entry = try #require(cloud.entries().first)
    proxyBody = ByteBuffer(
      bytes: Form.encode((0..<13_000).map { _ in (name: "notifications[]", value: entry) }))
  }

  func leave() async { try? await client.shutdown() }

  /// What they do at the same time, again and again.
  var deeds: [@Sendable () async -> Void] {
    let huge: [@Sendable () async -> Void] = (0..<10).map { number in
      { await self.call(.huge, "api/v1/remotes/push/e2ee/notify", self.hugeBody, as: self.huge, number % 5) }
    }
    let guesses: [@Sendable () async -> Void] = (0..<2).map { number in
      {
        let ids = (0..<1000).map { _ in
          Base64.encode((0..<8).map { _ in UInt8.random(in: .min ... .max) })
        }
        await self.call(
          .guess, "api/v1/remotes/push/e2ee/notify", Self.body(self.guesser, ids), as: self.guesser,
          5 + number)
      }
    }
    let proxy: [@Sendable () async -> Void] = (0..<4).map { number in
      { await self.call(.proxy, "notifications", self.proxyBody, as: nil, 7 + number) }
    }
    let statuses: [@Sendable () async -> Void] = (0..<7).map { _ in
      { await self.call(.status, "api/v1/remotes/push/status", nil, as: self.reporter, 12) }
    }
    return huge + guesses + proxy + statuses + [{ await self.report() }]
  }

  /// Reports as many rows as a server with a hundred realms has in a week.
  private func report() async {
    let rows = 5000
    let last = reported.withLock { last in
      last += rows
      return last
    }
    let counts = (last - rows + 1...last).map {
      #"{"id":\#($0),"realm":2,"property":"messages_sent:is_bot:hour","subgroup":"false","end_time":1790000000.0,"value":3}"#
    }
    let form = [
      (name: "realm_counts", value: "[\(counts.joined(separator: ","))]"),
      (name: "installation_counts", value: "[]"),
    ]
    await call(
      .report, "api/v1/remotes/server/analytics", ByteBuffer(bytes: Form.encode(form)), as: reporter, 11)
  }

  /// Five of the one with huge requests, two of the one that guesses, four of the Nextcloud server, two of the one that
  /// reports.
  private static let addresses = (1...13).map { "192.0.2.\($0)" }

  /// A request with an item for each token id.
  private static func body(_ server: ChatServer, _ ids: [String]) -> ByteBuffer {
    let items = ids.map {
      #"{"token_id":"\#($0)","http_headers":{"apns_priority":10,"apns_push_type":"alert"},"#
        + #""payload":{"push_key_id":1,"encrypted_data":"AAAA"}}"#
    }
    return ByteBuffer(
      string: #"{"realm_uuid":"\#(server.realm)","push_requests":[\#(items.joined(separator: ","))]}"#)
  }

  private func call(
    _ deed: Deed, _ path: String, _ body: ByteBuffer?, as server: ChatServer?, _ address: Int
  ) async {
    var request = HTTPClientRequest(url: "\(running.url("public"))/\(path)")
    request.method = body == nil ? .GET : .POST
    request.headers.add(name: "X-Forwarded-For", value: Self.addresses[address])
    request.headers.add(
      name: "Content-Type",
      value: [.huge, .guess].contains(deed) ? "application/json" : "application/x-www-form-urlencoded")
    if let server { request.setBasicAuth(username: server.id, password: server.key) }
    if let body { request.body = .bytes(body) }
    let response = try? await client.execute(request, timeout: .seconds(30))
    _ = try? await response?.body.collect(upTo: 1 << 20)
    let status = response.map { "\($0.status.code)" } ?? "none"
    statuses.withLock { $0["\(deed) \(status)", default: 0] += 1 }
  }
}
