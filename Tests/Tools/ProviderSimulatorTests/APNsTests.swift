import Crypto
import Foundation
import NIOHTTP1
import TestSupport
import Testing

@testable import ProviderSimulator

@Suite(.client) struct APNsTests {
  private let client = Fixture<Client>.current

  /// A change that makes a valid push wrong, and the refusal that it gets.
  struct Wrong: Sendable, CustomTestStringConvertible {
    let reason: String
    var status = 400
    var headers: [String: String?] = [:]
    var token = Client.token
    var payload = #"{"aps":{}}"#
    var path: String?
    var testDescription: String { "\(reason) \(headers) \(path ?? "")" }
  }

  static let wrong = [
    Wrong(reason: "MissingProviderToken", status: 403, headers: ["authorization": nil]),
    Wrong(reason: "MissingProviderToken", status: 403, headers: ["authorization": "basic abc"]),
    Wrong(reason: "InvalidProviderToken", status: 403, headers: ["authorization": "bearer a.b.c"]),
    Wrong(reason: "MissingTopic", headers: ["apns-topic": nil]),
    Wrong(reason: "TopicDisallowed", headers: ["apns-topic": "org.example.other"]),
    Wrong(reason: "InvalidPushType", headers: ["apns-push-type": "loud"]),
    Wrong(reason: "BadPriority", headers: ["apns-priority": "7"]),
    Wrong(reason: "BadPriority", headers: ["apns-push-type": "background", "apns-priority": "10"]),
    Wrong(reason: "BadExpirationDate", headers: ["apns-expiration": "soon"]),
    Wrong(reason: "BadMessageId", headers: ["apns-id": "1"]),
    Wrong(reason: "BadCollapseId", headers: ["apns-collapse-id": String(repeating: "x", count: 65)]),
    Wrong(reason: "PayloadEmpty", payload: ""),
    Wrong(reason: "PayloadEmpty", payload: "{}"),
    Wrong(reason: "PayloadEmpty", payload: #"{"aps":1}"#),
    Wrong(reason: "PayloadEmpty", payload: #"[{"aps":{}}]"#),
    Wrong(reason: "PayloadEmpty", payload: #"{"aps":{}"#),
    Wrong(reason: "PayloadTooLarge", status: 413, payload: payload(4097)),
    Wrong(
      reason: "PayloadTooLarge", status: 413,
      headers: ["apns-topic": "org.example.chat.voip", "apns-push-type": "voip"], payload: payload(5121)),
    Wrong(reason: "BadDeviceToken", token: "not-hex"),
    Wrong(reason: "BadDeviceToken", token: "c0ffe"),
    Wrong(reason: "BadDeviceToken", token: String(repeating: "0", count: 64)),
    Wrong(reason: "MissingDeviceToken", path: "/3/device/"),
    Wrong(reason: "BadPath", status: 404, path: "/2/device/c0ffee"),
    Wrong(reason: "BadPath", status: 404, path: "/3/device/c0ffee/x"),
  ]

  private static func payload(_ size: Int) -> String {
    let frame = #"{"aps":{},"x":""}"#
    return frame.replacing(#""x":"""#, with: #""x":"\#(String(repeating: "y", count: size - frame.count))""#)
  }

  @Test(arguments: wrong) func `refuses what Apple refuses`(wrong: Wrong) async throws {
    let answer = try await client.push(
      token: wrong.token, headers: wrong.headers, payload: wrong.payload, path: wrong.path)
    #expect(answer.reason == wrong.reason)
    #expect(answer.status == wrong.status)
    #expect(client.simulator.counts.refused == 1)
    #expect(client.simulator.deliveries().isEmpty)
    #expect(client.simulator.deliveries(includingRefused: true).map(\.reason) == [wrong.reason])
  }

  @Test func `takes a good push, repeats its apns-id and keeps it whole`() async throws {
    let id = "0b1f1bb4-6a5c-4e36-93d0-0f2a9d7a0c11"
    let answer = try await client.push(
      headers: [
        "apns-id": id.uppercased(), "apns-priority": "10", "apns-expiration": "0",
        "apns-collapse-id": "thread",
      ], payload: Self.payload(4096))
    #expect(answer.status == 200)
    #expect(answer.body.isEmpty)
    #expect(answer.headers["apns-id"] == [id])
    let delivery = try #require(client.simulator.deliveries().first)
    #expect(delivery.sequence == 1)
    #expect(delivery.token == Client.token)
    #expect(delivery.target == "org.example.chat")
    #expect(delivery.id == id)
    #expect(delivery.header("apns-collapse-id") == "thread")
    #expect(delivery.header("authorization") == nil)
    #expect(String(decoding: delivery.payload, as: UTF8.self) == Self.payload(4096))
  }

  @Test func `takes short tokens, every push type, and VoIP up to 5120 bytes`() async throws {
    for type in ["alert", "location", "complication", "fileprovider", "mdm", "liveactivity", "pushtotalk"] {
      let answer = try await client.push(
        token: "c0ffee", headers: ["apns-push-type": type])
      #expect(answer.status == 200, "\(type)")
    }
    let voip = try await client.push(
      headers: [
        "apns-topic": "org.example.chat.voip", "apns-push-type": "voip",
      ], payload: Self.payload(5120))
    #expect(voip.status == 200)
    let background = try await client.push(
      headers: ["apns-push-type": "background", "apns-priority": "5"])
    #expect(background.status == 200)
  }

  @Test func `refuses a header given twice and another method`() async throws {
    let twice = try await client.push(
      also: ["apns-topic": "org.example.chat"])
    #expect(twice.reason == "DuplicateHeaders")
    let get = try await client.push(method: .GET)
    #expect(get.status == 405)
    #expect(get.reason == "MethodNotAllowed")
  }

  @Test func `checks signature, key id, team, algorithm and age of the provider token`() async throws {
    let now = Int(Date().timeIntervalSince1970)
    let wrong: [(String, String)] = [
      (try client.providerToken(key: .init()), "InvalidProviderToken"),
      (try client.providerToken(kid: "AAAAAAAAAA"), "InvalidProviderToken"),
      (try client.providerToken(iss: "AAAAAAAAAA"), "InvalidProviderToken"),
      (try client.providerToken(alg: "HS256"), "InvalidProviderToken"),
      (try client.providerToken(iat: "\(now).5"), "InvalidProviderToken"),
      (try client.providerToken(iat: "\(now + 600)"), "InvalidProviderToken"),
      (try client.providerToken(iat: "\(now - 3700)"), "ExpiredProviderToken"),
    ]
    for (token, reason) in wrong {
      let answer = try await client.push(headers: ["authorization": "bearer \(token)"])
      #expect(answer.status == 403)
      #expect(answer.reason == reason)
    }
    let old = try client.providerToken(iat: "\(now - 3500)")
    #expect(try await client.push(headers: ["authorization": "bearer \(old)"]).status == 200)
  }

  @Test func `allows a connection one change of its provider token in the interval, then blocks it`()
    async throws
  {
    let clock = TestClock(Date())
    var configuration = SimulatedProviders.Configuration()
    configuration.now = { clock.now }
    try await Client.with(configuration) { client in
      let iat = "\(Int(clock.now.timeIntervalSince1970))"
      let tokens = try (0..<3).map { _ in "bearer \(try client.providerToken(iat: iat))" }
      for token in tokens[..<2] {
        #expect(try await client.push(headers: ["authorization": token]).status == 200)
        #expect(try await client.push(headers: ["authorization": token]).status == 200)
      }
      let changed = try await client.push(headers: ["authorization": tokens[2]])
      #expect(changed.status == 429)
      #expect(changed.reason == "TooManyProviderTokenUpdates")
      // What was good before is no longer.
      #expect(try await client.push(headers: ["authorization": tokens[1]]).status == 429)
      clock.advance(20 * 60)
      #expect(try await client.push(headers: ["authorization": tokens[1]]).status == 200)
      #expect(client.simulator.counts.jwts == 3)
      #expect(client.simulator.counts.connections == 1)
    }
    var quick = SimulatedProviders.Configuration()
    quick.providerTokenInterval = 0
    try await Client.with(quick) { client in
      for _ in 0..<3 {
        let token = "bearer \(try client.providerToken())"
        #expect(try await client.push(headers: ["authorization": token]).status == 200)
      }
    }
  }

  @Test func `takes the tokens of one key on a connection`() async throws {
    #expect(try await client.push().status == 200)
    let other = try client.providerToken(kid: "AAAAAAAAAA")
    let answer = try await client.push(headers: ["authorization": "bearer \(other)"])
    #expect(answer.status == 403)
    #expect(answer.reason == "UnrelatedKeyIdInToken")
    try await client.dropConnections { client in
      let answer = try await client.push(headers: ["authorization": "bearer \(other)"])
      #expect(answer.reason == "InvalidProviderToken")
    }
  }

  @Test func `serves on a connection the topics that its key had when it was opened`() async throws {
    let added = ["apns-topic": "org.example.added"]
    #expect(try await client.push().status == 200)
    #expect(try await client.push(headers: added).reason == "TopicDisallowed")
    client.simulator.topics.insert("org.example.added")
    #expect(try await client.push(headers: added).reason == "TopicDisallowed")
    try await client.dropConnections { client in
      let taken = try await client.push(headers: added)
      #expect(taken.status == 200)
      #expect(try await client.push().status == 200)
    }
    client.simulator.reset()
    try await client.dropConnections { client in
      let refused = try await client.push(headers: added)
      #expect(refused.reason == "TopicDisallowed")
    }
  }

  @Test func `allows one stream until the first good token, then 1000`() async throws {
    let frames = try await FrameClient(client.simulator)
    #expect(await frames.nextStreamLimit() == 1)
    frames.push(stream: 1, authorization: "bearer \(try client.providerToken(kid: "AAAAAAAAAA"))")
    #expect(try #require(await frames.nextStatus()) == (1, "403"))
    frames.push(stream: 3, authorization: "bearer \(try client.providerToken())")
    #expect(await frames.nextStreamLimit() == 1000)
    #expect(try #require(await frames.nextStatus()) == (3, "200"))
    await frames.close()
  }

  @Test func `answers a token as it was told to, as often as it was told to`() async throws {
    func push(_ token: String = Client.token) async throws -> Client.Answer {
      try await client.push(token: token, )
    }
    client.simulator.setToken(Client.token, TokenRule(status: 410, times: 1))
    let before = Int(Date().timeIntervalSince1970 * 1000)
    // The other spelling is the same device.
    let gone = try await push(Client.token.uppercased())
    #expect(gone.status == 410)
    #expect(gone.reason == "Unregistered")
    #expect(try #require(gone.json["timestamp"] as? Int) >= before)
    #expect(try await push().status == 200)

    client.simulator.setToken(
      Client.token, TokenRule(status: 410, reason: "ExpiredToken", timestamp: .at(12345)))
    let expired = try await push()
    #expect(expired.reason == "ExpiredToken")
    #expect(expired.json["timestamp"] as? Int == 12345)
    client.simulator.setToken(Client.token, TokenRule(status: 410, timestamp: .none))
    #expect(try await push().json["timestamp"] == nil)
    client.simulator.setToken(Client.token, TokenRule(status: 400))
    #expect(try await push().reason == "BadDeviceToken")
    client.simulator.setToken(Client.token, nil)
    #expect(try await push().status == 200)

    client.simulator.setToken("odd-token", TokenRule(status: 200))
    #expect(try await push("odd-token").status == 200)
  }
}
