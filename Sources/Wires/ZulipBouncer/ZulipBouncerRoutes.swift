import Basics
import Delivery
import Foundation
package import HTTP
import HTTPClient
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Providers
import Registrations
import SQL
import Sealing

/// The ``Bouncer``'s HTTP endpoints for Zulip's servers: `/api/v1/remotes/...`
/// (`Documentation/Protocols/Zulip.md` 2 to 7), and the VAPID key for apps without Google's services.
package struct ZulipBouncerRoutes: Sendable {
  let bouncer: Bouncer
  let perServer: Rate<Int64>
  let registrations: Rate<Int64>
  /// Limits calls of `push/status`, which read many rows.
  let statuses: Rate<Int64>
  let perAddress: Rate<ClientAddress>
  let signIns: SignInGuard

  package init(_ bouncer: Bouncer) {
    self.bouncer = bouncer
    let now = bouncer.now
    perServer = Rate(bouncer.settings.rateLimitPerServer, now: now)
    registrations = Rate(bouncer.rateLimitOfRegistrations, now: now)
    statuses = Rate(
      bouncer.settings.rateLimitPerServer.map { _ in RateLimit(calls: 60, seconds: 60) }, now: now)
    perAddress = Rate(bouncer.http.rateLimitPerAddress, now: now)
    signIns = SignInGuard(now: now)
  }

  package func addRoutes(to router: Routes) {
    func path(_ endpoint: String) -> RouterPath { RouterPath("/api/v1/remotes/\(endpoint)") }

    router.endpoint(path("server/register"), .post, use: unauthenticated(register))
    router.endpoint(path("server/register/transfer"), .post, use: unauthenticated(transfer))
    // Zulip's bouncer does not restrict the method of this endpoint.
    router.endpoint(
      path("server/register/verify_challenge"),
      [.post: unauthenticated(verifyChallenge), .get: unauthenticated(verifyChallenge)])

    router.endpoint(
      path("server/deactivate"), .post, use: authenticated(limit: perServer, isChange: true, deactivate))
    router.endpoint(path("server/analytics/status"), .get, use: authenticated(analyticsStatus))
    router.endpoint(path("server/analytics"), .post, use: authenticated(uploadAnalytics))
    router.endpoint(path("server/billing"), .post, use: authenticated(billing))

    router.endpoint(
      path("push/e2ee/register"), .post,
      use: neverServerError(
        waitingForDatabase(authenticated(limit: registrations, countingRefusals(registerE2EE)))))
    router.endpoint(
      path("push/e2ee/notify"), .post, use: waitingForDatabase(authenticated(limit: nil, notifyE2EE)))

    router.endpoint(
      path("push/register"), .post, use: waitingForDatabase(authenticated(countingRefusals(registerLegacy))))
    router.endpoint(path("push/unregister"), .post, use: waitingForDatabase(authenticated(unregisterLegacy)))
    router.endpoint(
      path("push/unregister/all"), .post, use: waitingForDatabase(authenticated(unregisterAllLegacy)))
    router.endpoint(
      path("push/notify"), .post, use: waitingForDatabase(authenticated(limit: nil, notifyLegacy)))
    router.endpoint(path("push/test_notification"), .post, use: waitingForDatabase(authenticated(testLegacy)))

    router.endpoint(path("push/status"), .get, use: authenticated(status))

    router.endpoint(RouterPath(Self.infoPath), .get, use: info)
    router.endpoint("/api/v1/zulip-services/webpush/vapid", .get, use: unauthenticated(vapid))
  }

  func parameters(of request: Request, lookedUp: Name? = nil) async throws -> Parameters {
    try await .read(from: request, limit: bouncer.http.maxBodyBytes, lookedUp: lookedUp)
  }

  func body(of request: Request) async throws -> Field {
    try await .body(of: request, limit: bouncer.http.maxBodyBytes)
  }

  /// The status of every realm: it may push without a time limit, because there are no plans here
  /// (`Documentation/Decisions` 0021).
  static var pushStatus: JSON { ["can_push": true, "expected_end_timestamp": nil] }
}

/// Hummingbird has a type of the same name, for path parameters.
typealias Parameters = HTTP.Parameters

/// `server/...` (`Documentation/Protocols/Zulip.md` 3 and 4).
extension ZulipBouncerRoutes {
  private func register(_ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await parameters(of: request)
    let id = try parameters.text("zulip_org_id", .stripped(length: 36))
    let key = try parameters.text("zulip_org_key", .stripped(length: RemoteServers.keyLength))
    let spelled = try parameters.text("hostname", .verbatim(maximum: 128))
    let email = try parameters.required("contact_email")
    let newKey = try parameters.optionalText("new_org_key", .stripped(length: RemoteServers.keyLength))
    let hostname = try Hostname(parameter: spelled)
    let contact = try ContactEmail(parameter: email)
    // Only the canonical spelling is accepted: lower case with hyphens.
    guard let uuid = UUID(hyphenated: id), uuid.canonical == id, uuid.isVersion4 else {
      throw APIError("Invalid UUID")
    }
    try await bouncer.countNew(uuid, from: context.clientAddress)
    let created = try await bouncer.register(
      .init(uuid: uuid, key: key, hostname: hostname, contactEmail: contact.text, newKey: newKey),
      spelled: spelled, with: parameters.undeclared)
    context.logger.info(
      "server registered",
      metadata: [
        "server": "\(hostname.text)", "org_id": "\(id)", "new": "\(created)", "rotated": "\(newKey != nil)",
      ])
    return parameters.success([.init("created", .bool(created))], noting: context.notes)
  }

  private func transfer(_ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await parameters(of: request)
    let spelled = try parameters.required("hostname")
    let secret = try await bouncer.challenge(Hostname(parameter: spelled), spelled: spelled)
    return parameters.success(
      [.init("verification_secret", .string(secret))], noting: context.notes)
  }

  private func verifyChallenge(_ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await parameters(of: request)
    let spelled = try parameters.required("hostname")
    let token = try AccessToken(parameter: try parameters.required("access_token"))
    guard let hostname = try? Hostname(spelled) else { throw APIError.noRegistration }
    let (server, key, isNew) = try await bouncer.verify(
      hostname, accessToken: token, for: context.clientAddress)
    context.logger.notice(
      isNew ? "server registered by challenge" : "server key transferred",
      metadata: ["server": "\(server.hostname)", "org_id": "\(server.uuid.canonical)"])
    return parameters.success(
      [
        .init("zulip_org_id", .string(server.uuid.canonical)), .init("zulip_org_key", .string(key)),
      ], noting: context.notes)
  }

  private func deactivate(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    let parameters = try await parameters(of: request)
    try await bouncer.servers.setDeactivated(server.id, true, byItself: true)
    context.logger.info(
      "server deactivated itself",
      metadata: ["server": "\(server.hostname)", "org_id": "\(server.uuid.canonical)"])
    return parameters.success(noting: context.notes)
  }

  private func analyticsStatus(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    let parameters = try await parameters(of: request)
    let last = try await bouncer.lastReportIDs(of: server)
    return parameters.success(
      [
        .init("last_realm_count_id", .integer(last[.realmCounts] ?? 0)),
        .init("last_installation_count_id", .integer(last[.installationCounts] ?? 0)),
        .init("last_realmauditlog_id", .integer(last[.auditEvents] ?? 0)),
      ], noting: context.notes)
  }

  private func uploadAnalytics(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    let sent = try await Parameters.read(
      from: request, limit: bouncer.http.largestBodyBytes)
    return try await bouncer.reports.inTurn(of: server.id) {
      let (upload, parameters) = try await LongRead.of(sent.bytes) {
        var parameters = sent
        return (try AnalyticsUpload(&parameters), parameters)
      }
      context.notes.record(upload.additions)
      try await bouncer.store(upload, of: server, logger: context.logger)
      let realms = (upload.realms ?? []).map { JSON.Object.Member($0.uuid.canonical, Self.pushStatus) }
      return parameters.success(
        [.init("realms", .object(JSON.Object(realms)))], noting: context.notes)
    }
  }

  /// Path of the page that a server's administrators are sent to.
  private static let infoPath = "/api/v1/remotes/about"

  /// There is nothing to bill; this links to a page that says so.
  private func billing(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = try await parameters(of: request)
    let user = try parameters.json("user")
    _ = try user["uuid"].uuid4()
    _ = try user["email"].string()
    _ = try user["full_name"].string()
    var additions = Additions()
    additions.addMembers(of: user.value, at: "user", except: ["uuid", "email", "full_name"])
    let realm = try RealmDescription(try parameters.json("realm"), at: "realm", &additions)
    for (name, choices) in [
      ("uri_scheme", ["http://", "https://"]),
      ("next_page", ["sponsorship", "upgrade", "billing", "plans", "deactivate"]),
    ] {
      if let text = parameters.optional(name), !choices.contains(text) {
        additions.addValue(text, of: name)
      }
    }
    context.notes.record(additions)
    _ = try await bouncer.realm(realm.uuid, of: server)
    let url = bouncer.publicURL() + Self.infoPath
    return parameters.success([.init("billing_access_url", .string(url))], noting: context.notes)
  }

  private func info(_ request: Request, _ context: WireContext) async throws -> Response {
    let text = """
      This push notification service is run by the people who gave you its address.
      It is free of charge and has no plans: there is nothing to buy and nothing to end.

      """
    return Response(
      status: .ok, headers: [.contentType: "text/plain; charset=utf-8"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }
}

extension Hostname {
  /// Reads the parameter `hostname`, or throws the error that says what is wrong with it.
  fileprivate init(parameter text: String) throws(APIError) {
    do {
      try self.init(text)
    } catch {
      throw APIError(error, hostname: text)
    }
  }
}

/// `push/e2ee/...` (`Documentation/Protocols/Zulip.md` 6).
extension ZulipBouncerRoutes {
  private func registerE2EE(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = try await parameters(of: request, lookedUp: "bouncer_public_key")
    let realm = UUID(pythonText: try parameters.required("realm_uuid"))
    context.notes.record(realm: realm)
    let tokenID = try parameters.required("token_id")
    let sealed = try parameters.required("encrypted_push_registration")
    let publicKey = try parameters.required("bouncer_public_key")
    let additions = try await bouncer.register(
      sealed, tokenID: TokenID(base64: tokenID), publicKey: publicKey, realm: realm,
      with: parameters.undeclared, of: server)
    context.notes.record(additions)
    return parameters.success(noting: context.notes)
  }

  private func notifyE2EE(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    let (notification, realm) = try await notification(of: request, server, context.notes)
    let query = try Parameters(query: request)
    let receipt = try await bouncer.notify(
      notification, realm: realm, of: server, since: context.received, logger: context.logger)
    return query.success(
      [
        .init("apple_successfully_sent_count", .integer(Int64(receipt.apple))),
        .init("android_successfully_sent_count", .integer(Int64(receipt.android))),
        .init("delete_token_ids", .array(receipt.gone.map { .string($0.base64) })),
        .init("realm_push_status", Self.pushStatus),
      ], noting: context.notes)
  }

  /// Reads the body of `push/e2ee/notify`.
  private func notification(
    of request: Request, _ server: RemoteServer, _ notes: RequestNotes
  ) async throws -> (NotifyRequest, realm: UUID?) {
    let mayPassOn = try await bouncer.passesOn(for: server)
    return try await Field.body(
      of: request, limit: bouncer.http.maxBodyBytes, cutBelow: NotifyRequest.depth
    ) { body in
      let realm = UUID(pythonText: try body["realm_uuid"].string())
      notes.record(realm: realm)
      let notification = try NotifyRequest(body, keepingSources: mayPassOn)
      notes.record(notification.additions)
      return (notification, realm)
    }
  }

  /// The VAPID public key, with which apps subscribe to Web Push. Stock servers do not know it: to them a
  /// subscription is a token of kind FCM (`Documentation/Protocols/Zulip.md` 6.5).
  private func vapid(_ request: Request, _ context: WireContext) async throws -> Response {
    guard let key = bouncer.deliverer.providers.vapidPublicKey else {
      throw APIError(.notFound, "Web Push is switched off at this push notification service")
    }
    return try Parameters(query: request).success(
      [.init("vapid", .string(key))], noting: context.notes)
  }
}
