import Foundation
import HTTP
import Logging
import ProviderSimulator
import Providers
import SQL
import Sealing
import TestService
import TestSupport
import Testing

/// A bouncer whose notifications arrive at the provider simulator.
struct Simulated: Sendable {
  static let topic = "example.app"

  let bouncer: Bouncer
  let simulator: SimulatedProviders

  /// Runs a test with both.
  static func test(
    _ settings: [String: String] = [:], topic: String = topic, clock: TestClock = TestClock(Date()),
    isWorking: Bool = false, logger: Logger = .quiet,
    _ body: @escaping @Sendable (Simulated) async throws -> Void
  ) async throws {
    var simulation = SimulatedProviders.Configuration()
    simulation.topics = [topic]
    let simulator = try await SimulatedProviders.start(simulation)
    try await withTemporaryFolder { folder in
      try simulator.writeKeys(to: folder)
      let endpoints = [
        "apns.endpoint": simulator.apnsEndpoint, "fcm.endpoint": simulator.fcmEndpoint,
        "webpush.allow_private_hosts": "127.0.0.1", "fcm.default_project": "default",
        "providers.ca_file": folder.appending(path: "ca.pem").path,
      ]
      try await Bouncer.test(
        endpoints.merging(settings) { $1 }, clock: clock, isWorking: isWorking, logger: logger,
        keys: simulator.writeKeys
      ) { bouncer in
        try await body(Simulated(bouncer: bouncer, simulator: simulator))
      }
    }
    await simulator.stop()
  }

  /// A phone that has subscribed with the simulated push service: its subscription's id, and the token.
  func subscribe(_ phone: WebPushPhone) throws -> (id: String, token: String) {
    let key = try #require(bouncer.providers.vapidPublicKey)
    let id = try #require(simulator.subscribe(vapid: key))
    return (id, phone.token(at: "\(simulator.webPushEndpoint)/push/\(id)"))
  }

  /// The bodies of the pushes to each token, in order.
  func arrived() -> [String: [JSON]] {
    var arrived: [String: [JSON]] = [:]
    for delivery in simulator.deliveries() {
      arrived[delivery.token, default: []].append(
        (try? JSON.parse(String(decoding: delivery.payload, as: UTF8.self))) ?? .null)
    }
    return arrived
  }
}

extension Bouncer {
  /// The rows of a query.
  func rows(_ sql: String) async throws -> [[Value]] {
    try await test.rows(sql)
  }
}

/// A user of legacy apps, as a stock server identifies it.
struct OldUser: Sendable {
  let id: Int64
  let uuid = UUID().uuidString.lowercased()

  /// The form of `push/register`.
  func register(
    _ token: String, _ kind: PushToken.Kind, realm: String? = nil, named: Names = .both
  ) -> [(String, String)] {
    var form = [
      ("server_uuid", UUID().uuidString), ("token", token), ("token_kind", kind == .apns ? "1" : "2"),
    ]
    if named != .uuid { form.append(("user_id", "\(id)")) }
    if named != .id { form.append(("user_uuid", uuid)) }
    if kind == .apns { form.append(("ios_app_id", Simulated.topic)) }
    if let realm, named != .id { form.append(("realm_uuid", realm)) }
    return form
  }

  enum Names { case id, uuid, both }

  /// The body of `push/notify`.
  func notification(
    _ text: String, realm: String? = nil, named: Names = .both, android: [String] = [], apple: [String] = []
  ) -> JSON {
    [
      "user_id": named == .uuid ? nil : .integer(id), "user_uuid": named == .id ? nil : .string(uuid),
      "realm_uuid": .optional(realm), "gcm_payload": ["event": "message", "content": .string(text)],
      "apns_payload": ["alert": .string(text), "custom": ["zulip": ["message_ids": [1]]]],
      "gcm_options": ["priority": "high"], "android_devices": .array(android.map(JSON.string)),
      "apple_devices": .array(apple.map(JSON.string)), "unknown": true,
    ]
  }
}

extension Value: ExpressibleByIntegerLiteral {
  /// An integer, for what tests expect.
  init(integerLiteral value: Int64) { self = .integer(value) }
}
