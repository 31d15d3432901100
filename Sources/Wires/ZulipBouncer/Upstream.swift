package import Foundation
internal import HTTP
internal import HTTPTypes
package import Logging
internal import NIOCore
package import Providers
package import Registrations
internal import SQL
internal import Sealing
internal import Timing

/// The other bouncer (`upstream.url`), for chat servers with a second app: what is sealed to its key, and old apps
/// that no credential of ours serves (`Documentation/Protocols/Zulip.md` 9.5).
///
/// Notifications go there like those to a provider. This makes the other calls: what a server waits for at once, and
/// reports and unregistrations later.
package struct Upstream: Sendable {
  /// How long a chat server's call waits for all answers that it needs: stock servers wait 15 s.
  static let patience = Duration.seconds(8)
  /// The longest list of realms that is kept, in bytes.
  static let longestRealms = 1 << 20

  let links: UpstreamLinks
  private let sender: RouteSender
  let now: @Sendable () -> Date
  let logger: Logger
  let reports = Worker()
  let unregistrations = Worker()

  package init(
    _ sender: RouteSender, links: UpstreamLinks, now: @escaping @Sendable () -> Date, logger: Logger
  ) {
    (self.sender, self.links, self.now, self.logger) = (sender, links, now, logger)
  }

  /// Where it is.
  var host: String { sender.route.credential }

  /// Keeps what a server signs in with, unless that is known.
  func keep(_ key: String, of server: Int64) async throws {
    guard try await links.link(of: server)?.key == nil else { return }
    try await links.keep(key, of: server)
    wake()
  }

  // MARK: What a server waits for

  /// Makes a call for a server.
  ///
  /// - Throws: the refusal, as it was answered; 503 without an answer that makes sense.
  @discardableResult
  func call(
    _ call: UpstreamCall, of server: Int64, until end: ContinuousClock.Instant = .now + patience
  ) async throws -> JSON {
    let answer: UpstreamAnswer
    do {
      answer = try await sender.call(call, of: .chatServer(server), within: end - .now)
    } catch {
      throw Self.unavailable(host, error.outcome.reason?.description)
    }
    let json = try? JSON.parse(answer.body)
    guard answer.failure == nil, let json else {
      throw Self.unavailable(host, "status \(answer.status)", retryAfter: answer.retryAfter)
    }
    if answer.status == 200 { return json }
    let message = json["msg"]?.string ?? ""
    throw APIError(
      HTTPResponse.Status(code: answer.status),
      code: APIError.code(from: (json["cause"] ?? json["code"])?.string),
      ForeignText(message).description, headers: answer.retryAfter.map { [.retryAfter: "\($0)"] } ?? [:])
  }

  static func unavailable(_ host: String, _ reason: String?, retryAfter: Int? = nil) -> APIError {
    .unavailable(
      "The push notification service of the other app (\(host)) does not answer: \(reason ?? "")",
      retryAfter: retryAfter ?? 5)
  }

  static func form(_ fields: [(String, String?)]) -> ByteBuffer {
    ByteBuffer(bytes: Form.encode(fields.compactMap { name, value in value.map { (name, $0) } }))
  }

  /// Passes on a registration that is sealed to its key. A realm that it does not know is reported first.
  func register(_ sealed: String, tokenID: TokenID, publicKey: String, realm: UUID, of server: Int64)
    async throws
  {
    let call = UpstreamCall(
      "push/e2ee/register",
      form: Self.form([
        ("realm_uuid", realm.canonical), ("token_id", tokenID.base64),
        ("encrypted_push_registration", sealed),
        ("bouncer_public_key", publicKey),
      ]))
    let end = ContinuousClock.now + Self.patience
    do {
      try await self.call(call, of: server, until: end)
    } catch let error as APIError where error.code == APIError.Code.missingRealm {
      do {
        try await report(server, until: end)
        try await self.call(call, of: server, until: end)
      } catch is APIError {
        // A stock server leaves a device pending for ever whose realm is missing.
        throw APIError.rateLimited(retryAfter: "60")
      }
    }
  }

  /// The form that registers an old app's token, and unregisters it.
  static func form(
    _ token: PushToken?, iosAppID: String? = nil, of user: LegacyUser, realm: UUID? = nil
  ) -> ByteBuffer {
    form([
      ("user_id", user.id.map(String.init)), ("user_uuid", user.uuid?.canonical),
      ("realm_uuid", user.uuid == nil ? nil : realm?.canonical), ("token", token?.text),
      ("token_kind", token.map { "\($0.kind.storage)" }), ("ios_app_id", iosAppID),
    ])
  }

  /// Registers an old app's token there.
  ///
  /// - Returns: whether it was taken; if not, it is registered with its next notification.
  func registerLegacy(
    _ token: PushToken, iosAppID: String?, of user: LegacyUser, realm: UUID?, server: RemoteServer
  ) async -> Bool {
    let form = Self.form(token, iosAppID: iosAppID, of: user, realm: realm)
    do {
      try await call(UpstreamCall("push/register", form: form), of: server.id)
      return true
    } catch {
      logger.info(
        "the other bouncer did not take an old app's token", metadata: Self.metadata(error, server.hostname))
      return false
    }
  }

  /// Has a test notification sent to an old app.
  func test(_ body: JSON.Object, of server: Int64) async throws {
    try await call(
      UpstreamCall("push/test_notification", json: ByteBuffer(bytes: JSON.object(body).bytes)), of: server)
  }

  /// Gives a server a new key there.
  ///
  /// - Parameter present: what it signs in with here; nil if that is not known.
  /// - Throws: why it was not taken, for the server's admin.
  package func rotate(
    _ server: RemoteServer, from present: String?, to newKey: String, hostname: String, contactEmail: String
  ) async throws {
    guard var link = try await links.link(of: server.id) else { return }
    if link.key == nil, let present { try await links.keep(present, of: server.id) }
    func failure(_ reason: String) -> APIError {
      APIError(
        """
        Nothing has changed: the push notification service of the other app (\(host)) did not take the new key: \
        \(reason)
        """)
    }
    guard !contactEmail.isEmpty else {
      throw failure(
        """
        it wants the address of the server's administrator, which is not known here. Say it with the next change of the \
        key: push-bouncer server rotate-key \(server.hostname) --email ADDRESS
        """)
    }
    let end = ContinuousClock.now + Self.patience
    // After an interrupted change it must first be known which of two keys the server has there.
    var reason = "the change before may still be under way: try again in ten seconds"
    for _ in 1...2 where link.nextKey != nil {
      do {
        try await status(link, until: end)
      } catch let error as APIError {
        reason = "which key it has now is not known after the change before: \(error.message)"
      }
      link = try await links.link(of: server.id) ?? link
    }
    guard link.nextKey == nil else { throw failure(reason) }
    guard let key = link.key else { return }
    let form = Self.form([
      ("zulip_org_id", server.uuid.canonical), ("zulip_org_key", key), ("hostname", hostname),
      ("contact_email", contactEmail), ("new_org_key", newKey),
    ])
    try await links.prepare(newKey, of: server.id, within: Self.patience / .seconds(1))
    do {
      try await call(UpstreamCall("server/register", form: form), of: server.id, until: end)
    } catch let error as APIError {
      if Self.leavesKey(error) { try await links.withdraw(newKey, of: server.id) }
      throw failure(error.message)
    }
    try await links.adopt(newKey, of: server.id)
  }

  /// Whether an answer to a change of keys says that the key was not changed. Without an answer nothing is known, and a
  /// refusal of the present key may come from a change that was made before.
  private static func leavesKey(_ error: APIError) -> Bool {
    (400..<500).contains(error.status.code) && error.status != .unauthorized
      && error.code != "INVALID_ZULIP_SERVER"
  }

  /// - Parameter server: the hostname of the chat server; nil if it is not known.
  private static func metadata(_ error: any Error, _ server: String?) -> Logger.Metadata {
    var metadata: Logger.Metadata = [
      "reason": "\((error as? APIError)?.message ?? DatabaseError.name(of: error))"
    ]
    metadata["server"] = server.map { "\($0)" }
    return metadata
  }

  /// Reads the hostname, which only a failed call in the background needs.
  func metadata(_ error: any Error, of server: Int64) async -> Logger.Metadata {
    // A line without the hostname is better than none.
    Self.metadata(error, try? await links.hostname(of: server))
  }
}
