internal import Accounts
internal import Foundation
package import NIOCore
internal import Sealing
internal import Storage
internal import Wire

/// A bouncer as a chat server calls it (`Documentation/Protocols/Zulip.md` 10.9): the same calls and answers
/// whether it is this program's own or another one.
package struct BouncerClient: Sendable {
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
    /// The body.
    package let body: ByteBuffer

    /// An answer by its parts.
    package init(status: Int, body: ByteBuffer) {
      self.status = status
      self.body = body
    }
  }

  private let transport: @Sendable (Call) async throws -> Answer

  /// A bouncer that is reached like this. What `transport` throws means that it could not be.
  package init(transport: @escaping @Sendable (Call) async throws -> Answer) {
    self.transport = transport
  }

  /// Passes a phone's sealed token on; when this returns the bouncer has it.
  func register(_ job: RegistrationJob) async throws {
    let form = Form.encode([
      ("realm_uuid", job.realm.canonical), ("token_id", job.tokenID.base64),
      ("encrypted_push_registration", job.sealed), ("bouncer_public_key", job.bouncerPublicKey),
    ])
    _ = try await post("push/e2ee/register", "application/x-www-form-urlencoded", form)
  }

  /// What became of notifications.
  struct Receipt: Sendable {
    var apple = 0
    var android = 0
    /// Tokens that the bouncer does not know, or no longer.
    var gone: [TokenID] = []
  }

  /// Sends sealed notifications to devices of a realm.
  func notify(realm: UUID, _ requests: [JSON]) async throws -> Receipt {
    let body: JSON = ["realm_uuid": .string(realm.canonical), "push_requests": .array(requests)]
    let answer = try await post("push/e2ee/notify", "application/json", body.bytes)
    guard case .array(let gone)? = answer["delete_token_ids"],
      let apple = answer["apple_successfully_sent_count"]?.integer,
      let android = answer["android_successfully_sent_count"]?.integer
    else { throw BouncerError.failed(status: 200) }
    return Receipt(
      apple: Int(clamping: apple), android: Int(clamping: android),
      gone: gone.compactMap { $0.string.flatMap(TokenID.init(base64:)) })
  }

  /// Tells of all realms, each with what proves that it is ours.
  func upload(_ realms: [(realm: ChatRealm, ownerSecret: String)]) async throws {
    let list = realms.map { realm, secret -> JSON in
      [
        "id": .integer(realm.id), "uuid": .string(realm.uuid.canonical), "uuid_owner_secret": .string(secret),
        "host": .string(URL(string: realm.url)?.host() ?? ""), "url": .string(realm.url),
        "name": .string(realm.name), "org_type": 0,
        "date_created": .number("\(realm.createdAt.timeIntervalSince1970)"), "deactivated": false,
        "is_system_bot_realm": false, "authentication_methods": [:],
      ]
    }
    let form = Form.encode([
      ("realm_counts", "[]"), ("installation_counts", "[]"), ("realms", JSON.array(list).text),
      ("version", "\"\(ZulipServer.version)\""), ("api_feature_level", "\(ZulipServer.featureLevel)"),
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
    switch answer.status {
    case 200:
      guard let json, json["result"]?.string == "success" else { throw BouncerError.failed(status: 200) }
      return json
    case 400..<500 where answer.status != 429 && answer.status != 408:
      // A refusal that is not in the envelope comes from something in between.
      guard let json, let message = json["msg"]?.string else {
        throw BouncerError.failed(status: answer.status)
      }
      // It is passed on and kept: no more of it than a sentence.
      throw BouncerError.refused(
        code: String((json["code"]?.string ?? "BAD_REQUEST").prefix(64)), message: String(message.prefix(500))
      )
    default:
      throw BouncerError.failed(status: answer.status)
    }
  }
}
