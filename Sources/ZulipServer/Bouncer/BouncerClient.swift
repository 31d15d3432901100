package import AsyncHTTPClient
package import Foundation
internal import HTTP
package import NIOCore
internal import NIOHTTP1
internal import Providers
package import Registrations
package import Sealing

/// Another program's bouncer, as a chat server calls it (`Documentation/Protocols/Zulip.md` 10.9).
package struct BouncerClient: Bouncer {
  /// A call: POST, with the server's credentials.
  package struct Call: Sendable {
    /// Below `/api/v1/remotes/`.
    package let endpoint: String
    /// Of the body.
    package let contentType: String
    /// The body.
    package let body: [UInt8]
  }

  /// An answer.
  package struct Answer: Sendable {
    /// HTTP's status.
    package let status: Int
    /// Its `Retry-After`, as it stands in the header.
    package let retryAfter: String?
    /// The body.
    package let body: ByteBuffer

    /// An answer by its parts.
    package init(status: Int, retryAfter: String? = nil, body: ByteBuffer) {
      self.status = status
      self.retryAfter = retryAfter
      self.body = body
    }
  }

  private let transport: @Sendable (Call) async throws -> Answer

  /// A bouncer that is reached like this. What `transport` throws means that it could not be.
  package init(transport: @escaping @Sendable (Call) async throws -> Answer) {
    self.transport = transport
  }

  package func register(
    _ sealed: String, tokenID: TokenID, publicKey: String, realm: UUID
  ) async throws {
    let form = Form.encode([
      ("realm_uuid", realm.canonical), ("token_id", tokenID.base64),
      ("encrypted_push_registration", sealed), ("bouncer_public_key", publicKey),
    ])
    _ = try await post("push/e2ee/register", "application/x-www-form-urlencoded", form)
  }

  package func notify(
    realm: UUID, _ notifications: [SealedNotification]
  ) async throws -> NotificationReceipt {
    let body: JSON = [
      "realm_uuid": .string(realm.canonical), "push_requests": .array(notifications.map(\.json)),
    ]
    let answer = try await post("push/e2ee/notify", "application/json", body.bytes)
    guard case .array(let gone)? = answer["delete_token_ids"],
      let apple = answer["apple_successfully_sent_count"]?.integer,
      let android = answer["android_successfully_sent_count"]?.integer
    else { throw BouncerError.failed(status: 200) }
    return NotificationReceipt(
      apple: Int(clamping: apple), android: Int(clamping: android),
      gone: gone.compactMap { $0.string.flatMap(TokenID.init(base64:)) })
  }

  package func upload(_ realms: [(realm: ChatRealm, ownerSecret: String)]) async throws {
    let list = realms.map { realm, secret -> JSON in
      [
        "id": .integer(realm.id), "uuid": .string(realm.uuid.canonical), "uuid_owner_secret": .string(secret),
        "host": .string(realm.host), "url": .string(realm.url),
        "name": .string(realm.name), "org_type": 0,
        "date_created": .number("\(realm.createdAt.timeIntervalSince1970)"), "deactivated": false,
        "is_system_bot_realm": false, "authentication_methods": [:],
      ]
    }
    let form = Form.encode([
      ("realm_counts", "[]"), ("installation_counts", "[]"), ("realms", JSON.array(list).text),
      ("version", "\"\(ZulipServerRoutes.version)\""),
      ("api_feature_level", "\(ZulipServerRoutes.featureLevel)"),
    ])
    _ = try await post("server/analytics", "application/x-www-form-urlencoded", form)
  }

  func post(_ endpoint: String, _ contentType: String, _ body: [UInt8]) async throws -> JSON {
    let answer: Answer
    do {
      answer = try await transport(Call(endpoint: endpoint, contentType: contentType, body: body))
    } catch is CancellationError {
      throw CancellationError()
    } catch {
      throw BouncerError.unreachable
    }
    let json = try? JSON.parse(answer.body)
    guard answer.status == 200 else {
      throw BouncerError(
        status: answer.status, code: json?["code"]?.string, message: json?["msg"]?.string,
        retryAfter: answer.retryAfter)
    }
    guard let json, json["result"]?.string == "success" else { throw BouncerError.failed(status: 200) }
    return json
  }
}

extension SealedNotification {
  /// The item of `push/e2ee/notify`.
  fileprivate var json: JSON {
    var payload: JSON.Object = [
      "push_key_id": .integer(pushKeyID), "encrypted_data": .string(encryptedData),
    ]
    switch kind {
    case .apns:
      payload["aps"] = .object(shape.aps)
      return [
        "token_id": .string(tokenID.base64),
        "http_headers": [
          "apns_priority": .integer(Int64(shape.apnsPriority)),
          "apns_push_type": .string(shape.apnsPushType.rawValue),
        ],
        "payload": .object(payload),
      ]
    case .fcm:
      return [
        "token_id": .string(tokenID.base64), "fcm_priority": .string(shape.fcmPriority.rawValue),
        "payload": .object(payload),
      ]
    }
  }
}

extension BouncerClient {
  /// Another program's bouncer.
  ///
  /// - Parameters:
  ///   - url: where it is; a path is dropped, as stock servers do.
  ///   - id: `zulip_org_id` there.
  ///   - key: `zulip_org_key` there.
  package static func remote(url: URL, id: String, key: String, client: HTTPClient) -> BouncerClient {
    let base = URL(string: "/api/v1/remotes/", relativeTo: url)?.absoluteString ?? ""
    return BouncerClient { call in
      var request = HTTPClientRequest(url: base + call.endpoint)
      request.method = .POST
      request.headers = [
        "Content-Type": call.contentType, "User-Agent": "ZulipServer/\(ZulipServerRoutes.version)",
      ]
      request.setBasicAuth(username: id, password: key)
      request.body = .bytes(ByteBuffer(bytes: call.body))
      let response = try await client.execute(request, timeout: .seconds(15))
      return Answer(
        status: Int(response.status.code), retryAfter: response.headers.first(name: "retry-after"),
        body: try await response.body.collect(upTo: 16 << 20))
    }
  }
}
