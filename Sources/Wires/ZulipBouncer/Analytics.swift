package import Basics
package import Foundation
import HTTP
package import Logging
package import Registrations
import SQL
import Sealing

/// Storing of chat servers' reports: figures, audit events and the list of their realms.
extension Bouncer {
  /// The last ids of a server's reports that are stored.
  func lastReportIDs(of server: RemoteServer) async throws -> Reports.LastIDs {
    try await Reports(database: database).lastIDs(of: server.id)
  }

  /// Stores an upload, and takes over realms that have moved to the server from another. It is checked as a whole, and stored
  /// in order of ids in short transactions, between which others write. If it is interrupted, the server learns from
  /// `server/analytics/status` where to continue.
  package func store(_ upload: AnalyticsUpload, of server: RemoteServer, logger: Logger) async throws {
    do {
      try upload.check()
      let end: (any Error)?
      do {
        try await keep(upload, of: server, logger)
        end = nil
      } catch let error as ReportIntake.Excess { end = error }
      // What was stored is passed on, even if the rest was refused.
      try await passOnReport(realms: upload.realmsText, with: upload.more, of: server)
      if let end { throw end }
    } catch let duplicate as RealmSync.DuplicateRealm {
      throw APIError.duplicateRealm(duplicate.realm)
    } catch is RealmSync.TooManyRealms {
      throw APIError("A server can have \(RealmSync.mostRealms) organizations here, deleted ones among them")
    } catch let excess as ReportIntake.Excess {
      throw excess.refusal
    }
  }

  private func keep(_ upload: AnalyticsUpload, of server: RemoteServer, _ logger: Logger) async throws {
    let sync = RealmSync(storageKey: storageKey, now: now)
    var upload = upload
    // Rows that are not known here are stored only for the upstream bouncer.
    if try await !passesOn(for: server) { upload.dropUnknownRows() }
    let lastIDs = try await lastReportIDs(of: server)
    var (kept, differing) = (0, 0)
    for part in parts(of: upload, after: lastIDs, server.id, sync) {
      let wait = reports.count(max(1, part.newRows), of: server.id)
      guard wait == 0 else {
        throw ReportIntake.Excess(kept: kept, rows: upload.storedCount, seconds: wait)
      }
      differing += try await write(part.steps, of: server, logger)
      kept += part.rows
    }
    if differing > 0, reports.mayWarnOfDifferences(of: server.id) {
      logger.warning(
        "a server reports rows again, with other values: those stored first stay",
        metadata: [
          "server": "\(server.hostname)", "rows": "\(differing)",
          "advice": "see whether the server's database was put back to an earlier state",
        ])
    }
    guard let realms = upload.realms else { return }
    let missing = try await database.read {
      try RealmSync.missing(from: realms, server: server.id, on: $0)
    }
    for part in missing.parts(of: ReportPart.realms) {
      let step: ReportPart.Step = { .init(try sync.markDeleted(part, server: server.id, on: $0)) }
      _ = try await write([step], of: server, logger)
    }
  }

  /// - Returns: the number of rows that differ from stored ones with their ids.
  private func write(
    _ steps: [ReportPart.Step], of server: RemoteServer, _ logger: Logger
  ) async throws -> Int {
    let results = try await database.write { connection in try steps.map { try $0(connection) } }
    let changes = results.map(\.changes)
    _ = reports.count(changes.reduce(0) { $0 + $1.rows }, of: server.id)
    for takeover in changes.flatMap(\.takeovers) {
      logger.notice(
        "realm taken over from another server",
        metadata: [
          "realm": "\(takeover.realm.canonical)", "server": "\(server.hostname)",
          "registrations_kept": "\(takeover.keepsRegistrations)",
        ])
    }
    return results.reduce(0) { $0 + $1.differing }
  }

  /// An upload in the order in which it is stored. A short one is one part.
  private func parts(
    of upload: AnalyticsUpload, after lastIDs: Reports.LastIDs, _ server: Int64, _ sync: RealmSync
  ) -> [ReportPart] {
    var parts = [ReportPart()]
    parts.add { connection in
      try connection.run(
        Statement(
          """
          UPDATE remote_servers SET last_version = $2, last_merge_base = $3, last_api_feature_level = $4
          WHERE id = $1
          """, .integer(server), .text(upload.version), .text(upload.mergeBase),
          .integer(upload.apiFeatureLevel)))
      guard try !Reports.isFull(of: server, on: connection) else {
        throw ReportIntake.Excess(kept: 0, rows: upload.storedCount, seconds: 3600)
      }
      return .init()
    }
    let realms = upload.realms ?? []
    for part in realms.parts(of: ReportPart.realms) {
      parts.add(size: 4 * part.count) {
        .init(try sync.apply(part, of: realms, server: server, on: $0))
      }
    }
    for (list, rows) in upload.storedRows {
      for part in rows.parts(of: ReportPart.size) {
        let new = part.reduce(0) { $1.id > lastIDs[list] ?? 0 ? $0 + $1.weight : $0 }
        parts.add(size: part.count, rows: part.count, newRows: new) {
          .init(differing: try Reports.keep(part, in: list, of: server, on: $0))
        }
      }
    }
    if upload.auditEvents != nil {
      let now = now()
      parts.add { connection in
        try connection.run(
          "UPDATE remote_servers SET last_audit_log_update_at = $2 WHERE id = $1", .integer(server),
          .integer(now.milliseconds))
        return .init()
      }
    }
    return parts
  }
}

/// The limits of chat servers' reports (`Documentation/Decisions` 0032).
package struct ReportIntake: Sendable {
  /// Thrown if a report has more rows than are stored now.
  struct Excess: Error {
    /// Number of the report's rows that were stored.
    let kept: Int
    /// Number of the report's rows.
    let rows: Int
    /// Seconds until the next are accepted.
    let seconds: TimeInterval

    /// The answer, a 503. After a 5xx a stock server sends the rest an hour later; after a 4xx it would report push
    /// notifications as switched off.
    var refusal: APIError {
      let wait = Int(max(60, seconds).rounded(.up))
      return .unavailable(
        """
        A server reports more here than is kept: \(kept) of \(rows) rows of this report are. Send the rest after \(wait) \
        seconds
        """, retryAfter: wait)
    }
  }

  /// The longest wait for other reports. Stock servers wait 90 s for an answer.
  private static let queueTimeout = Duration.seconds(30)

  /// Limits the reports that are parsed and stored at a time to two, and to one of each server.
  package let places = FairSemaphore<Int64>(2, each: 1)
  private let rate: CellRate<Int64>
  private let warnings: Rate<Int64>

  /// - Parameters:
  ///   - limit: maximum number of a server's rows; nil for no limit. The default is what a stock server with ten thousand
  ///     realms reports.
  ///   - burst: how many times the limit a server may report at once, such as years of history.
  package init(
    _ limit: RateLimit? = RateLimit(calls: 60_000, seconds: 3600), burst: Double = 5,
    now: @escaping @Sendable () -> Date
  ) {
    rate = CellRate(limit, windows: burst - 1, now: now)
    warnings = Rate(RateLimit(calls: 1, seconds: 86_400), now: now)
  }

  /// Runs `body` when it is the server's turn.
  func inTurn<Result>(of server: Int64, _ body: () async throws -> Result) async throws -> Result {
    guard try await places.acquire(1, of: server, within: Self.queueTimeout) else {
      throw APIError.unavailable("Other reports come first. Report again later", retryAfter: 60)
    }
    defer { places.release(1, of: server) }
    return try await body()
  }

  /// Counts rows of a server that are to be stored.
  ///
  /// - Returns: seconds until they may be stored; 0 if they may now, and are counted.
  func count(_ rows: Int, of server: Int64) -> TimeInterval { rate.book(rows, of: server).excess }

  /// Whether the log may say that a server's repeated rows differ: once a day.
  func mayWarnOfDifferences(of server: Int64) -> Bool { warnings.count(server).retryAfter == nil }
}

/// A part of a report that is stored in one transaction.
private struct ReportPart {
  typealias Step = @Sendable (any Connection) throws -> Result

  struct Result: Sendable {
    var changes: RealmSync.Changes
    /// Number of rows that differ from stored ones with their ids.
    var differing: Int

    init(_ changes: RealmSync.Changes = .init(), differing: Int = 0) {
      self.changes = changes
      self.differing = differing
    }
  }

  /// Maximum number of rows, whose storing takes a few milliseconds.
  static let size = 256
  /// Maximum number of realms, each of which takes several statements.
  static let realms = size / 4

  var steps: [Step] = []
  /// Number of rows, with a realm counted as four.
  var size = 0
  /// Number of rows without realms.
  var rows = 0
  /// Number of those that come after what is stored, counted by weight.
  var newRows = 0
}

extension [ReportPart] {
  /// Adds a step to the last part, or to a new one if it would be too long.
  fileprivate mutating func add(
    size: Int = 0, rows: Int = 0, newRows: Int = 0, _ step: @escaping ReportPart.Step
  ) {
    if self[count - 1].size + size > ReportPart.size { append(ReportPart()) }
    self[count - 1].steps.append(step)
    self[count - 1].size += size
    self[count - 1].rows += rows
    self[count - 1].newRows += newRows
  }
}

extension Array {
  fileprivate func parts(of size: Int) -> [ArraySlice<Element>] {
    stride(from: 0, to: count, by: size).map { self[$0..<Swift.min($0 + size, count)] }
  }
}

extension AnalyticsUpload {
  /// Checks what can be wrong whatever is stored.
  fileprivate func check() throws {
    for ids in [
      realmCounts.map(\.remoteID), installationCounts.map(\.remoteID), (auditEvents ?? []).map(\.remoteID),
    ] {
      guard zip([0] + ids, ids).allSatisfy(<) else { throw APIError("Data is out of order.") }
    }
    guard (auditEvents ?? []).allSatisfy({ !$0.isKnown || $0.extraData != nil }) else {
      throw APIError("Malformed audit log data")
    }
    var names: Set<UUID> = []
    for realm in realms ?? [] where !names.insert(realm.uuid).inserted {
      throw RealmSync.DuplicateRealm(realm: realm.uuid)
    }
  }

  fileprivate var storedRows: [(list: Reports.List, rows: [Reports.Row])] {
    [
      (.realmCounts, realmCounts.filter(\.isStored).map(\.row)),
      (.installationCounts, installationCounts.filter(\.isStored).map(\.row)),
      (.auditEvents, (auditEvents ?? []).filter(\.isStored).map(\.row)),
    ]
  }

  fileprivate var storedCount: Int {
    realmCounts.count(where: \.isStored) + installationCounts.count(where: \.isStored)
      + (auditEvents ?? []).count(where: \.isStored)
  }
}

extension AnalyticsUpload {
  /// Leaves only the ids of rows that are not known here.
  fileprivate mutating func dropUnknownRows() {
    for index in realmCounts.indices where !realmCounts[index].isKnown { realmCounts[index].isWhole = false }
    for index in installationCounts.indices where !installationCounts[index].isKnown {
      installationCounts[index].isWhole = false
    }
    auditEvents = auditEvents.map { events in
      events.map { event in
        var event = event
        event.isWhole = event.isKnown
        return event
      }
    }
  }
}

extension AnalyticsUpload.Count {
  fileprivate var isKnown: Bool { CountProperty.stored.contains(property) }
  fileprivate var isStored: Bool { isKnown || isWhole && !CountProperty.dropped.contains(property) }

  fileprivate var row: Reports.Row {
    Reports.Row(
      id: remoteID,
      (realmID.map { [.integer($0)] } ?? []) + [
        .text(property), .text(subgroup), .integer(endTime.milliseconds), .integer(value),
      ])
  }
}

extension AnalyticsUpload.AuditEvent {
  fileprivate var isKnown: Bool { Self.stored.contains(eventType) }
  fileprivate var isStored: Bool { isKnown || isWhole }

  fileprivate var row: Reports.Row {
    Reports.Row(
      id: remoteID,
      [
        .integer(realmID), .integer(eventType), .integer(eventTime.milliseconds), .flag(isBackfilled),
        .text(extraData ?? ""),
      ])
  }
}
