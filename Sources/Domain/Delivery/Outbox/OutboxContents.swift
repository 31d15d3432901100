import Basics
package import Foundation
import HTTPClient
import Providers
package import Registrations
package import SQL

/// A summary of the outbox for an operator: the numbers of entries by route, without their contents. It may be used beside
/// a running service.
package struct OutboxContents: Sendable {
  /// Entries of a route for registrations of one kind that wait for the same reason.
  package struct Group: Sendable, Hashable {
    /// A ``Route/Provider``.
    package let provider: String
    /// Name of the credential; for Web Push the push service.
    package let credential: String
    /// APNs topic or FCM project; empty for Web Push.
    package let target: String
    /// The kind of registration; nil if this program does not know it.
    package let wire: Wire?
    /// The reason why they wait: its name at the last try.
    package let reason: String?
    package let count: Int
    /// When the oldest entry was stored.
    package let oldestAt: Date
    /// Highest number of tries of any entry.
    package let attempts: Int
    /// When the next entry is due.
    package let dueAt: Date
    /// When the first entry expires.
    package let expiresAt: Date
  }

  /// The entries by route and kind.
  package struct Listing: Sendable, Hashable {
    /// All groups, those of push services at the end: of these the ones with the most entries.
    package let groups: [Group]
    /// Number of all entries.
    package let count: Int
    /// When the oldest entry was stored; nil if there are none.
    package let oldestAt: Date?
    /// Number of push services left out of `groups`.
    package let servicesLeft: Int
    /// Number of entries for those.
    package let entriesLeft: Int
  }

  /// A chat server of which notifications wait because it sends more than its pace allows.
  package struct ServerOverPace: Sendable, Hashable {
    /// Its row.
    package let id: Int64
    package let uuid: String
    package let hostname: String
    package let waiting: Int
  }

  /// Maximum number of groups of push services in a listing, since anybody can name a push service.
  package static let mostServices = 10

  /// Selects entries that meet every condition that is not nil.
  package struct Filter: Sendable, Hashable {
    /// A credential as `provider:name`, or a provider.
    package var route: String?
    package var wire: Wire?
    /// The time before which entries were stored.
    package var before: Date?

    package init() {}

    fileprivate var arguments: [Value] {
      [.text(route), .integer(wire?.rawValue), .integer(before?.milliseconds)]
    }
  }

  /// Number of entries removed in one transaction.
  private static let page = 500

  private let database: any Database

  package init(database: any Database) {
    self.database = database
  }

  /// Lists the entries by route and kind. Reads the whole outbox.
  package func listing(_ filter: Filter = Filter()) async throws -> Listing {
    let others = try await groups(
      filter, "r.provider NOT IN (\(Route.Provider.ofHosts))",
      "r.provider, r.credential, r.target, o.wire, o.reason")
    let services = try await groups(
      filter, "r.provider IN (\(Route.Provider.ofHosts))",
      "COUNT(*) DESC, r.credential, o.wire, o.reason LIMIT \(Self.mostServices)")
    let total = try await database.query(
      Statement(
        """
        SELECT COUNT(*) AS waiting, COUNT(DISTINCT r.id) AS services, MIN(o.created_at) AS oldest_at
        FROM outbox o JOIN outbox_routes r ON r.id = o.route_id WHERE r.provider IN (\(Route.Provider.ofHosts)) AND \(Self.condition)
        """, arguments: filter.arguments)
    ).first
    let waiting = Int(try total?.int64("waiting") ?? 0)
    let number = Int(try total?.int64("services") ?? 0)
    let groups = others + services
    return Listing(
      groups: groups, count: others.map(\.count).reduce(waiting, +),
      oldestAt: (others.map(\.oldestAt) + [try total?.optionalDate("oldest_at")].compactMap(\.self)).min(),
      servicesLeft: max(0, number - Set(services.map(\.credential)).count),
      entriesLeft: max(0, waiting - services.map(\.count).reduce(0, +)))
  }

  private func groups(_ filter: Filter, _ condition: String, _ order: String) async throws -> [Group] {
    let statement = Statement(
      """
      SELECT r.provider, r.credential, r.target, o.wire, COUNT(*) AS count, MIN(o.created_at) AS oldest_at,
        MAX(o.attempts) AS attempts, MIN(o.due_at) AS due_at, MIN(o.expires_at) AS expires_at, o.reason
      FROM outbox o JOIN outbox_routes r ON r.id = o.route_id WHERE \(condition) AND \(Self.condition)
      GROUP BY r.provider, r.credential, r.target, o.wire, o.reason ORDER BY \(order)
      """, arguments: filter.arguments)
    return try await database.query(statement).map { row in
      Group(
        provider: try row.text("provider"), credential: try row.text("credential"),
        target: try row.text("target"),
        wire: Wire(rawValue: try row.int64("wire")),
        reason: try row.optionalText("reason"),
        count: Int(try row.int64("count")),
        oldestAt: try row.date("oldest_at"), attempts: Int(try row.int64("attempts")),
        dueAt: try row.date("due_at"),
        expiresAt: try row.date("expires_at"))
    }
  }

  /// The chat servers over their pace, those of which most waits first.
  package func serversOverPace() async throws -> [ServerOverPace] {
    let counted = try await database.query(
      Statement(
        """
        SELECT r.owner, COUNT(*) AS waiting FROM outbox_routes r JOIN outbox o ON o.route_id = r.id
        WHERE o.reason = $1 GROUP BY r.owner
        """, .text(Reason.serverOverPace.rawValue)))
    let counts = try counted.reduce(into: [Int64: Int]()) { counts, row in
      guard let server = Owner(id: try row.int64("owner")).chatServer else { return }
      counts[server] = Int(try row.int64("waiting"))
    }
    guard !counts.isEmpty else { return [] }
    return try await database.query(
      "SELECT id, uuid, hostname FROM remote_servers WHERE id IN ($list)",
      list: counts.keys.map { .integer($0) }
    ).map { row in
      let id = try row.int64("id")
      return ServerOverPace(
        id: id, uuid: try row.text("uuid"), hostname: try row.text("hostname"), waiting: counts[id] ?? 0)
    }.sorted { ($1.waiting, $0.hostname) < ($0.waiting, $1.hostname) }
  }

  /// Removes entries, including leased ones: a sender finishes its try and finds the entry gone when it
  /// records the result. Entries stored meanwhile stay.
  ///
  /// - Returns: how many were removed.
  package func drop(_ filter: Filter, progress: (_ count: Int) -> Void = { _ in }) async throws -> Int {
    let last = try await database.query("SELECT COALESCE(MAX(id), 0) AS last FROM outbox").first?.int64(
      "last")
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

  /// A NULL argument excludes nothing. The casts tell PostgreSQL the type of such an argument.
  private static let condition = """
    (CAST($1 AS TEXT) IS NULL OR r.provider || ':' || r.credential = $1 OR r.provider = $1)
    AND (CAST($2 AS BIGINT) IS NULL OR o.wire = $2)
    AND (CAST($3 AS BIGINT) IS NULL OR o.created_at < $3)
    """
}

extension Route.Provider {
  /// For SQL: the names of those that have hosts.
  static let ofHosts = allCases.filter { $0.definition.hasHosts }.map { "'\($0.rawValue)'" }.joined(
    separator: ", ")
}
