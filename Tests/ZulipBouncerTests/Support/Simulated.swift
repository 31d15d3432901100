import Foundation
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import Testing
import Wire
import ZulipBouncer

/// A bouncer whose notifications arrive at the provider simulator.
struct Simulated: Sendable {
  static let topic = "example.app"

  let bouncer: Bouncer
  let simulator: ProviderSimulator

  /// Runs a test with both.
  static func test(
    _ configure: (inout ZulipBouncer.Configuration) -> Void = { _ in },
    _ body: @escaping @Sendable (Simulated) async throws -> Void
  ) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "simulated-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    let simulator = try await ProviderSimulator.start(.init())
    try simulator.writeKeys(to: folder)
    try await Bouncer.test(
      configure,
      providers: .init(
        apnsEndpoint: URL(string: simulator.apnsEndpoint), fcmEndpoint: URL(string: simulator.fcmEndpoint),
        caFile: folder.appending(path: "ca.pem").path)
    ) { bouncer in
      bouncer.clock.set(Date())
      let fcm = try FCMCredential(
        name: "default", json: Data(contentsOf: folder.appending(path: "fcm/default.json")))
      let apns = APNsCredential(
        name: "main", keyID: simulator.apnsKeyID, teamID: simulator.apnsTeamID,
        privateKey: simulator.apnsPrivateKeyPEM, topics: [topic], environment: .production)
      bouncer.providers.use(Providers.Credentials(apns: [apns], fcm: [fcm], defaultProject: fcm.projectID))
      try await body(Simulated(bouncer: bouncer, simulator: simulator))
    }
    await simulator.stop()
  }

  /// What each token was sent, in order: the bodies.
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
    try await database.read { try $0.query(Statement(sql)).map(\.values) }
  }
}

/// A user of old apps, as a stock server names it.
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
