package import Foundation
package import Registrations
package import SQL
import Storage

/// The outbox as an operator sees it: how much waits where, never what. Works beside a service that runs.
package struct OutboxContents: Sendable {
  /// Entries of a route for registrations of one kind.
  package struct Group: Sendable, Hashable {
    /// `apns` or `fcm`.
    package let provider: String
    /// The credential's name.
    package let credential: String
    /// APNs topic or FCM project.
    package let target: String
    /// nil if this program does not know it.
    package let kind: RegistrationReference.Kind?
    /// How many.
    package let count: Int
    /// Since when the oldest waits.
    package let oldestAt: Date
    /// The most that any of them has been tried.
    package let attempts: Int
    /// When the next is tried.
    package let dueAt: Date
    /// When the first is given up.
    package let expiresAt: Date
  }

  /// Which entries; those that are all of it.
  package struct Filter: Sendable, Hashable {
    /// The credential as `provider:name`.
    package var route: String?
    package var kind: RegistrationReference.Kind?
    /// Those that have waited since before then.
    package var before: Date?

    /// All of them.
    package init() {}
  }

  /// How many are removed at a time.
  private static let page = 500

  private let database: any Database

  /// That in `database`.
  package init(database: any Database) {
    self.database = database
  }

  /// What waits, by route and kind. Reads every entry.
  package func groups(_ filter: Filter = Filter()) async throws -> [Group] {
    let statement = Statement(
      """
      SELECT r.provider, r.credential, r.target, o.registration_kind, COUNT(*), MIN(o.created_at), MAX(o.attempts),
        MIN(o.due_at), MIN(o.expires_at)
      FROM outbox o JOIN outbox_routes r ON r.id = o.route_id WHERE \(Self.condition)
      GROUP BY r.provider, r.credential, r.target, o.registration_kind
      ORDER BY r.provider, r.credential, r.target, o.registration_kind
      """, arguments: filter.arguments)
    return try await database.query(statement).map { row in
      Group(
        provider: try row.text(0), credential: try row.text(1), target: try row.text(2),
        kind: RegistrationReference.Kind(rawValue: try row.int64(3)), count: Int(try row.int64(4)),
        oldestAt: try row.date(5), attempts: Int(try row.int64(6)), dueAt: try row.date(7),
        expiresAt: try row.date(8))
    }
  }

  /// Removes entries: nobody gets what they held. One that a sender has under lease goes too; it ends its try, and finds
  /// the entry gone when it writes down what became of it. What comes meanwhile stays.
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
    (CAST($1 AS TEXT) IS NULL OR r.provider || ':' || r.credential = $1)
    AND (CAST($2 AS BIGINT) IS NULL OR o.registration_kind = $2)
    AND (CAST($3 AS BIGINT) IS NULL OR o.created_at < $3)
    """
}

extension OutboxContents.Filter {
  fileprivate var arguments: [Value] {
    [.text(route), .integer(kind?.rawValue), .integer(before?.milliseconds)]
  }
}
