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
  /// How long a chat server's call waits for an answer: stock servers wait 15 s.
  private static let patience = Duration.seconds(8)
  private static let reportLimit = Duration.seconds(30)
  /// Seconds after which the work of a sender that has died may be taken over. Longer than a report takes.
  private static let lease: TimeInterval = 110
  private static let backoff = Backoff(first: 2, longest: 900)
  /// Seconds between reports when nothing is new: as often as stock servers report.
  private static let reportInterval: TimeInterval = 3600
  /// Rows of each kind in a report.
  private static let mostRows = 500
  /// The longest list of realms that is kept, in bytes.
  static let longestRealms = 1 << 20

  let links: UpstreamLinks
  private let sender: RouteSender
  private let now: @Sendable () -> Date
  private let logger: Logger
  private let work = Worker()

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
  private func call(_ call: UpstreamCall, of server: Int64, within limit: Duration = patience) async throws
    -> JSON
  {
    let answer: UpstreamAnswer
    do {
      answer = try await sender.call(call, of: .chatServer(server), within: limit)
    } catch {
      throw Self.unavailable(host, error.outcome.reason?.description)
    }
    let json = try? JSON.parse(answer.body)
    if answer.status == 200, json?["result"]?.string == "success" { return json ?? .null }
    guard (400..<500).contains(answer.status), let message = json?["msg"]?.string else {
      throw Self.unavailable(host, "status \(answer.status)", retryAfter: answer.retryAfter)
    }
    throw APIError(
      HTTPResponse.Status(code: answer.status),
      code: String((json?["code"]?.string ?? "BAD_REQUEST").prefix(64)),
      String(message.prefix(500)), headers: answer.retryAfter.map { [.retryAfter: $0] } ?? [:])
  }

  private static func unavailable(_ host: String, _ reason: String?, retryAfter: String? = nil) -> APIError {
    APIError(
      .serviceUnavailable, code: "SERVICE_UNAVAILABLE",
      "The push notification service of the other app (\(host)) does not answer: \(reason ?? "")",
      headers: [.retryAfter: retryAfter ?? "5"])
  }

  private static func form(_ fields: [(String, String?)]) -> ByteBuffer {
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
    do {
      try await self.call(call, of: server)
    } catch let error as APIError where error.code == APIError.Code.missingRealm {
      do {
        try await report(server)
        try await self.call(call, of: server)
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
    _ token: PushToken, iosAppID: String?, of user: LegacyUser, realm: UUID?, server: Int64
  ) async -> Bool {
    let form = Self.form(token, iosAppID: iosAppID, of: user, realm: realm)
    do {
      try await call(UpstreamCall("push/register", form: form), of: server)
      return true
    } catch {
      logger.info("the other bouncer did not take an old app's token", metadata: Self.metadata(error, server))
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
    if link.key == nil, let present {
      try await links.keep(present, of: server.id)
      link = try await links.link(of: server.id) ?? link
    }
    guard let key = link.key else { return }
    // After an interrupted change it is not known which of two keys the server has.
    var keys = [key]
    if let other = link.nextKey { keys.append(other) }
    try await links.prepare(newKey, of: server.id)
    while let key = keys.first {
      keys.removeFirst()
      let form = Self.form([
        ("zulip_org_id", server.uuid.canonical), ("zulip_org_key", key), ("hostname", hostname),
        ("contact_email", contactEmail), ("new_org_key", newKey),
      ])
      do {
        try await call(UpstreamCall("server/register", form: form), of: server.id)
        return try await links.adopt(newKey, of: server.id)
      } catch let error as APIError {
        guard keys.isEmpty || error.status.kind != .clientError else { continue }
        work.wake()
        throw APIError(
          "Nothing has changed: the push notification service of the other app (\(host)) did not take the new key: "
            + error.message)
      }
    }
  }

  // MARK: Later

  /// Has work done at once that has become due.
  func wake() { work.wake() }

  /// Passes on reports and unregistrations until the task is cancelled.
  package func run() async {
    await work.run {
      let reports = try await links.reports.take(limit: 8, for: Self.lease)
      let unregistrations = try await links.lease(limit: 32, for: Self.lease)
      await withTaskGroup { group in
        for (lease, row) in reports { group.addTask { await report(lease, row) } }
        for job in unregistrations { group.addTask { await unregister(job) } }
      }
      return reports.count == 8 || unregistrations.count == 32
    } onError: { error in
      logger.warning(
        "work for the other bouncer cannot be read", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  private func report(_ lease: LeasedQueue.Lease, _ row: Row) async {
    do {
      do {
        try await report(try row.int64(0))
        try await links.reports.postpone(
          lease, until: now() + Self.reportInterval,
          changing: "attempts = 0, failure = NULL, reported_at = $5",
          .integer(now().milliseconds))
      } catch let error as APIError {
        logger.warning("the other bouncer did not take a report", metadata: Self.metadata(error, lease.id))
        let next = now() + Self.backoff.pause(after: lease.attempts)
        try await links.reports.postpone(lease, until: next, changing: "failure = $5", .text(error.message))
      }
    } catch {
      // The lease runs out, and the report is sent again.
      logger.error("a report was not passed on", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  private func unregister(_ job: UpstreamLinks.Unregistration) async {
    do {
      do {
        if let form = job.form {
          let endpoint = job.isOfAll ? "push/unregister/all" : "push/unregister"
          try await call(UpstreamCall(endpoint, form: ByteBuffer(bytes: form)), of: job.server)
        }
        try await links.finish(job)
      } catch let error as APIError where error.status == .badRequest {
        // It does not have the token.
        try await links.finish(job)
      } catch let error as APIError {
        logger.warning(
          "the other bouncer did not unregister an old app, which is tried again",
          metadata: Self.metadata(error, job.server))
        try await links.unregistrations.postpone(
          [job.lease], until: now() + Self.backoff.pause(after: job.lease.attempts))
      }
    } catch {
      logger.error(
        "an unregistration was not passed on", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  private static func metadata(_ error: any Error, _ server: Int64) -> Logger.Metadata {
    ["server": "\(server)", "reason": "\((error as? APIError)?.message ?? DatabaseError.name(of: error))"]
  }

  /// Reports what it lacks of a server: its realms, and figures and audit events from where it says.
  private func report(_ server: Int64) async throws {
    guard let link = try await links.link(of: server) else { return }
    var status = try await status(link)
    let database = links.database
    while true {
      let page = try await database.read { [status] connection in
        try connection.report(of: server, after: status, limit: Self.mostRows)
      }
      let realms = link.realms.map { ("realms", $0) }
      try await call(
        UpstreamCall("server/analytics", form: Self.form(page.fields + (realms.map { [$0] } ?? []))),
        of: server,
        within: Self.reportLimit)
      guard page.isCut else { return }
      status = page.end
    }
  }

  /// How far its records of a server go. Settles which key the server has there after an interrupted change.
  private func status(_ link: UpstreamLinks.Link) async throws -> [Int64] {
    let call = UpstreamCall(get: "server/analytics/status")
    do {
      let answer = try await self.call(call, of: link.server)
      if link.nextKey != nil, let key = link.key { try await links.adopt(key, of: link.server) }
      return try ["last_realm_count_id", "last_installation_count_id", "last_realmauditlog_id"].map {
        guard let id = answer[$0]?.integer else { throw Self.unavailable(host, "no sense") }
        return id
      }
    } catch let error as APIError {
      // The next report tries the other key.
      if error.status == .unauthorized, let next = link.nextKey, let key = link.key {
        try await links.adopt(next, or: key, of: link.server)
      }
      throw error
    }
  }
}

/// A part of a server's report.
private struct ReportPage: Sendable {
  let fields: [(String, String?)]
  /// The last ids in it.
  let end: [Int64]
  /// Whether more follows.
  let isCut: Bool
}

extension Connection {
  /// A part of what is kept of a server, as it has reported it.
  ///
  /// - Parameter last: the last ids of figures of realms and of the installation, and of audit events, that are known.
  fileprivate func report(of server: Int64, after last: [Int64], limit: Int) throws -> ReportPage {
    func rows(_ columns: String, _ table: String, after id: Int64) throws -> [Row] {
      try query(
        """
        SELECT remote_id, \(columns) FROM \(table) WHERE server_id = $1 AND remote_id > $2 ORDER BY remote_id LIMIT $3
        """, .integer(server), .integer(id), .integer(Int64(limit)))
    }
    func time(_ row: Row, _ index: Int) throws -> JSON {
      .number("\(Double(try row.int64(index)) / 1000)")
    }
    func count(_ row: Row) throws -> JSON.Object {
      [
        "id": .integer(try row.int64(0)), "property": .string(try row.text(1)),
        "subgroup": .optional(try row.optionalText(2)), "end_time": try time(row, 3),
        "value": .integer(try row.int64(4)),
      ]
    }
    let columns = "property, subgroup, end_time, value"
    let realm = try rows("\(columns), realm_id", "remote_realm_counts", after: last[0])
    let installation = try rows(columns, "remote_installation_counts", after: last[1])
    let events = try rows(
      "realm_id, event_type, event_time, backfilled, extra_data", "remote_realm_audit_log", after: last[2])
    let version = try query(
      "SELECT last_version, last_merge_base, last_api_feature_level FROM remote_servers WHERE id = $1",
      .integer(server)
    ).returned
    let pages = [realm, installation, events]
    return ReportPage(
      fields: [
        (
          "realm_counts",
          try JSON.array(
            realm.map { row in
              var json = try count(row)
              json["realm"] = .integer(try row.int64(5))
              return .object(json)
            }
          ).text
        ),
        ("installation_counts", try JSON.array(installation.map { .object(try count($0)) }).text),
        (
          "realmauditlog_rows",
          try JSON.array(
            events.map { row in
              [
                "id": .integer(try row.int64(0)), "realm": .integer(try row.int64(1)),
                "event_type": .integer(try row.int64(2)), "event_time": try time(row, 3),
                "backfilled": .bool(try row.flag(4)), "extra_data": try JSON.parse(try row.text(5)),
              ]
            }
          ).text
        ),
        ("version", try version.optionalText(0).map { JSON.string($0).text }),
        ("merge_base", try version.optionalText(1).map { JSON.string($0).text }),
        ("api_feature_level", try version.optionalInt64(2).map(String.init)),
      ],
      end: try zip(pages, last).map { try $0.last?.int64(0) ?? $1 },
      isCut: pages.contains { $0.count == limit })
  }
}
