import Basics
import Foundation
import HTTP
import HTTPTypes
import Logging
import NIOCore
import Providers
import Registrations
import SQL

/// The calls made in the background: reports, and unregistrations of old apps.
extension UpstreamBouncer {
  /// The longest wait for an answer to a report.
  private static let reportLimit = Duration.seconds(30)
  /// Seconds after which the work of a sender that has died may be taken over. Longer than a report takes.
  private static let lease: TimeInterval = 110
  private static let backoff = Backoff(first: 2, longest: 900)
  /// Seconds between reports when nothing is new: as often as stock servers report.
  private static let reportInterval: TimeInterval = 3600
  /// Maximum number of rows of each list in a call.
  private static let mostRows = 500
  /// The time for which a report's calls go on before other servers have their turn.
  private static let turn = Duration.seconds(30)

  /// Starts work that has become due at once.
  package func wake() {
    reports.wake()
    unregistrations.wake()
  }

  /// Passes on reports and unregistrations until the task is cancelled: neither waits for the other, and no server for
  /// another's.
  package func run() async {
    await withTaskGroup { group in
      group.addTask {
        await reports.run(atOnce: UpstreamLinks.reportsAtOnce) { free, busy in
          try await links.leaseReports(free, besides: busy, for: Self.lease).map { ($0.server, $0) }
        } work: { job in
          await report(job.lease, of: job.server)
        } onError: {
          logQueueError($0)
        }
      }
      group.addTask {
        await unregistrations.run(atOnce: UpstreamLinks.unregistrationsAtOnce) { free, busy in
          try await links.leaseUnregistrations(free, besides: busy, for: Self.lease).map { ($0.server, $0) }
        } work: { job in
          await unregister(job)
        } onError: {
          logQueueError($0)
        }
      }
    }
  }

  private func logQueueError(_ error: any Error) {
    logger.warning(
      "the queues for the upstream bouncer cannot be read",
      metadata: ["error": "\(DatabaseError.name(of: error))"])
  }

  private func report(_ lease: LeasedQueue.Lease, of server: Int64) async {
    do {
      do {
        let (end, isWhole) = try await report(server, beginningUntil: .now + Self.turn)
        try await links.reports.postpone(
          lease, until: isWhole ? now() + Self.reportInterval : now(),
          changing: "attempts = 0, failure = NULL, \(UpstreamLinks.setAccepted), reported_at = $8",
          .integer(end[0]), .integer(end[1]), .integer(end[2]), .integer(now().milliseconds))
      } catch let error as APIError {
        let metadata = await metadata(error, of: server)
        logger.warning("a report to the upstream bouncer failed; it is retried", metadata: metadata)
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
        let metadata = await metadata(error, of: job.server)
        logger.warning(
          "unregistering an old app at the upstream bouncer failed; it is retried", metadata: metadata)
        try await links.unregistrations.postpone(
          [job.lease], until: now() + Self.backoff.pause(after: job.lease.attempts))
      }
    } catch {
      logger.error(
        "an unregistration was not passed on", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  /// Reports a server's realms, and the figures and audit events that the upstream bouncer does not have yet.
  ///
  /// - Parameters:
  ///   - end: the deadline, if a caller waits.
  ///   - turn: the time after which no further call is begun.
  /// - Returns: the last ids that the upstream bouncer has now, and whether these are all.
  @discardableResult
  func report(
    _ server: Int64, until end: ContinuousClock.Instant? = nil,
    beginningUntil turn: ContinuousClock.Instant? = nil
  ) async throws -> (end: [Int64], isWhole: Bool) {
    guard let link = try await links.link(of: server) else { return ([0, 0, 0], true) }
    var status = try await status(link, until: end ?? .now + Self.timeout)
    let database = links.database
    while true {
      let page = try await database.read { [status] connection in
        try connection.report(of: server, after: status, limit: Self.mostRows)
      }
      let reported: [(String, String?)] = link.reported.map { ($0.0, $0.1) }
      do {
        try await call(
          UpstreamCall("server/analytics", form: Self.form(page.fields + reported)),
          of: server, until: end ?? .now + Self.reportLimit)
      } catch let refusal as APIError where refusal.status == .badRequest {
        // Zulip's bouncer refuses rows that it has. Where it has got some meanwhile, as from another report of this server,
        // what comes after them is next.
        let latest = try await self.status(link, until: end ?? .now + Self.timeout)
        guard latest != status, zip(latest, status).allSatisfy(>=) else { throw refusal }
        status = latest
        continue
      }
      status = page.end
      guard page.isCut else { return (status, true) }
      if let turn, .now >= turn { return (status, false) }
    }
  }

  /// The last ids of a server's rows that the upstream bouncer has. After an interrupted change of keys, this also shows
  /// which key the server has there.
  @discardableResult
  func status(
    _ link: UpstreamLinks.Link, until end: ContinuousClock.Instant = .now + timeout
  ) async throws -> [Int64] {
    let call = UpstreamCall(get: "server/analytics/status")
    do {
      let answer = try await self.call(call, of: link.server, until: end)
      if link.nextKey != nil { try await links.confirmKey(link) }
      return try ["last_realm_count_id", "last_installation_count_id", "last_realmauditlog_id"].map {
        guard let id = answer[$0]?.integer else { throw Self.unavailable(host, "malformed answer") }
        return id
      }
    } catch let error as APIError {
      // The next report tries the other key.
      if error.status == .unauthorized, link.nextKey != nil { try await links.swapKeys(link) }
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
  /// A part of a server's report from what is stored.
  ///
  /// - Parameter last: the last ids that the upstream bouncer has: of figures of realms, of figures of the installation, and
  ///   of audit events.
  fileprivate func report(of server: Int64, after last: [Int64], limit: Int) throws -> ReportPage {
    func rows(_ columns: String, _ table: String, after id: Int64) throws -> [Row] {
      try query(
        """
        SELECT remote_id, \(columns) FROM \(table) WHERE server_id = $1 AND remote_id > $2 ORDER BY remote_id LIMIT $3
        """, .integer(server), .integer(id), .integer(Int64(limit)))
    }
    func time(_ row: Row, _ column: String) throws -> JSON {
      .number("\(Double(try row.int64(column)) / 1000)")
    }
    func count(_ row: Row) throws -> JSON.Object {
      [
        "id": .integer(try row.int64("remote_id")), "property": .string(try row.text("property")),
        "subgroup": .optional(try row.optionalText("subgroup")), "end_time": try time(row, "end_time"),
        "value": .integer(try row.int64("value")),
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
              json["realm"] = .integer(try row.int64("realm_id"))
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
                "id": .integer(try row.int64("remote_id")), "realm": .integer(try row.int64("realm_id")),
                "event_type": .integer(try row.int64("event_type")),
                "event_time": try time(row, "event_time"),
                "backfilled": .bool(try row.flag("backfilled")),
                "extra_data": try JSON.parse(try row.text("extra_data")),
              ]
            }
          ).text
        ),
        ("version", try version.optionalText("last_version").map { JSON.string($0).text }),
        ("merge_base", try version.optionalText("last_merge_base").map { JSON.string($0).text }),
        ("api_feature_level", try version.optionalInt64("last_api_feature_level").map(String.init)),
      ],
      end: try zip(pages, last).map { try $0.last?.int64("remote_id") ?? $1 },
      isCut: pages.contains { $0.count == limit })
  }
}
