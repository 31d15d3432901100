package import AsyncHTTPClient
import Foundation
package import HTTP
import NIOCore
import NIOHTTP1
import Providers
import Sealing

/// A chat server as the bouncer sees it: it makes the calls of a stock Zulip server, in the same
/// encodings (`Documentation/Protocols/Zulip.md` 2 to 7).
package struct ChatServer {
  /// `zulip_org_id`
  let id: String
  /// `zulip_org_key`
  let key: String
  /// The UUID of the realm that the calls are about.
  let realm: String
  /// The bouncer, called with this server's credentials.
  var bouncer: JSONService

  /// - Parameter bouncer: the bouncer's address.
  package init(bouncer: String, id: String, key: String, realm: String, client: HTTPClient) {
    self.id = id
    self.key = key
    self.realm = realm
    self.bouncer = JSONService(
      url: "\(bouncer)/api/v1/remotes", credentials: .basic(user: id, password: key),
      userAgent: "ZulipServer/12.0", client: client)
  }

  /// Registers the server, as `manage.py register_server` does.
  func register(hostname: String) async throws -> JSON {
    var stranger = bouncer
    stranger.credentials = .none
    return try await stranger.call(
      .POST, "server/register",
      .form([
        ("zulip_org_id", id), ("zulip_org_key", key), ("hostname", hostname),
        ("contact_email", "admin@\(hostname)"),
      ]))
  }

  /// Reports its one realm, as Zulip does hourly.
  package func uploadRealm(hostname: String) async throws -> JSON {
    let realms: JSON = [
      [
        "id": 1, "uuid": .string(realm), "uuid_owner_secret": "kept-by-the-server", "host": .string(hostname),
        "url": .string("https://\(hostname)"), "name": "Example", "org_type": 0,
        "date_created": .number("1750000000.0"), "deactivated": false, "is_system_bot_realm": false,
        "authentication_methods": ["Email": true],
      ]
    ]
    return try await bouncer.call(
      .POST, "server/analytics",
      .form([
        ("realm_counts", "[]"), ("installation_counts", "[]"), ("realms", realms.text),
        ("version", "\"12.0\""), ("api_feature_level", "483"),
      ]))
  }

  /// Passes a phone's sealed registration on to the bouncer. Returns it in base64.
  @discardableResult
  package func register(_ phone: VirtualPhone, bouncerKey: String) async throws -> String {
    let sealed = try phone.sealedRegistration(to: bouncerKey)
    try await bouncer.call(
      .POST, "push/e2ee/register",
      .form([
        ("realm_uuid", realm), ("token_id", phone.tokenID.base64), ("encrypted_push_registration", sealed),
        ("bouncer_public_key", bouncerKey),
      ]))
    return sealed
  }

  /// Seals a notification for each phone under its newest key and sends them all in one request.
  package func notify(_ phones: [VirtualPhone], _ plaintext: JSON) async throws -> JSON {
    try await notify(phones, encrypted: phones.map { Base64.encode($0.key.seal(plaintext.bytes)) })
  }

  /// Sends each phone the notification that is encrypted for it.
  func notify(_ phones: [VirtualPhone], encrypted: [String]) async throws -> JSON {
    let requests = zip(phones, encrypted).map { phone, encrypted -> JSON in
      var payload: JSON.Object = [
        "push_key_id": .integer(Int64(phone.keyID)), "encrypted_data": .string(encrypted),
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
    return try await bouncer.call(
      .POST, "push/e2ee/notify",
      .json(["realm_uuid": .string(realm), "push_requests": .array(requests)]))
  }
}

/// A chat application without push code of its own: its calls of the built-in chat-server side's backend API.
struct HostApplication {
  /// Its realm's UUID.
  let realm: String
  var backend: JSONService

  /// - Parameters:
  ///   - service: push-bouncer's address.
  ///   - token: `backend.token`
  init(service: String, token: String, realm: String, client: HTTPClient) {
    self.realm = realm
    backend = JSONService(
      url: "\(service)/backend/v1/realms/\(realm)", credentials: .bearer(token), client: client)
  }

  /// Adds or changes its realm.
  func putRealm(name: String = "Example", url: String = "https://example.org") async throws {
    try await backend.call(.PUT, "", .json(["name": .string(name), "url": .string(url)]))
  }

  /// Adds a user. Returns the API key with which the user's apps sign in.
  func putUser(_ id: Int64, email: String) async throws -> String {
    let user = try await backend.call(.PUT, "users/\(id)", .json(["email": .string(email)]))
    guard let key = user["api_key"]?.string else { throw DemoError("the new user has no API key") }
    return key
  }

  func addAppPassword(_ user: Int64, name: String = "Talk") async throws -> String {
    let answer = try await backend.call(
      .POST, "users/\(user)/app-passwords", .json(["name": .string(name)]))
    guard let password = answer["password"]?.string else {
      throw DemoError("the new app password has no text")
    }
    return password
  }

  /// Approves the sign-in of a user's app, which is waiting for it.
  func grantLogin(_ user: Int64, token: String) async throws {
    try await backend.call(.POST, "users/\(user)/login-flows", .json(["token": .string(token)]))
  }

  /// Sends a notification to all of a user's devices. Returns how many each provider accepted.
  func notify(_ user: Int64, _ plaintext: JSON) async throws -> JSON {
    try await notify(user, parts: ["zulip": plaintext])["zulip"] ?? .null
  }

  /// Sends a text to a user's legacy and encrypted apps. Returns the outcome.
  func notifyBothWays(_ user: Int64, _ text: String) async throws -> JSON {
    try await notify(
      user,
      parts: [
        "zulip": ["type": "message", "content": .string(text)],
        "legacy": [
          "apns_payload": ["alert": .string(text), "custom": ["zulip": ["event": "message"]]],
          "gcm_payload": ["event": "message", "content": .string(text)],
        ],
      ])
  }

  /// Sends a chat message to a user's Nextcloud devices. Returns the outcome.
  func notify(_ user: Int64, chat text: String, nid: Int64 = 1) async throws -> JSON {
    try await notify(
      user,
      nextcloud: [
        "nid": .integer(nid), "app": "spreed", "subject": .string(text), "type": "chat", "id": "castle",
      ])
  }

  /// Sends a Nextcloud notification to all of a user's devices. Returns the outcome.
  func notify(_ user: Int64, nextcloud notification: JSON) async throws -> JSON {
    try await notify(user, parts: ["nextcloud": notification])["nextcloud"] ?? .null
  }

  /// Sends a notification by each protocol that `parts` has a part for. Returns the outcome of each.
  func notify(_ user: Int64, parts: JSON) async throws -> JSON {
    try await backend.call(.POST, "users/\(user)/notifications", .json(parts))
  }
}
