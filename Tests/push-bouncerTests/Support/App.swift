import Foundation
import HTTP
import NIOCore
import NIOPosix
import ProviderSimulator
import Sealing
import TestSupport
import Testing

@testable import Demo

/// A chat server of ours whose bouncer is another process, and an app of one of its users.
struct App {
  static let backendToken = "host-application-token"

  /// The folder in which the chat server runs.
  let place: Workplace
  let realm: String
  let userID: Int64
  private let email: String
  private let key: String
  private let serverArguments: [String]

  /// Prepares a chat server that uses the bouncer at this port.
  static func test(of stage: Stage, bouncerPort: Int, _ body: (App) async throws -> Void) async throws {
    try await Workplace.test(begun: true) { place in
      let account = try await place.run("account", "add", "--email", "iago@example.org", "--json").json
      let bouncer = [
        "--server.bouncer", "http://127.0.0.1:\(bouncerPort)", "--server.org_id",
        try #require(stage.credentials["org_id"]?.string), "--server.org_key",
        try #require(stage.credentials["org_key"]?.string), "--backend.token", backendToken,
        "--server.rate_limit.per_user", "0", "--log.level", "notice",
      ]
      try await body(
        App(
          place: place, realm: try #require(account["realm_uuid"]?.string),
          userID: try #require(account["user_id"]?.integer), email: "iago@example.org",
          key: try #require(account["api_key"]?.string), serverArguments: bouncer))
    }
  }

  /// Runs the chat server for as long as `test` lasts.
  func serve(_ test: (Running) async throws -> Void) async throws {
    try await place.serve(serverArguments, test: test)
  }

  /// A call as the app makes it; throws what the server says against it.
  func call(_ server: Running, _ endpoint: String, _ form: [(String, String)] = []) async throws -> JSON {
    let answer = try await server.call(
      path: "/api/v1/\(endpoint)", method: "POST",
      headers: [("Content-Type", "application/x-www-form-urlencoded")], user: (email, key),
      body: Form.encode(form.map { ($0, $1) }))
    guard answer.status == 200 else { throw Refusal(description: "\(endpoint): \(answer.text)") }
    return answer.json
  }

  struct Refusal: Error, CustomStringConvertible {
    let description: String
  }

  func addDevice(_ server: Running) async throws -> Int64 {
    try #require(try await call(server, "register_client_device")["device_id"]?.integer)
  }

  /// Which parts of a registration are sent.
  enum Part { case key, token, both }

  func register(
    _ phone: VirtualPhone, as device: Int64, _ part: Part = .both, bouncerKey: String, at time: Date = Date(),
    on server: Running
  ) async throws {
    var form = [("device_id", "\(device)")]
    if part != .token { form += [("push_key", phone.key.base64), ("push_key_id", "\(phone.keyID)")] }
    if part != .key {
      form += [
        ("token_kind", phone.kind.rawValue), ("token_id", phone.tokenID.base64),
        ("bouncer_public_key", bouncerKey),
        ("encrypted_push_registration", try #require(phone.sealedRegistration(to: bouncerKey, at: time))),
      ]
    }
    _ = try await call(server, "mobile_push/register", form)
  }

  /// What clients see of a device.
  func state(of device: Int64, on server: Running) async throws -> JSON? {
    try await call(server, "register", [("event_types", #"["device"]"#)])["devices"]?["\(device)"]
  }

  /// Waits until the device gets its notifications on the phone's present token.
  func waitUntilActive(
    _ device: Int64, _ phone: VirtualPhone, on server: Running,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    try await eventually("an active device", within: .seconds(60), sourceLocation: sourceLocation) {
      let state = try await state(of: device, on: server)
      return state?["push_token_id"]?.string == phone.tokenID.base64
        && state?["pending_push_token_id"] == .null
    }
  }

  /// Waits until the device shows this error.
  func waitUntilRefused(
    _ device: Int64, _ code: String, on server: Running, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    try await eventually(code, sourceLocation: sourceLocation) {
      try await state(of: device, on: server)?["push_registration_error_code"]?.string == code
    }
  }

  /// The host application sends its user a text; nil unless it was answered 200.
  func notify(_ text: String, on server: Running) async throws -> JSON? {
    let payload: JSON = ["zulip": ["type": "message", "content": .string(text)]]
    let answer = try await server.call(
      path: "/backend/v1/realms/\(realm)/users/\(userID)/notifications", method: "POST",
      headers: [("Authorization", "Bearer \(Self.backendToken)")], body: payload.bytes)
    return answer.status == 200 ? answer.json["zulip"] : nil
  }
}

extension Stage {
  /// The texts that have reached a phone at any of its tokens and that it can read, in order; what it
  /// cannot read is an empty text.
  func texts(for phone: VirtualPhone, tokens: Set<String>) throws -> [String] {
    try simulator.deliveries().filter { tokens.contains($0.token) }.map { delivery in
      let payload = try JSON.parse(Array(delivery.payload))
      return try phone.open(payload).map { try JSON.parse($0)["content"]?.string ?? "" } ?? ""
    }
  }
}

/// A port that nothing listens on at this moment, and that no connection is made from: those have higher ones.
func freePort() async throws -> Int {
  for _ in 0..<100 {
    let port = Int.random(in: 20_000..<32_768)
    let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
    guard let channel = try? await bootstrap.bind(host: "127.0.0.1", port: port).get() else { continue }
    try await channel.close()
    return port
  }
  throw POSIXError(.EADDRINUSE)
}
