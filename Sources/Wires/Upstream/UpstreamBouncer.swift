package import Delivery
package import Foundation
package import HTTP
internal import HTTPClient
internal import HTTPTypes
package import Logging
internal import NIOCore
package import Providers
package import Registrations
internal import SQL
package import Sealing
internal import Timing
internal import ZulipAPI

/// The upstream bouncer (`upstream.url`). Beside this service it serves the app from the store: devices whose registration
/// is sealed to its key, and old apps that no credential here serves (`Documentation/Protocols/Zulip.md` 9.5).
///
/// Notifications go there as to a provider. This type makes all other calls: those whose answer a chat server waits for, and
/// in the background reports and unregistrations.
package struct UpstreamBouncer: Sendable {
  /// The time limit of all calls that a chat server's call needs. Stock servers wait 15 s.
  static let timeout = Duration.seconds(8)
  /// Maximum size in bytes of a list of realms that is stored.
  private static let longestRealms = 1 << 20

  package let links: UpstreamLinks
  private let sender: RouteSender
  let now: @Sendable () -> Date
  let logger: Logger
  let reports = Worker()
  let unregistrations = Worker()

  package init(
    _ sender: RouteSender, links: UpstreamLinks, now: @escaping @Sendable () -> Date, logger: Logger
  ) {
    self.sender = sender
    self.links = links
    self.now = now
    self.logger = logger
  }

  /// The host, with its port unless that is 443.
  package var host: String { sender.route.credential }

  /// Whether a server has a link.
  package func serves(_ server: RemoteServer) async throws -> Bool {
    try await links.link(of: server.id) != nil
  }

  /// Stores the key with which a server signs in, unless it is known.
  package func keep(_ key: String, of server: RemoteServer) async throws {
    guard let link = try await links.link(of: server.id), link.key == nil else { return }
    try await links.keep(key, of: server.id)
    wake()
  }

  /// Passes on a server's report, which is stored here, together with its realms.
  ///
  /// - Parameter realms: the realms as JSON. If it is nil or longer than 1 MiB, the realms stay as they were last reported.
  package func passOnReport(realms: String?, of server: RemoteServer) async throws {
    guard try await serves(server) else { return }
    let realms = realms.flatMap { $0.utf8.count <= Self.longestRealms ? $0 : nil }
    try await links.keep(realms: realms, of: server.id)
    wake()
  }

  /// Whether the upstream bouncer may know devices of a server that are not known here. It may for an hour from the first
  /// notification for such a device, unless the operator has said whether the server has a link (`Documentation/Decisions`
  /// 0028).
  ///
  /// - Parameter isClockTrusted: false while the clock is in doubt; then the hour does not end.
  package func mayKnowDevices(of server: RemoteServer, isClockTrusted: Bool) async throws -> Bool {
    guard server.hostname != RemoteServers.builtInHostname, try await !serves(server) else { return false }
    let (since, isFirst) = try await links.recordUnknownDevices(of: server.id)
    if isFirst {
      logger.warning(
        "a chat server names devices that are not known here: for an hour it is not told to forget them",
        metadata: [
          "server": "\(server.hostname)", "advice": "\(UpstreamLinks.adviceToEnable(server.hostname))",
        ])
    }
    return !isClockTrusted || now().timeIntervalSince(since) < 3600
  }

  // MARK: Calls that a server waits for

  /// Makes a call for a server.
  ///
  /// - Throws: the upstream bouncer's refusal; 503 if there is no answer, or a malformed one.
  @discardableResult
  func call(
    _ call: UpstreamCall, of server: Int64, until end: ContinuousClock.Instant = .now + timeout
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
      "The upstream bouncer (\(host)) does not answer: \(reason ?? "")",
      retryAfter: retryAfter ?? 5)
  }

  static func form(_ fields: [(String, String?)]) -> ByteBuffer {
    ByteBuffer(bytes: Form.encode(fields.compactMap { name, value in value.map { (name, $0) } }))
  }

  /// Passes on a registration that is sealed to the upstream bouncer's key. If it does not know the realm, the realm is
  /// reported first.
  package func register(_ sealed: String, tokenID: TokenID, publicKey: String, realm: UUID, of server: Int64)
    async throws
  {
    let call = UpstreamCall(
      "push/e2ee/register",
      form: Self.form([
        ("realm_uuid", realm.canonical), ("token_id", tokenID.base64),
        ("encrypted_push_registration", sealed),
        ("bouncer_public_key", publicKey),
      ]))
    let end = ContinuousClock.now + Self.timeout
    do {
      try await self.call(call, of: server, until: end)
    } catch let error as APIError where error.code == APIError.Code.missingRealm {
      do {
        try await report(server, until: end)
        try await self.call(call, of: server, until: end)
      } catch is APIError {
        // After "realm missing", a stock server would leave the device pending for ever.
        throw APIError.rateLimited(retryAfter: "60")
      }
    }
  }

  /// The form that registers an old app's token, and unregisters it.
  private static func form(
    _ token: PushToken?, iosAppID: String? = nil, of user: LegacyUser, realm: UUID? = nil
  ) -> ByteBuffer {
    form([
      ("user_id", user.id.map(String.init)), ("user_uuid", user.uuid?.canonical),
      ("realm_uuid", user.uuid == nil ? nil : realm?.canonical), ("token", token?.text),
      ("token_kind", token.map { "\($0.kind.storage)" }), ("ios_app_id", iosAppID),
    ])
  }

  /// Registers an old app's token at the upstream bouncer.
  ///
  /// - Returns: whether it was accepted; if not, it is registered with its next notification.
  package func registerLegacy(
    _ token: PushToken, iosAppID: String?, of user: LegacyUser, realm: UUID?, server: RemoteServer
  ) async -> Bool {
    let form = Self.form(token, iosAppID: iosAppID, of: user, realm: realm)
    do {
      try await call(UpstreamCall("push/register", form: form), of: server.id)
      return true
    } catch {
      logger.info(
        "the upstream bouncer did not accept an old app's token",
        metadata: Self.metadata(error, server.hostname))
      return false
    }
  }

  /// Queues the unregistration of a token at the upstream bouncer, if the server has a link.
  ///
  /// - Parameter token: nil for all tokens of the user.
  package func unregisterLegacy(
    _ token: PushToken?, of user: LegacyUser, server: RemoteServer
  ) async throws {
    guard try await serves(server) else { return }
    let form = Array(Self.form(token, of: user).readableBytesView)
    try await links.unregister(token, of: user, server: server.id, form: form)
    wake()
  }

  /// The pushes for a user's devices at the upstream bouncer, which all go in one call.
  ///
  /// - Parameters:
  ///   - notification: the members of `push/notify` besides those that name the user, its realm and its devices.
  ///   - registrations: the devices; those after the first ``UpstreamPush/mostItems`` get nothing.
  /// - Returns: the same push for each device.
  package func legacyPushes(
    _ notification: JSON.Object, to registrations: [Registration], of user: LegacyUser, realm: UUID?,
    server: RemoteServer
  ) -> [RegisteredPush] {
    let registrations = registrations.prefix(UpstreamPush.maximumItems)
    guard !registrations.isEmpty else { return [] }
    let items = registrations.map { registration in
      let isNew = registration.home != .elsewhere(isRegistered: true)
      return UpstreamPush.Item(
        registration: registration.reference.id, name: registration.token.text,
        isAPNs: registration.token.kind == .apns,
        body: isNew
          ? Self.form(registration.token, iosAppID: registration.iosAppID, of: user, realm: realm) : nil,
        isNew: isNew)
    }
    var body: JSON.Object = [
      "user_id": .optional(user.id), "user_uuid": .optional(user.uuid?.canonical),
      "realm_uuid": .optional(user.uuid == nil ? nil : realm?.canonical),
    ]
    for member in notification.members { body[member.name.text] = member.value }
    let push = UpstreamPush(.legacy(UUID()), items, notification: ByteBuffer(bytes: JSON.object(body).bytes))
    return registrations.map {
      RegisteredPush(push: .upstream(push), registration: $0.reference, owner: .chatServer(server.id))
    }
  }

  /// Sends a test notification to an old app.
  ///
  /// - Throws: the upstream bouncer's refusal; also an error if it refuses the server's other notifications, since it sends
  ///   tests nevertheless.
  package func test(_ body: JSON.Object, of server: RemoteServer) async throws {
    try await call(
      UpstreamCall("push/test_notification", json: ByteBuffer(bytes: JSON.object(body).bytes)),
      of: server.id)
    if try await links.link(of: server.id)?.refusedAt != nil {
      throw APIError(
        """
        The upstream bouncer of this device's app (\(host)) refuses the notifications of this server, for example because \
        of its plan there
        """)
    }
  }

  /// Gives a server a new key at the upstream bouncer.
  ///
  /// - Parameter present: the key with which the server signs in here; nil if it is not known.
  /// - Throws: the reason why the key was not accepted, for the server's admin.
  package func rotate(
    _ server: RemoteServer, from present: String?, to newKey: String, hostname: String, contactEmail: String
  ) async throws {
    guard var link = try await links.link(of: server.id) else { return }
    if link.key == nil, let present { try await links.keep(present, of: server.id) }
    func failure(_ reason: String) -> APIError {
      APIError(
        """
        Nothing has changed: the upstream bouncer (\(host)) did not take the new key: \(reason)
        """)
    }
    guard !contactEmail.isEmpty else {
      throw failure(
        """
        it needs the address of the server's administrator, which is not known here. Give it with the next change of the \
        key: push-bouncer server rotate-key \(server.hostname) --contact-email ADDRESS
        """)
    }
    let end = ContinuousClock.now + Self.timeout
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
    try await links.prepare(newKey, of: server.id, within: Self.timeout / .seconds(1))
    do {
      try await call(UpstreamCall("server/register", form: form), of: server.id, until: end)
    } catch let error as APIError {
      if Self.leavesKey(error) { try await links.withdraw(newKey, of: server.id) }
      throw failure(error.message)
    }
    try await links.adopt(newKey, of: server.id)
  }

  /// Whether an answer to a change of keys shows that the key was not changed. Without an answer nothing is known, and the
  /// present key may be refused because an earlier change was made.
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
