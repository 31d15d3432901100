import AsyncHTTPClient
import Crypto
import Foundation
import NIOCore
import NIOSSL
import ProviderSimulator
import Testing

@Suite("APNs, as simulated")
struct APNsRuleTests {
  private static let payload = #"{"aps":{"alert":"Hi"}}"#
  private typealias Send = (_ headers: [String: String], _ body: String) async throws -> (Int, String)

  /// A simulator, and a client that trusts it and has a good provider token.
  private func withAPNs(
    path: String = "/3/device/abcdef12", _ body: (ProviderSimulator, Send) async throws -> Void
  ) async throws {
    let simulator = try await ProviderSimulator.start()
    let folder = FileManager.default.temporaryDirectory.appending(path: "simulator-\(UUID())")
    try simulator.writeKeys(to: folder.path)
    defer { try? FileManager.default.removeItem(at: folder) }
    let json = try Data(contentsOf: folder.appending(path: "apns/simulator.json"))
    let fields = try #require(try JSONSerialization.jsonObject(with: json) as? [String: Any])
    let keyID = try #require(fields["key_id"] as? String)
    let teamID = try #require(fields["team_id"] as? String)
    let pem = try String(contentsOf: folder.appending(path: "apns/AuthKey_\(keyID).p8"), encoding: .utf8)
    let key = try P256.Signing.PrivateKey(pemRepresentation: pem)
    let input = [
      #"{"alg":"ES256","kid":"\#(keyID)"}"#,
      #"{"iss":"\#(teamID)","iat":\#(Int(Date().timeIntervalSince1970))}"#,
    ].map { Self.base64URL(Data($0.utf8)) }.joined(separator: ".")
    let token = input + "." + Self.base64URL(try key.signature(for: Data(input.utf8)).rawRepresentation)
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.trustRoots = .file(folder.appending(path: "ca.pem").path)
    let client = HTTPClient(configuration: .init(tlsConfiguration: tls))
    do {
      try await body(simulator) { headers, body in
        var request = HTTPClientRequest(url: "https://127.0.0.1:\(simulator.apnsPort)\(path)")
        request.method = .POST
        var all = ["authorization": "bearer \(token)", "apns-topic": "org.example.chat", "apns-push-type": "alert"]
        all.merge(headers) { $1 }
        for (name, value) in all where !value.isEmpty { request.headers.add(name: name, value: value) }
        request.body = .bytes(ByteBuffer(string: body))
        let answer = try await client.execute(request, timeout: .seconds(20))
        return (Int(answer.status.code), String(buffer: try await answer.body.collect(upTo: 65_536)))
      }
    } catch {
      Issue.record(error)
    }
    try await client.shutdown()
    await simulator.shutdown()
  }

  private static func base64URL(_ data: Data) -> String {
    data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }

  @Test("A good notification is accepted and kept whole")
  func accepts() async throws {
    try await withAPNs { simulator, send in
      #expect(try await send([:], Self.payload).0 == 200)
      #expect(await simulator.waitForDeliveries(1, timeout: .seconds(10)))
      let delivery = try #require(simulator.deliveries().first)
      #expect(delivery.token == "abcdef12" && delivery.payload == Data(Self.payload.utf8))
      #expect(simulator.counts.providerTokens == 1)
    }
  }

  @Test(
    "Each broken rule has its own answer",
    arguments: [
      (["authorization": ""], payload, 403, "MissingProviderToken"),
      (["authorization": "bearer a.b.c"], payload, 403, "InvalidProviderToken"),
      (["apns-topic": ""], payload, 400, "MissingTopic"),
      (["apns-topic": "other"], payload, 400, "TopicDisallowed"),
      (["apns-push-type": "loud"], payload, 400, "InvalidPushType"),
      (["apns-push-type": "background"], payload, 400, "BadPriority"),
      (["apns-id": "x"], payload, 400, "BadMessageId"), ([:], "", 400, "PayloadEmpty"),
      ([:], String(repeating: "x", count: 4097), 413, "PayloadTooLarge"),
    ] as [([String: String], String, Int, String)])
  func refuses(headers: [String: String], body: String, status: Int, reason: String) async throws {
    try await withAPNs { simulator, send in
      let answer = try await send(headers, body)
      #expect(answer.0 == status && answer.1.contains("\"\(reason)\""))
      #expect(simulator.counts.apns == 0 && simulator.counts.refused == 1)
    }
  }

  @Test("A token rule answers 410 with its time, as often as it says")
  func unregistered() async throws {
    try await withAPNs { simulator, send in
      simulator.setToken("abcdef12", TokenRule(status: 410, timestamp: 1234, times: 1))
      let answer = try await send([:], Self.payload)
      #expect(answer.0 == 410 && answer.1.contains("Unregistered") && answer.1.contains("1234"))
      #expect(try await send([:], Self.payload).0 == 200)
    }
  }
}
