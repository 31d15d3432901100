public import Foundation
public import SQL

/// Of which app the notifications are that users have been sent, so that one can be taken back by its
/// number alone: the newest of each user, for a month.
public struct NextcloudNotifications: Sendable {
  /// How many are remembered of a user.
  public static let maximumPerUser = 1000
  /// How long one is remembered, in seconds.
  public static let lifetime: TimeInterval = 30 * 86_400

  private let database: any Database
  private let now: @Sendable () -> Date

  /// The notifications in `database`.
  public init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
  }

  /// Remembers the app of a user's notification.
  public func remember(_ nid: Int64, app: String, user: Int64) async throws {
    let now = now().milliseconds
    try await database.write { connection in
      try connection.run(
        Statement(
          """
          INSERT INTO nextcloud_notifications (user_id, nid, app, created_at) VALUES ($1, $2, $3, $4)
          ON CONFLICT (user_id, nid) DO UPDATE SET app = excluded.app, created_at = excluded.created_at
          """, .integer(user), .integer(nid), .text(app), .integer(now)))
      try connection.run(
        Statement(
          """
          DELETE FROM nextcloud_notifications WHERE user_id = $1 AND created_at <= (
            SELECT created_at FROM nextcloud_notifications WHERE user_id = $1
            ORDER BY created_at DESC LIMIT 1 OFFSET \(Self.maximumPerUser))
          """, .integer(user)))
    }
  }

  /// The apps of those of these notifications that are remembered.
  public func apps(of nids: [Int64], user: Int64) async throws -> [Int64: String] {
    let statement = Statement(
      "SELECT nid, app FROM nextcloud_notifications WHERE user_id = $1 AND nid IN ($list)", .integer(user),
      list: nids.map { .integer($0) })
    let rows = try await database.read { try $0.query(statement) }
    return try rows.reduce(into: [:]) { try $0[try $1.int64(0)] = $1.text(1) }
  }

  /// Forgets notifications that were taken back; nil stands for all of the user's.
  public func forget(_ nids: [Int64]?, user: Int64) async throws {
    let statement =
      nids.map { nids in
        Statement(
          "DELETE FROM nextcloud_notifications WHERE user_id = $1 AND nid IN ($list)", .integer(user),
          list: nids.map { .integer($0) })
      } ?? Statement("DELETE FROM nextcloud_notifications WHERE user_id = $1", .integer(user))
    _ = try await database.execute(statement)
  }

  /// Forgets what has been remembered for ``lifetime``.
  public func removeOld() async throws {
    _ = try await database.execute(
      Statement(
        "DELETE FROM nextcloud_notifications WHERE created_at < $1",
        .integer((now() - Self.lifetime).milliseconds)))
  }
}
