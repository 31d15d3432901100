internal import Foundation
internal import HTTP
package import Logging
package import Registrations
internal import SQL
internal import Sealing

/// What chat servers report: figures, audit events and the list of their realms.
extension Bouncer {
  /// The highest ids that a server has uploaded; 0 where there are none.
  typealias AnalyticsStatus = (
    lastRealmCountID: Int64, lastInstallationCountID: Int64, lastAuditEventID: Int64
  )

  func analyticsStatus(of server: RemoteServer) async throws -> AnalyticsStatus {
    try await database.read { try $0.analyticsStatus(server: server.id) }
  }

  /// Stores an upload in one transaction, and takes over realms that have moved to the server from another.
  package func store(_ upload: AnalyticsUpload, of server: RemoteServer, logger: Logger) async throws {
    let sync = RealmSync(storageKey: storageKey, now: now)
    do {
      let takeovers = try await database.write { connection in
        try connection.run(
          Statement(
            """
            UPDATE remote_servers SET last_version = $2, last_merge_base = $3, last_api_feature_level = $4
            WHERE id = $1
            """, .integer(server.id), .text(upload.version), .text(upload.mergeBase),
            .integer(upload.apiFeatureLevel)))
        let status = try connection.analyticsStatus(server: server.id)
        try Self.check(upload.realmCounts, after: status.lastRealmCountID)
        try Self.check(upload.installationCounts, after: status.lastInstallationCountID)
        try Self.check(upload.auditEvents ?? [], after: status.lastAuditEventID)
        let takeovers = try upload.realms.map { try sync.apply($0, server: server.id, on: connection) }
        for count in upload.realmCounts + upload.installationCounts
        where CountProperty.stored.contains(count.property) {
          try connection.insert(count, server: server.id)
        }
        if let events = upload.auditEvents {
          for event in events where AnalyticsUpload.AuditEvent.stored.contains(event.eventType) {
            try connection.insert(event, server: server.id)
          }
          try connection.run(
            Statement(
              "UPDATE remote_servers SET last_audit_log_update_at = $2 WHERE id = $1",
              .integer(server.id), .integer(now().milliseconds)))
        }
        return takeovers ?? []
      }
      if let upstream = try await upstream(for: server) {
        let realms = upload.realmsText.flatMap { $0.utf8.count <= Upstream.longestRealms ? $0 : nil }
        try await upstream.links.keep(realms: realms, of: server.id)
        upstream.wake()
      }
      for takeover in takeovers {
        logger.notice(
          "realm taken over from another server",
          metadata: [
            "realm": "\(takeover.realm.canonical)", "server": "\(server.hostname)",
            "registrations_kept": "\(takeover.keepsRegistrations)",
          ])
      }
    } catch let duplicate as RealmSync.DuplicateRealm {
      throw APIError.duplicateRealm(duplicate.realm)
    }
  }

  private static func check(_ rows: [some ReportedRow], after last: Int64) throws(APIError) {
    var last = last
    for row in rows {
      guard row.remoteID > last else { throw APIError("Data is out of order.") }
      last = row.remoteID
    }
  }
}

/// A row that carries the server's own id.
private protocol ReportedRow {
  var remoteID: Int64 { get }
}

extension AnalyticsUpload.Count: ReportedRow {}
extension AnalyticsUpload.AuditEvent: ReportedRow {}

extension Connection {
  fileprivate func analyticsStatus(server: Int64) throws -> Bouncer.AnalyticsStatus {
    func last(_ table: String) throws -> Int64 {
      let statement = Statement(
        "SELECT MAX(remote_id) FROM \(table) WHERE server_id = $1", .integer(server))
      return try query(statement).first?.optionalInt64(0) ?? 0
    }
    return (
      try last("remote_realm_counts"), try last("remote_installation_counts"),
      try last("remote_realm_audit_log")
    )
  }

  fileprivate func insert(_ count: AnalyticsUpload.Count, server: Int64) throws {
    let (table, column, place) =
      count.realmID == nil
      ? ("remote_installation_counts", "", "") : ("remote_realm_counts", ", realm_id", ", $7")
    try run(
      Statement(
        """
        INSERT INTO \(table) (server_id, remote_id, property, subgroup, end_time, value\(column))
        VALUES ($1, $2, $3, $4, $5, $6\(place))
        """,
        arguments: [
          .integer(server), .integer(count.remoteID), .text(count.property), .text(count.subgroup),
          .integer(count.endTime.milliseconds), .integer(count.value),
        ] + (count.realmID.map { [.integer($0)] } ?? [])))
  }

  fileprivate func insert(_ event: AnalyticsUpload.AuditEvent, server: Int64) throws {
    guard let extraData = event.extraData else { throw APIError("Malformed audit log data") }
    try run(
      Statement(
        """
        INSERT INTO remote_realm_audit_log
          (server_id, remote_id, realm_id, event_type, event_time, backfilled, extra_data)
        VALUES ($1, $2, $3, $4, $5, $6, $7)
        """,
        .integer(server), .integer(event.remoteID), .integer(event.realmID), .integer(event.eventType),
        .integer(event.eventTime.milliseconds), .flag(event.isBackfilled), .text(extraData)))
  }
}
