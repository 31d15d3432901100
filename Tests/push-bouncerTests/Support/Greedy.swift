import AsyncHTTPClient
import HTTP
import NIOCore
import NIOHTTP1
import Sealing
import Synchronization
import TestSupport
import Testing

@testable import Demo

/// Servers that are served here like all others, keep to every limit, and want all that there is: one sends huge requests
/// for one device, one has a second app and guesses token ids, and one brings the push proxy thousands of entries of one
/// device at a time.
final class Greedy: Sendable {
  /// `huge` and `guess` are chat servers, `proxy` is the Nextcloud server.
  private enum Deed: String {
    case huge, guess, proxy
  }

  private let running: Running
  private let client: HTTPClient
  private let huge, guesser: ChatServer
  private let hugeBody, proxyBody: ByteBuffer
  private let statuses = Mutex<[String: Int]>([:])

  /// How often each of them was answered what: `huge 200`.
  var answers: [String: Int] { statuses.withLock(\.self) }

  /// - Parameter guesser: the chat server with a second app.
  init(_ stage: Stage, _ running: Running, guesser: ChatServer) async throws {
    self.running = running
    self.guesser = guesser
    client = HTTPClient()
    huge = try await stage.anotherServer("huge.example.net", at: running)
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
    return huge + guesses + proxy
  }

  /// Five of the one with huge requests, two of the one that guesses, four of the Nextcloud server.
  private static let addresses = (1...11).map { "192.0.2.\($0)" }

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
    _ deed: Deed, _ path: String, _ body: ByteBuffer, as server: ChatServer?, _ address: Int
  ) async {
    var request = HTTPClientRequest(url: "\(running.url("public"))/\(path)")
    request.method = .POST
    request.headers.add(name: "X-Forwarded-For", value: Self.addresses[address])
    request.headers.add(
      name: "Content-Type",
      value: server == nil ? "application/x-www-form-urlencoded" : "application/json")
    if let server { request.setBasicAuth(username: server.id, password: server.key) }
    request.body = .bytes(body)
    let response = try? await client.execute(request, timeout: .seconds(30))
    _ = try? await response?.body.collect(upTo: 1 << 20)
    let status = response.map { "\($0.status.code)" } ?? "none"
    statuses.withLock { $0["\(deed) \(status)", default: 0] += 1 }
  }
}
