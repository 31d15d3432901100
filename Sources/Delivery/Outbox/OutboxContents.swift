package import Foundation
package import Registrations
package import SQL

/// The outbox as an operator sees it: how much waits where, never what. Works beside a service that runs.
package struct OutboxContents: Sendable {
  /// Entries of a route for registrations of one kind.
  package struct Group: Sendable, Hashable {
    /// `apns`, `fcm` or `webpush`.
    package let provider: String
    /// The credential's name; of Web Push the push service.
    package let credential: String
    /// APNs topic or FCM project; empty for Web Push.
    package let target: String
    /// nil if this program does not know it.
    package let kind: RegistrationReference.Kind?
    package let count: Int
    /// Since when the oldest waits.
    package let oldestAt: Date
    /// The most tries of any of them.
    package let attempts: Int
    /// When the next is tried.
    package let dueAt: Date
    /// When the first is given up.
    package let expiresAt: Date
  }

  package struct Listing: Sendable, Hashable {
    /// Of APNs and FCM all, then of Web Push those in which most waits.
    package let groups: [Group]
    /// How many entries there are, in all.
    package let count: Int
    /// Since when the oldest waits; nil: nothing waits.
    package let oldestAt: Date?
    /// How many push services are in no group.
    package let servicesLeft: Int
    /// How many entries wait for those.
    package let entriesLeft: Int
  }

  /// How many groups of Web Push are listed: strangers choose their push services.
  package static let mostServices = 10

  /// Which entries: those that meet everything that is not nil.
  package struct Filter: Sendable, Hashable {
    /// A credential as `provider:name`, or a provider.
    package var route: String?
    package var kind: RegistrationReference.Kind?
    /// They have waited since before then.
    package var before: Date?

    package init() {}

    fileprivate var arguments: [Value] {
      [.text(route), .integer(kind?.rawValue), .integer(before?.milliseconds)]
    }
  }

  /// How many are removed at a time.
  private static let page = 500

  private let database: any Database

  package init(database: any Database) {
    self.database = database
  }

  /// What waits, by route and kind. Reads every entry.
  package func listing(_ filter: Filter = Filter()) async throws -> Listing {
    let others = try await groups(
      filter, "r.provider <> 'webpush'", "r.provider, r.credential, r.target, o.wire")
    let services = try await groups(
      filter, "r.provider = 'webpush'",
      "COUNT(*) DESC, r.credential, o.wire LIMIT \(Self.mostServices)")
    let total = try await database.query(
      Statement(
        """
        SELECT COUNT(*), COUNT(DISTINCT r.id), MIN(o.created_at)
        FROM outbox o JOIN outbox_routes r ON r.id = o.route_id WHERE r.provider = 'webpush' AND \(Self.condition)
        """, arguments: filter.arguments)
    ).first
    let (waiting, number) = (Int(try total?.int64(0) ?? 0), Int(try total?.int64(1) ?? 0))
    let groups = others + services
    return Listing(
      groups: groups, count: others.map(\.count).reduce(waiting, +),
      oldestAt: (others.map(\.oldestAt) + [try total?.optionalDate(2)].compactMap(\.self)).min(),
      servicesLeft: max(0, number - Set(services.map(\.credential)).count),
      entriesLeft: max(0, waiting - services.map(\.count).reduce(0, +)))
  }

  private func groups(_ filter: Filter, _ condition: String, _ order: String) async throws -> [Group] {
    let statement = Statement(
      """
      SELECT r.provider, r.credential, r.target, o.wire, COUNT(*), MIN(o.created_at), MAX(o.attempts),
        MIN(o.due_at), MIN(o.expires_at)
      FROM outbox o JOIN outbox_routes r ON r.id = o.route_id WHERE \(condition) AND \(Self.condition)
      GROUP BY r.provider, r.credential, r.target, o.wire ORDER BY \(order)
      """, arguments: filter.arguments)
    return try await database.query(statement).map { row in
      Group(
        provider: try row.text(0), credential: try row.text(1), target: try row.text(2),
        kind: RegistrationReference.Kind(rawValue: try row.int64(3)), count: Int(try row.int64(4)),
        oldestAt: try row.date(5), attempts: Int(try row.int64(6)), dueAt: try row.date(7),
        expiresAt: try row.date(8))
    }
  }

  /// Removes entries, also those under a sender's lease: it ends its try, and finds the entry gone when it writes down
  /// the result. What arrives meanwhile stays.
  ///
  /// - Returns: how many.
  package func drop(_ filter: Filter, progress: (_ count: Int) -> Void = { _ in }) async throws -> Int {
    let last = try await database.query(Statement("SELECT COALESCE(MAX(id), 0) FROM outbox")).first?.int64(0)
    var dropped = 0
    while true {
      let statement = Statement(
        """
        DELETE FROM outbox WHERE id IN (
          SELECT o.id FROM outbox o JOIN outbox_routes r ON r.id = o.route_id
          WHERE \(Self.condition) AND o.id <= $4 ORDER BY o.id LIMIT $5)
        """, arguments: filter.arguments + [.integer(last ?? 0), .integer(Int64(Self.page))])
      let count = try await database.write { try $0.run(statement) }
      guard count > 0 else { return dropped }
      dropped += count
      progress(dropped)
    }
  }

  /// An argument that is NULL excludes nothing. The casts tell PostgreSQL of which type such a one is.
  private static let condition = """
    (CAST($1 AS TEXT) IS NULL OR r.provider || ':' || r.credential = $1 OR r.provider = $1)
    AND (CAST($2 AS BIGINT) IS NULL OR o.wire = $2)
    AND (CAST($3 AS BIGINT) IS NULL OR o.created_at < $3)
    """
}
