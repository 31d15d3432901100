import Basics
package import Delivery
package import Foundation
package import HTTP
import HTTPClient
import HTTPTypes
package import Logging
import NIOCore
package import Providers
package import Registrations
import SQL
package import Sealing

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
  /// - Parameters:
  ///   - realms: the realms as JSON. If it is nil or longer than 1 MiB, the realms stay as they were last reported.
  ///   - more: parameters that are not known here.
  package func passOnReport(
    realms: String?, with more: [Form.Field] = [], of server: RemoteServer
  ) async throws {
    guard try await serves(server) else { return }
    let realms = realms.flatMap { $0.utf8.count <= Self.longestRealms ? $0 : nil }
    try await links.keep(realms: realms, with: more.map { ($0.name.text, $0.value) }, of: server.id)
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
          "server": "\(server.hostname)",
          "advice": .stringConvertible(UpstreamLinks.adviceToEnable(server.hostname)),
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
    try result(of: try await answer(to: call, of: server, until: end))
  }

  /// - Throws: 503 if there is none.
  func answer(
    to call: UpstreamCall, of server: Int64, until end: ContinuousClock.Instant
  ) async throws(APIError) -> UpstreamAnswer {
    do {
      return try await sender.call(call, of: .chatServer(server), within: end - .now)
    } catch {
      throw Self.unavailable(host, error.outcome.reason?.description)
    }
  }

  /// - Throws: the refusal; 503 if the answer is malformed.
  @discardableResult
  func result(of answer: UpstreamAnswer) throws(APIError) -> JSON {
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

  /// - Parameter more: parameters that are not known here.
  static func form(_ fields: [(String, String?)], with more: [Form.Field] = []) -> ByteBuffer {
    let known = fields.compactMap { name, value in value.map { (name: name, value: $0) } }
    return ByteBuffer(bytes: Form.encode(known + more.map { (name: $0.name.text, value: $0.value) }))
  }

  /// Passes on a registration that is sealed to the upstream bouncer's key. If it does not know the realm, the realm is
  /// reported first.
  ///
  /// - Parameter more: parameters that are not known here.
  package func register(
    _ sealed: String, tokenID: TokenID, publicKey: String, realm: UUID, with more: [Form.Field] = [],
    of server: Int64
  ) async throws {
    let call = UpstreamCall(
      "push/e2ee/register",
      form: Self.form(
        [
          ("realm_uuid", realm.canonical), ("token_id", tokenID.base64),
          ("encrypted_push_registration", sealed), ("bouncer_public_key", publicKey),
        ], with: more))
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
    _ token: PushToken?, iosAppID: String? = nil, of user: LegacyUser, realm: UUID? = nil,
    with more: [Form.Field] = []
  ) -> ByteBuffer {
    form(
      [
        ("user_id", user.id.map(String.init)), ("user_uuid", user.uuid?.canonical),
        ("realm_uuid", user.uuid == nil ? nil : realm?.canonical), ("token", token?.text),
        ("token_kind", token.map { "\($0.kind.storage)" }), ("ios_app_id", iosAppID),
      ], with: more)
  }

  /// Registers an old app's token at the upstream bouncer.
  ///
  /// - Parameter more: parameters that are not known here.
  /// - Returns: whether it was accepted; if not, it is registered with its next notification.
  package func registerLegacy(
    _ token: PushToken, iosAppID: String?, of user: LegacyUser, realm: UUID?, with more: [Form.Field] = [],
    server: RemoteServer
  ) async -> Bool {
    let form = Self.form(token, iosAppID: iosAppID, of: user, realm: realm, with: more)
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
  /// - Parameters:
  ///   - token: nil for all tokens of the user.
  ///   - more: parameters that are not known here.
  package func unregisterLegacy(
    _ token: PushToken?, of user: LegacyUser, with more: [Form.Field] = [], server: RemoteServer
  ) async throws {
    guard try await serves(server) else { return }
    let form = Array(Self.form(token, of: user, with: more).readableBytesView)
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
    if try await links.link(of: server.id)?.refusedAt != nil { throw refusalOfTest }
  }

  /// The answer to a test of a server whose notifications the upstream bouncer refuses.
  package var refusalOfTest: APIError {
    APIError(
      """
      The upstream bouncer of this device's app (\(host)) refuses the notifications of this server, for example because \
      of its plan there
      """)
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
