package import AsyncHTTPClient
package import HTTP
import NIOCore
import NIOHTTP1
import NIOSSL
package import Sealing

/// A chat server as the bouncer sees it: it makes the calls of a stock Zulip server, in the same
/// encodings (`Documentation/Protocols/Zulip.md` 2 to 7).
package struct ChatServer {
  /// `zulip_org_id`
  let id: String
  /// `zulip_org_key`
  let key: String
  /// The realm that the calls are about.
  let realm: String
  /// The bouncer, as it answers this server.
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

  /// Introduces itself: `manage.py register_server`.
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

  /// Tells of its one realm, as it does hourly.
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

  /// Passes a phone's sealed registration on.
  package func register(tokenID: TokenID, sealed: String, bouncerKey: String) async throws -> JSON {
    try await bouncer.call(
      .POST, "push/e2ee/register",
      .form([
        ("realm_uuid", realm), ("token_id", tokenID.base64), ("encrypted_push_registration", sealed),
        ("bouncer_public_key", bouncerKey),
      ]))
  }

  /// Seals a notification for each phone under its newest key and sends them all at once.
  package func notify(_ phones: [VirtualPhone], _ plaintext: JSON) async throws -> JSON {
    try await notify(phones, encrypted: phones.map { Base64.encode($0.key.seal(plaintext.bytes)) })
  }

  /// Sends each phone what is sealed for it.
  package func notify(_ phones: [VirtualPhone], encrypted: [String]) async throws -> JSON {
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

/// The provider simulator's control endpoint, where virtual phones get what was pushed to them.
package struct PhoneHome {
  package let url: String
  package let client: HTTPClient

  package init(url: String, client: HTTPClient) {
    (self.url, self.client) = (url, client)
  }

  /// A client that trusts one more certificate authority.
  package static func client(ca: String?) throws -> HTTPClient {
    var configuration = HTTPClient.Configuration.singletonConfiguration
    // Whoever waits in front of a terminal hears at once that nobody listens there.
    configuration.connectionPool.retryConnectionEstablishment = false
    if let ca {
      var tls = TLSConfiguration.makeClientConfiguration()
      guard let certificates = try? NIOSSLCertificate.fromPEMFile(ca), !certificates.isEmpty else {
        throw DemoError("\(ca) is no file with a certificate in PEM")
      }
      tls.additionalTrustRoots = [.certificates(certificates)]
      configuration.tlsConfiguration = tls
    }
    return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }

  /// The number from which on deliveries are new.
  package func next() async throws -> Int64 {
    try await get("deliveries?since=999999999999999")["next"]?.integer ?? 0
  }

  /// What has arrived since; waits for some seconds if nothing has.
  package func deliveries(after seen: inout Int64) async throws -> [JSON] {
    let answer = try await get("deliveries?since=\(seen)&wait=5")
    seen = answer["next"]?.integer ?? seen
    guard case .array(let deliveries)? = answer["deliveries"] else { return [] }
    return deliveries
  }

  /// What has arrived since where a phone's messages come, others' among them; waits for some seconds if nothing has.
  ///
  /// - Parameter seen: apart for each subscription of Web Push, by its id, and under "" for all else.
  package func deliveries(
    to phone: VirtualPhone, at service: PushService, after seen: inout [Substring: Int64]
  ) async throws -> [JSON] {
    guard let newest = phone.subscriptions.last else {
      return try await deliveries(after: &seen["", default: 0])
    }
    var all: [JSON] = []
    for subscription in phone.subscriptions {
      all += try await service.messages(
        for: subscription, after: &seen[subscription.id, default: 0],
        wait: subscription.id == newest.id ? 5 : 0)
    }
    return all
  }

  /// Waits for this many.
  func deliveries(_ count: Int, after seen: inout Int64) async throws -> [JSON] {
    var all: [JSON] = []
    for _ in 0..<3 where all.count < count { all += try await deliveries(after: &seen) }
    return all
  }

  /// Makes the providers answer so for a token from now on.
  func set(token: String, _ behaviour: JSON) async throws {
    _ = try await control.call(.PUT, "tokens/\(token)", .json(behaviour))
  }

  private func get(_ path: String) async throws -> JSON {
    try await control.call(.GET, path, timeout: .seconds(30))
  }

  private var control: JSONService {
    JSONService(url: "\(url)/_control", credentials: .none, maximumBytes: 16 << 20, client: client)
  }
}
