import Crypto
import Foundation
import HTTP
import HTTPTypes
import NIOCore
import ProviderSimulator
import SQL
import Sealing
import Server
import TestService
import TestSupport
import Testing
import WebPushGateway

@testable import Providers

/// The service with the gateway, in front of the provider simulator.
struct Gateway: Sendable {
  static let publicURL = "https://push.example.org"
  static let topic = "org.example.chat"
  static let apnsToken = String(repeating: "0123456789abcdef", count: 4)
  static let fcmToken = "fcm:" + String(repeating: "a", count: 60)

  let test: TestService
  let simulator: SimulatedProviders

  var clock: TestClock { test.clock }

  /// Runs a test.
  static func test(
    _ settings: [String: String] = [:], isWorking: Bool = false, isLive: Bool = false,
    _ body: @escaping @Sendable (Gateway) async throws -> Void
  ) async throws {
    let clock = TestClock(Date())
    var simulation = SimulatedProviders.Configuration()
    simulation.topics = [topic]
    let simulator = try await SimulatedProviders.start(simulation)
    let result: Result<Void, any Error>
    do {
      try await withTemporaryFolder { folder in
        try simulator.writeKeys(to: folder)
        let defaults = [
          "webpush_gateway.enabled": "true", "webpush_gateway.deadline": "30s", "http.public_url": publicURL,
          "apns.endpoint": simulator.apnsEndpoint, "fcm.endpoint": simulator.fcmEndpoint,
          "fcm.default_project": "default", "providers.ca_file": folder.appending(path: "ca.pem").path,
        ]
        try await TestService.run(
          defaults.merging(settings) { $1 }, clock: clock, isWorking: isWorking, isLive: isLive,
          keys: simulator.writeKeys
        ) { try await body(Gateway(test: $0, simulator: simulator)) }
      }
      result = .success(())
    } catch { result = .failure(error) }
    await simulator.stop()
    try result.get()
  }

  /// A call of an app.
  func call(
    _ method: HTTPRequest.Method, _ path: String, _ json: JSON? = nil, secret: String? = nil,
    from address: String? = nil
  ) async throws -> Answer {
    var headers: HTTPFields = [.contentType: "application/json"]
    headers[.authorization] = secret.map { "Bearer \($0)" }
    headers[.xForwardedFor] = address
    return Self.checked(try await test.call(method, path, headers: headers, body: json?.bytes ?? []))
  }

  /// A refusal has a code that `Documentation/Errors.md` lists, with the status that stands there.
  private static func checked(_ answer: Answer) -> Answer {
    if answer.json["result"] == nil, let code = answer.code {
      #expect(GatewayCode(rawValue: code)?.status.code == answer.status, "\(answer.status) \(code)")
    }
    return answer
  }

  /// An app that has subscribed.
  struct App: Sendable {
    let id: String
    let endpoint: String
    let secret: String
    let keys = WebPushPhone()

    var path: String { "/webpush/v1/subscriptions/\(id)" }
    /// The endpoint's path.
    var push: String { String(endpoint.dropFirst(Gateway.publicURL.count)) }
  }

  static func registration(_ kind: PushToken.Kind = .fcm, token: String? = nil, sender: Sender? = nil) -> JSON
  {
    var json: JSON.Object = [
      "token_kind": .string(kind.rawValue), "token": .string(token ?? (kind == .apns ? apnsToken : fcmToken)),
    ]
    if kind == .apns { json["ios_app_id"] = .string(topic) }
    json["application_server_key"] = sender.map { .string($0.publicKey) }
    return .object(json)
  }

  func subscribe(_ json: JSON = registration(), from address: String? = nil) async throws -> App {
    let answer = try await call(.post, "/webpush/v1/subscriptions", json, from: address)
    try #require(answer.status == 201, "\(answer.status) \(answer.text)")
    return App(
      id: try #require(answer.json["id"]?.string), endpoint: try #require(answer.json["endpoint"]?.string),
      secret: try #require(answer.json["secret"]?.string))
  }

  /// A message as a sender posts it.
  func post(
    _ app: App, _ more: HTTPFields = [:], body: some Sequence<UInt8> = Gateway.ciphertext(),
    ttl: String? = "60",
    encoding: String? = "aes128gcm"
  ) async throws -> Answer {
    var headers: HTTPFields = [:]
    headers[.timeToLive] = ttl
    headers[.contentEncoding] = encoding
    headers.append(contentsOf: more)
    return Self.checked(try await test.call(.post, app.push, headers: headers, body: body))
  }

  /// Bytes that the gateway cannot tell from a message.
  static func ciphertext(_ count: Int = 200) -> [UInt8] {
    (0..<count).map { _ in .random(in: .min ... .max) }
  }

  /// What arrived at the providers: what the phone's app gets.
  func arrived() -> [JSON] {
    simulator.deliveries().compactMap { delivery in
      let json = try? JSON.parse(Array(delivery.payload))
      return delivery.provider == .fcm ? json?["message"]?["data"] : json
    }
  }

  func count(_ table: String) async throws -> Int64? {
    try await test.rows("SELECT COUNT(*) FROM \(table)").first?.first?.integer
  }
}

extension Value {
  fileprivate var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
}

/// A sender with a VAPID key (RFC 8292).
struct Sender: Sendable {
  let key = P256.Signing.PrivateKey()

  var publicKey: String { Base64URL.encode(key.publicKey.x963Representation) }

  func token(
    for audience: String = Gateway.publicURL, until end: Double, algorithm: String = "ES256",
    by signer: Sender? = nil
  ) throws -> String {
    let parts = [
      #"{"typ":"JWT","alg":"\#(algorithm)"}"#, #"{"aud":"\#(audience)","exp":\#(end),"sub":"mailto:a@b.c"}"#,
    ]
    let signed = parts.map { Base64URL.encode($0.utf8) }.joined(separator: ".")
    let signature = try (signer ?? self).key.signature(for: Data(signed.utf8)).rawRepresentation
    return "\(signed).\(Base64URL.encode(signature))"
  }

  func authorization(at now: Date, for audience: String = Gateway.publicURL) throws -> HTTPFields {
    let token = try token(for: audience, until: now.timeIntervalSince1970.rounded() + 3600)
    return [.authorization: "vapid t=\(token), k=\(publicKey)"]
  }
}

extension HTTPField.Name {
  static let timeToLive = HTTPField.Name("TTL")!
  static let urgency = HTTPField.Name("Urgency")!
  static let topic = HTTPField.Name("Topic")!
  static let cryptoKey = HTTPField.Name("Crypto-Key")!
  static let encryption = HTTPField.Name("Encryption")!
}
