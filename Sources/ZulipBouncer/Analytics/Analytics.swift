package import Foundation
import Registrations
package import SQL
package import Sealing

/// What chat servers report: figures, events and the list of their realms.
package struct Analytics: Sendable {
  /// Why an upload is turned down. Nothing of it is kept then.
  enum Refusal: Error, Hashable {
    /// A count of something that no server counts.
    case unknownProperty(String)
    /// An event of a kind that is not reported.
    case unknownEventType
    /// An id that is not beyond the last one.
    case outOfOrder
    /// Details of an event that are no JSON.
    case malformedAuditData
  }

  /// The highest ids that a server has uploaded, 0 where there are none.
  struct Status {
    /// Of its realms' counts.
    let lastRealmCountID: Int64
    /// Of its own counts.
    let lastInstallationCountID: Int64
    /// Of its audit events.
    let lastAuditEventID: Int64
  }

  private let database: any Database
  private let realms: RealmSync
  private let now: @Sendable () -> Date

  /// The reports in `database`.
  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    realms = RealmSync(storageKey: storageKey, now: now)
    self.now = now
  }

  /// How far a server has come.
  func status(server: Int64) async throws -> Status {
    try await database.read { connection in
      Status(
        lastRealmCountID: try connection.lastID(.realmCounts, server: server),
        lastInstallationCountID: try connection.lastID(.installationCounts, server: server),
        lastAuditEventID: try connection.lastID(.auditLog, server: server))
    }
  }

  /// Keeps an upload, all of it or nothing.
  ///
  /// - Returns: the realms that were another server's.
  /// - Throws: ``Refusal``, ``RealmSync/DuplicateRealm``, or the database's own error.
  @discardableResult
  func store(_ upload: AnalyticsUpload, server: Int64) async throws -> [RealmSync.Takeover] {
    try await database.write { connection in
      try storeVersion(upload, server: server, on: connection)
      try checkCounts(upload.realmCounts, .realmCounts, server: server, on: connection)
      try checkCounts(upload.installationCounts, .installationCounts, server: server, on: connection)
      try checkEvents(upload.auditEvents ?? [], server: server, on: connection)
      let takeovers = try upload.realms.map { try realms.apply($0, server: server, on: connection) }
      try insertCounts(upload.realmCounts, server: server, on: connection)
      try insertCounts(upload.installationCounts, server: server, on: connection)
      if let events = upload.auditEvents { try insertEvents(events, server: server, on: connection) }
      return takeovers ?? []
    }
  }

  private func storeVersion(_ upload: AnalyticsUpload, server: Int64, on connection: any Connection) throws {
    try connection.run(
      Statement(
        """
        UPDATE remote_servers SET last_version = $2, last_merge_base = $3, last_api_feature_level = $4
        WHERE id = $1
        """,
        .integer(server), .text(upload.version), .text(upload.mergeBase), .integer(upload.apiFeatureLevel)))
  }

  private func checkCounts(
    _ counts: [AnalyticsUpload.Count], _ table: ReportTable, server: Int64, on connection: any Connection
  ) throws {
    guard !counts.isEmpty else { return }
    var last = try connection.lastID(table, server: server)
    for count in counts {
      guard CountProperty.accepted.contains(count.property) else {
        throw Refusal.unknownProperty(count.property)
      }
      guard count.remoteID > last else { throw Refusal.outOfOrder }
      last = count.remoteID
    }
  }

  private func checkEvents(
    _ events: [AnalyticsUpload.AuditEvent], server: Int64, on connection: any Connection
  ) throws {
    guard !events.isEmpty else { return }
    var last = try connection.lastID(.auditLog, server: server)
    for event in events {
      guard reportedEventTypes.contains(event.eventType) else { throw Refusal.unknownEventType }
      guard event.remoteID > last else { throw Refusal.outOfOrder }
      last = event.remoteID
    }
  }

  private func insertCounts(
    _ counts: [AnalyticsUpload.Count], server: Int64, on connection: any Connection
  ) throws {
    for count in counts where CountProperty.stored.contains(count.property) {
      let shared: [Value] = [
        .integer(server), .integer(count.remoteID), .text(count.property), .text(count.subgroup),
        .integer(count.endTime.milliseconds), .integer(count.value),
      ]
      if let realm = count.realmID {
        try connection.run(Statement(insertRealmCount, arguments: shared + [.integer(realm)]))
      } else {
        try connection.run(Statement(insertInstallationCount, arguments: shared))
      }
    }
  }

  private func insertEvents(
    _ events: [AnalyticsUpload.AuditEvent], server: Int64, on connection: any Connection
  ) throws {
    for event in events {
      guard let extraData = event.extraData else { throw Refusal.malformedAuditData }
      try connection.run(
        Statement(
          """
          INSERT INTO remote_realm_audit_log
            (server_id, remote_id, realm_id, event_type, event_time, backfilled, extra_data)
          VALUES ($1, $2, $3, $4, $5, $6, $7)
          """,
          .integer(server), .integer(event.remoteID), .integer(event.realmID), .integer(event.eventType),
          .integer(event.eventTime.milliseconds), .flag(event.isBackfilled), .text(extraData)))
    }
    try connection.run(
      Statement(
        "UPDATE remote_servers SET last_audit_log_update_at = $2 WHERE id = $1",
        .integer(server), .integer(now().milliseconds)))
  }
}

private let insertRealmCount = """
  INSERT INTO remote_realm_counts (server_id, remote_id, property, subgroup, end_time, value, realm_id)
  VALUES ($1, $2, $3, $4, $5, $6, $7)
  """
private let insertInstallationCount = """
  INSERT INTO remote_installation_counts (server_id, remote_id, property, subgroup, end_time, value)
  VALUES ($1, $2, $3, $4, $5, $6)
  """

/// The tables whose rows carry the server's own ids.
enum ReportTable: String {
  case realmCounts = "remote_realm_counts"
  case installationCounts = "remote_installation_counts"
  case auditLog = "remote_realm_audit_log"
}

extension Connection {
  /// The highest id that a server has uploaded to a table, 0 if there is none.
  func lastID(_ table: ReportTable, server: Int64) throws -> Int64 {
    let rows = try query(
      Statement("SELECT MAX(remote_id) FROM \(table.rawValue) WHERE server_id = $1", .integer(server)))
    return try rows.first?.optionalInt64(0) ?? 0
  }
}
