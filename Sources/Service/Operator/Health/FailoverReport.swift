package import Foundation
import HTTP
package import SQL

/// What PostgreSQL promises for a failover, and what the last one may have cost.
package struct FailoverReport: Sendable, Hashable {
  package let promise: FailoverPromise
  /// The last failover that no replica was synchronous for, if that is not long ago.
  package let loss: Loss?

  /// A failover after which what was answered just before may be missing.
  package struct Loss: Sendable, Hashable {
    /// PostgreSQL's timelines before and after it, 8 hex digits.
    let before: String
    let after: String
    /// When it was noticed.
    let at: Date

    /// How long it is told of, in seconds.
    static let duration: TimeInterval = 3600

    /// nil if it was long ago.
    func ifRecent(at now: Date) -> Loss? { now.timeIntervalSince(at) < Self.duration ? self : nil }

    static let summary = "a failover may have lost what was answered just before it"

    var meaning: String {
      """
      Another PostgreSQL server has become the primary, or the database was recovered (timeline \(before), then \(after)), \
      and no replica was synchronous: what was answered in the seconds before may be lost, that is registrations, \
      notifications that waited, and changes of chat servers and users.
      """
    }

    static let advice = """
      Nothing ends because of it. A phone whose registration is lost registers again when its app is opened (Zulip's after a \
      month at the latest). If a chat server, a user or a key was added or changed just before, see whether it is there \
      (push-bouncer server list). For the next time: synchronous_standby_names at the server.
      """
  }
}

extension FailoverReport {
  /// Compares the server with what was last recorded of it, and records it: in the database, so that all nodes and later
  /// runs know it.
  ///
  /// - Returns: nil for SQLite.
  package init?(of database: any Database, now: Date) async throws {
    guard let promise = try await FailoverPromise(of: database) else { return nil }
    self.promise = promise
    guard let cluster = try await database.cluster() else {
      loss = nil
      return
    }
    let stored = try await Record.stored(in: database)
    let before = stored.flatMap(Record.init(bytes:))
    var record = Record(cluster: cluster, isSynchronous: promise == .synchronous, loss: before?.loss)
    // Another cluster was moved to, which is no failover.
    if let before, before.cluster.system == cluster.system, before.cluster.timeline != cluster.timeline,
      !before.isSynchronous
    {
      record.loss = Loss(before: before.cluster.timeline, after: cluster.timeline, at: now.stored)
    }
    if record != before { try await record.store(in: database, over: stored) }
    loss = record.loss?.ifRecent(at: now)
  }

  /// The last loss, if it is recent; changes nothing.
  static func loss(in database: any Database, now: Date) async throws -> Loss? {
    try await Record.stored(in: database).flatMap(Record.init(bytes:))?.loss?.ifRecent(at: now)
  }

  /// What is kept of the server between two looks at it.
  private struct Record: Hashable {
    let cluster: PostgreSQLCluster
    let isSynchronous: Bool
    var loss: Loss?

    init(cluster: PostgreSQLCluster, isSynchronous: Bool, loss: Loss?) {
      self.cluster = cluster
      self.isSynchronous = isSynchronous
      self.loss = loss
    }

    /// Reads what ``bytes`` has written; nil if it is malformed.
    init?(bytes: [UInt8]) {
      guard let json = try? JSON.parse(bytes), let system = json["system"]?.string,
        let timeline = json["timeline"]?.string, case .bool(let isSynchronous)? = json["synchronous"]
      else { return nil }
      cluster = PostgreSQLCluster(system: system, timeline: timeline)
      self.isSynchronous = isSynchronous
      if let before = json["before"]?.string, let after = json["after"]?.string, let at = json["at"]?.integer
      {
        loss = Loss(before: before, after: after, at: Date(milliseconds: at))
      }
    }

    private var bytes: [UInt8] {
      JSON.object([
        "system": .string(cluster.system), "timeline": .string(cluster.timeline),
        "synchronous": .bool(isSynchronous), "before": .optional(loss?.before),
        "after": .optional(loss?.after),
        "at": .optional(loss?.at.milliseconds),
      ]).bytes
    }

    static func stored(in database: any Database) async throws -> [UInt8]? {
      try await database.lookUp("SELECT value FROM metadata WHERE name = 'failover'").first?.bytes("value")
    }

    /// Does nothing if another node has stored its own meanwhile.
    func store(in database: any Database, over stored: [UInt8]?) async throws {
      try await database.execute(
        """
        INSERT INTO metadata (name, value) VALUES ('failover', $1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE metadata.value = $2
        """, .bytes(bytes), .bytes(stored ?? []))
    }
  }
}
