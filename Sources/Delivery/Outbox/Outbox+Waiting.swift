package import Foundation
package import Providers
import Registrations
import SQL

/// What waits, and for how long.
extension Outbox {
  /// How many entries there are.
  package var count: Int { depth.total }

  /// How many wait for the routes of a credential.
  package func count(of provider: Route.Provider, credential: String) -> Int {
    depth.count(of: provider, credential: credential)
  }

  /// How many wait for each route of a provider, where any does.
  package func counts(of provider: Route.Provider) -> [Route: Int] { depth.counts(of: provider) }

  /// How many wait for a route.
  package func count(for route: Route) -> Int { depth.count(of: route) }

  /// Since when the entry that came first has been there; nil where there is none. One that a newer
  /// notification has replaced counts from then.
  package func oldest() async throws -> Date? {
    let statement = Statement("SELECT created_at FROM outbox ORDER BY id LIMIT 1")
    return try await database.query(statement).first.map { Date(milliseconds: try $0.int64(0)) }
  }

  /// The same as ``oldest()`` of those that were tried again or are overdue: not of one whose time was set ahead when
  /// it came, by its chat server's pace or by the provider. Nor of Web Push: whose push service is gone for good waits
  /// in vain, and that is nobody else's matter.
  ///
  /// Only so many are looked at.
  package func oldestLate() async throws -> Date? {
    let strangers = counts(of: .webPush).values.reduce(0, +)
    let others = count - strangers
    guard others > 0 else { return nil }
    // Few among many are found by their routes; many are looked at in the order in which they came.
    let first =
      others <= Self.few
      ? """
      SELECT id, created_at, due_at, attempts FROM outbox
      WHERE route_id IN (SELECT id FROM outbox_routes WHERE provider <> 'webpush')
      """
      : """
      SELECT o.id, o.created_at, o.due_at, o.attempts FROM (
        SELECT id, route_id, created_at, due_at, attempts FROM outbox ORDER BY id
        LIMIT \(strangers == 0 ? Self.few : 10 * Self.few)
      ) AS o JOIN outbox_routes r ON r.id = o.route_id WHERE r.provider <> 'webpush'
      """
    let statement = Statement(
      """
      SELECT created_at FROM (\(first)) AS first
      WHERE attempts > 2 OR due_at <= $1 OR due_at - created_at <= $2 ORDER BY id LIMIT 1
      """, .integer(now().milliseconds - 60_000), .integer(Self.longestFirstPause))
    return try await database.query(statement).first.map { Date(milliseconds: try $0.int64(0)) }
  }

  private static let few = 5000
  /// Milliseconds; more than from any first try to the second, where nobody has set the time.
  private static let longestFirstPause: Int64 = 120_000
}
