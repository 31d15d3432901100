import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Sealing
import Wire

/// A chat server as the bouncer sees it: it makes the calls of a stock Zulip server, in the same
/// encodings (`spec/zulip.md` 0.5 and B).
struct ChatServer {
  /// Where the bouncer is.
  let bouncer: String
  /// `zulip_org_id`
  let id: String
  /// `zulip_org_key`
  let key: String
  /// The realm that the calls are about.
  let realm: String
  let client: HTTPClient

  /// What a call that the bouncer refused, or did not answer with JSON, came to.
  struct Refusal: Error, CustomStringConvertible {
    let description: String
  }

  /// A form as a stock server posts it.
  func post(_ endpoint: String, form: [(String, String)], authenticated: Bool = true) async throws -> JSON {
    try await call(
      endpoint, "application/x-www-form-urlencoded", Form.encode(form.map { ($0, $1) }), authenticated)
  }

  /// A JSON document.
  func post(_ endpoint: String, json: JSON) async throws -> JSON {
    try await call(endpoint, "application/json", json.bytes, true)
  }

  private func call(_ endpoint: String, _ type: String, _ body: [UInt8], _ authenticated: Bool) async throws
    -> JSON
  {
    var request = HTTPClientRequest(url: "\(bouncer)/api/v1/remotes/\(endpoint)")
    request.method = .POST
    request.headers = ["Content-Type": type, "User-Agent": "ZulipServer/12.0"]
    if authenticated { request.setBasicAuth(username: id, password: key) }
    request.body = .bytes(ByteBuffer(bytes: body))
    let response = try await client.execute(request, timeout: .seconds(15))
    let answer = try await response.body.collect(upTo: 1 << 20)
    guard let json = try? JSON.parse(answer) else {
      throw Refusal(description: "\(endpoint): \(response.status)")
    }
    guard response.status == .ok else {
      throw Refusal(description: "\(endpoint): \(response.status.code) \(json["msg"]?.string ?? "")")
    }
    return json
  }
}

extension ChatServer {
  /// Introduces itself: `manage.py register_server`.
  func register(hostname: String) async throws -> JSON {
    try await post(
      "server/register",
      form: [
        ("zulip_org_id", id), ("zulip_org_key", key), ("hostname", hostname),
        ("contact_email", "admin@\(hostname)"),
      ], authenticated: false)
  }

  /// Tells of its one realm, as it does hourly.
  func uploadRealm(hostname: String) async throws -> JSON {
    let realms: JSON = [
      [
        "id": 1, "uuid": .string(realm), "uuid_owner_secret": "kept-by-the-server", "host": .string(hostname),
        "url": .string("https://\(hostname)"), "name": "Example", "org_type": 0,
        "date_created": .number("1750000000.0"), "deactivated": false, "is_system_bot_realm": false,
        "authentication_methods": ["Email": true],
      ]
    ]
    return try await post(
      "server/analytics",
      form: [
        ("realm_counts", "[]"), ("installation_counts", "[]"), ("realms", realms.text),
        ("version", "\"12.0\""),
        ("api_feature_level", "483"),
      ])
  }

  /// Passes a phone's sealed registration on.
  func register(tokenID: TokenID, sealed: String, bouncerKey: String) async throws -> JSON {
    try await post(
      "push/e2ee/register",
      form: [
        ("realm_uuid", realm), ("token_id", tokenID.base64), ("encrypted_push_registration", sealed),
        ("bouncer_public_key", bouncerKey),
      ])
  }

  /// Seals a notification for each phone under its newest key and sends them all at once.
  func notify(_ phones: [VirtualPhone], _ plaintext: JSON) async throws -> JSON {
    let requests = phones.map { phone -> JSON in
      var payload: JSON.Object = [
        "push_key_id": .integer(Int64(phone.keyID)),
        "encrypted_data": .string(Base64.encode(phone.key.seal(plaintext.bytes))),
      ]
      var request: JSON.Object = ["token_id": .string(phone.tokenID.base64)]
      switch phone.kind {
      case .apns:
        payload["aps"] = ["mutable-content": 1, "alert": ["title": "New notification"]]
        request["http_headers"] = ["apns_priority": 10, "apns_push_type": "alert"]
      case .fcm:
        request["fcm_priority"] = "high"
      }
      request["payload"] = .object(payload)
      return .object(request)
    }
    return try await post(
      "push/e2ee/notify", json: ["realm_uuid": .string(realm), "push_requests": .array(requests)])
  }
}
