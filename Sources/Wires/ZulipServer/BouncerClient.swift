package import AsyncHTTPClient
package import Foundation
package import HTTP
package import NIOCore
import NIOHTTP1
package import Providers
package import Registrations
import SQL
package import Sealing
package import ZulipBouncer

/// Client for a bouncer in another program (`Documentation/Protocols/Zulip.md` 10.9).
package struct BouncerClient: BouncerCalls {
  /// A call to be made.
  package struct Call: Sendable {
    /// Path below `/api/v1/remotes/`.
    package let endpoint: String
    package let contentType: String
    package let body: [UInt8]
  }

  /// The response to a call.
  package struct Response: Sendable {
    let status: Int
    /// The value of `Retry-After`.
    let retryAfter: String?
    let body: ByteBuffer

    package init(status: Int, retryAfter: String? = nil, body: ByteBuffer) {
      self.status = status
      self.retryAfter = retryAfter
      self.body = body
    }
  }

  private let transport: @Sendable (Call) async throws -> Response

  /// Sends calls with `transport`. An error that it throws means that the bouncer cannot be reached.
  package init(transport: @escaping @Sendable (Call) async throws -> Response) {
    self.transport = transport
  }

  /// - Parameters:
  ///   - url: URL of the bouncer; a path in it is ignored, as by stock servers.
  ///   - id: `zulip_org_id` there.
  ///   - key: `zulip_org_key` there.
  package init(url: URL, id: String, key: String, client: HTTPClient) {
    let base = URL(string: "/api/v1/remotes/", relativeTo: url)?.absoluteString ?? ""
    self.init { call in
      var request = HTTPClientRequest(url: base + call.endpoint)
      request.method = .POST
      request.headers = [
        "Content-Type": call.contentType, "User-Agent": "ZulipServer/\(ZulipServerRoutes.version)",
      ]
      request.setBasicAuth(username: id, password: key)
      request.body = .bytes(ByteBuffer(bytes: call.body))
      let response = try await client.execute(request, timeout: .seconds(15))
      return Response(
        status: Int(response.status.code), retryAfter: response.headers.first(name: "retry-after"),
        body: try await response.body.collect(upTo: 16 << 20))
    }
  }

  package func register(_ sealed: String, tokenID: TokenID, publicKey: String, realm: UUID) async throws {
    try await post(
      "push/e2ee/register",
      form: [
        ("realm_uuid", realm.canonical), ("token_id", tokenID.base64),
        ("encrypted_push_registration", sealed), ("bouncer_public_key", publicKey),
      ])
  }

  package func notify(_ request: NotifyRequest, realm: UUID) async throws -> NotifyReceipt {
    let answer = try await post(
      "push/e2ee/notify",
      json: ["realm_uuid": .string(realm.canonical), "push_requests": .array(request.items.map(\.json))])
    guard case .array(let gone)? = answer["delete_token_ids"],
      let apple = answer["apple_successfully_sent_count"]?.integer,
      let android = answer["android_successfully_sent_count"]?.integer
    else { throw BouncerError.failed(status: 200) }
    return NotifyReceipt(
      apple: Int(clamping: apple), android: Int(clamping: android),
      gone: gone.compactMap { $0.string.flatMap(TokenID.init(base64:)) })
  }

  package func upload(_ realms: [(realm: ChatRealm, ownerSecret: String)]) async throws {
    let list = realms.map { realm, secret -> JSON in
      [
        "id": .integer(realm.id), "uuid": .string(realm.uuid.canonical), "uuid_owner_secret": .string(secret),
        "host": .string(realm.host), "url": .string(realm.url), "name": .string(realm.name), "org_type": 0,
        "date_created": .number("\(realm.createdAt.timeIntervalSince1970)"), "deactivated": false,
        "is_system_bot_realm": false, "authentication_methods": [:],
      ]
    }
    try await post(
      "server/analytics",
      form: [
        ("realm_counts", "[]"), ("installation_counts", "[]"), ("realms", JSON.array(list).text),
        ("version", "\"\(ZulipServerRoutes.version)\""),
        ("api_feature_level", "\(ZulipServerRoutes.featureLevel)"),
      ])
  }

  package func registerLegacy(_ token: LegacyToken, of user: LegacyUser, realm: UUID) async throws {
    let app = token.iosAppID.map { [("ios_app_id", $0)] } ?? []
    try await post("push/register", form: Self.form(user, realm) + Self.form(token.token) + app)
  }

  package func unregisterLegacy(_ token: PushToken?, of user: LegacyUser, realm: UUID) async throws {
    try await post(
      token == nil ? "push/unregister/all" : "push/unregister",
      form: Self.form(user, realm) + (token.map(Self.form) ?? []))
  }

  package func notifyLegacy(
    _ user: User, _ notification: LegacyNotification, tokens: [PushToken]
  ) async throws -> LegacyReceipt {
    func list(_ kind: PushToken.Kind) -> JSON {
      .array(tokens.filter { $0.kind == kind }.map { .string($0.text) })
    }
    let answer = try await post(
      "push/notify",
      json: [
        "user_uuid": .string(user.uuid.canonical), "user_id": .integer(user.userID),
        "realm_uuid": .string(user.realm.uuid.canonical), "apns_payload": .object(notification.apns),
        "gcm_payload": .object(notification.fcm), "gcm_options": .object(notification.options),
        "android_devices": list(.fcm), "apple_devices": list(.apns),
      ])
    guard let apple = answer["total_apple_devices"]?.integer,
      let android = answer["total_android_devices"]?.integer, let missing = answer["deleted_devices"]
    else { throw BouncerError.failed(status: 200) }
    func absent(_ name: String) -> [String] {
      if case .array(let texts)? = missing[name] { texts.compactMap(\.string) } else { [] }
    }
    return LegacyReceipt(
      apple: Int(clamping: apple), android: Int(clamping: android),
      missing: [.apns: absent("apple_devices"), .fcm: absent("android_devices")], hasRealm: true)
  }

  package func testLegacy(_ token: PushToken, of user: User, _ payload: JSON.Object) async throws {
    try await post(
      "push/test_notification",
      json: [
        "user_uuid": .string(user.uuid.canonical), "user_id": .integer(user.userID),
        "realm_uuid": .string(user.realm.uuid.canonical), "token": .string(token.text),
        "token_kind": .integer(token.kind.storage), "base_payload": .object(payload),
      ])
  }

  private static func form(_ user: LegacyUser, _ realm: UUID) -> [(String, String)] {
    var form = [("realm_uuid", realm.canonical)]
    if let uuid = user.uuid { form.append(("user_uuid", uuid.canonical)) }
    if let id = user.id { form.append(("user_id", "\(id)")) }
    return form
  }

  private static func form(_ token: PushToken) -> [(String, String)] {
    [("token", token.text), ("token_kind", "\(token.kind.storage)")]
  }

  @discardableResult
  private func post(_ endpoint: String, form: [(String, String)]) async throws -> JSON {
    try await post(
      Call(
        endpoint: endpoint, contentType: "application/x-www-form-urlencoded",
        body: Form.encode(form.map { (name: $0, value: $1) })))
  }

  @discardableResult
  private func post(_ endpoint: String, json: JSON) async throws -> JSON {
    try await post(Call(endpoint: endpoint, contentType: "application/json", body: json.bytes))
  }

  private func post(_ call: Call) async throws -> JSON {
    let answer: Response
    do {
      answer = try await transport(call)
    } catch is CancellationError {
      throw CancellationError()
    } catch {
      throw BouncerError.unreachable(Reason(ofCall: error))
    }
    let json = try? JSON.parse(answer.body)
    guard answer.status == 200 else {
      throw BouncerError(
        status: answer.status, code: (json?["cause"] ?? json?["code"])?.string, message: json?["msg"]?.string,
        retryAfter: answer.retryAfter)
    }
    guard let json, json["result"]?.string == "success" else { throw BouncerError.failed(status: 200) }
    return json
  }
}
