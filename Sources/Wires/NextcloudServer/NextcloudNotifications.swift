package import Foundation
import Registrations
package import SQL
package import Sealing

/// Notifications of the Nextcloud side's users, stored until they are deleted. Apps fetch them by number,
/// because a push holds little, and deletions name only the number. Subject and message are sealed.
package struct NextcloudNotifications: Sendable {
  /// Number of each user's newest notifications that are kept.
  private static let maximumPerUser = 1000

  /// A stored notification.
  struct Entry {
    let notification: NextcloudNotification
    /// The time at which it was last sent.
    let sentAt: Date
  }

  private let database: any Database
  private let storageKey: StorageKey
  private let now: @Sendable () -> Date

  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// Stores a user's notification and replaces one with the same number.
  package func keep(_ notification: NextcloudNotification, user: Int64) async throws {
    func sealed(_ text: String, _ column: SealedColumn) -> Value {
      .bytes(storageKey.seal(text, at: column.place(.integer(user), .integer(notification.nid))))
    }
    let insertion = Statement(
      """
      INSERT INTO nextcloud_notifications
        (user_id, nid, app, created_at, subject, message, object_type, object_id)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
      ON CONFLICT (user_id, nid) DO UPDATE SET app = excluded.app, created_at = excluded.created_at,
        subject = excluded.subject, message = excluded.message, object_type = excluded.object_type,
        object_id = excluded.object_id
      """, .integer(user), .integer(notification.nid), .text(notification.app),
      .integer(now().milliseconds), sealed(notification.subject, .notificationSubject),
      sealed(notification.message, .notificationMessage), sealed(notification.type, .notificationObjectType),
      sealed(notification.id, .notificationObjectID))
    let removal = Statement(
      """
      DELETE FROM nextcloud_notifications WHERE user_id = $1 AND created_at <= (
        SELECT created_at FROM nextcloud_notifications WHERE user_id = $1
        ORDER BY created_at DESC LIMIT 1 OFFSET \(Self.maximumPerUser))
      """, .integer(user))
    try await database.write { connection in
      try connection.run(insertion)
      try connection.run(removal)
    }
  }

  /// A user's newest notifications, the newest first.
  ///
  /// - Parameters:
  ///   - app, type, id: the notifications' app, and the type and id of their object; empty for any.
  func newest(
    _ limit: Int, user: Int64, app: String = "", type: String = "", id: String = ""
  ) async throws -> [Entry] {
    // The types and ids are sealed, so they are compared here and not in SQL.
    let isAny = app.isEmpty && type.isEmpty && id.isEmpty
    let newest = try await entries(
      Statement(
        "\(Self.select) WHERE user_id = $1 ORDER BY created_at DESC, nid DESC LIMIT $2", .integer(user),
        .integer(Int64(isAny ? limit : Self.maximumPerUser))), user: user)
    func fits(_ text: String, _ wanted: String) -> Bool {
      wanted.isEmpty || text.utf8.elementsEqual(wanted.utf8)
    }
    return Array(
      newest.lazy.filter {
        fits($0.notification.app, app) && fits($0.notification.type, type) && fits($0.notification.id, id)
      }.prefix(limit))
  }

  func find(_ nid: Int64, user: Int64) async throws -> Entry? {
    try await entries(
      Statement("\(Self.select) WHERE user_id = $1 AND nid = $2", .integer(user), .integer(nid)), user: user
    ).first
  }

  /// The app of each of these notifications that is stored.
  func apps(of nids: [Int64], user: Int64) async throws -> [Int64: String] {
    let rows = try await database.query(
      "SELECT nid, app FROM nextcloud_notifications WHERE user_id = $1 AND nid IN ($list)", .integer(user),
      list: nids.map { .integer($0) })
    return try rows.reduce(into: [:]) { try $0[try $1.int64("nid")] = $1.text("app") }
  }

  package func hasAny(user: Int64) async throws -> Bool {
    try await database.query(
      "SELECT 1 FROM nextcloud_notifications WHERE user_id = $1 LIMIT 1", .integer(user)
    ).first != nil
  }

  /// Deletes notifications of a user.
  ///
  /// - Parameter nids: their numbers; nil for all.
  func forget(_ nids: [Int64]?, user: Int64) async throws {
    let statement =
      nids.map { nids in
        Statement(
          "DELETE FROM nextcloud_notifications WHERE user_id = $1 AND nid IN ($list)", .integer(user),
          list: nids.map { .integer($0) })
      } ?? Statement("DELETE FROM nextcloud_notifications WHERE user_id = $1", .integer(user))
    _ = try await database.execute(statement)
  }

  /// Removes at most `limit` notifications sent before a time; returns how many.
  package func removeOld(before date: Date, limit: Int) async throws -> Int {
    try await database.run(
      """
      DELETE FROM nextcloud_notifications WHERE (user_id, nid) IN (
        SELECT user_id, nid FROM nextcloud_notifications WHERE created_at < $1 LIMIT $2)
      """, .integer(date.milliseconds), .integer(Int64(limit)))
  }

  private static let select = """
    SELECT nid, app, created_at, subject, message, object_type, object_id FROM nextcloud_notifications
    """

  /// The entries that open.
  private func entries(_ statement: Statement, user: Int64) async throws -> [Entry] {
    let rows = try await database.query(statement)
    return try rows.compactMap { row in
      let nid = try row.int64("nid")
      func text(_ column: SealedColumn) throws -> String? {
        storageKey.openText(try row.bytes(column.name), at: column.place(.integer(user), .integer(nid)))
      }
      guard let subject = try text(.notificationSubject), let message = try text(.notificationMessage),
        let type = try text(.notificationObjectType), let id = try text(.notificationObjectID)
      else { return nil }
      return Entry(
        notification: NextcloudNotification(
          nid: nid, app: try row.text("app"), subject: subject, message: message, type: type, id: id),
        sentAt: try row.date("created_at"))
    }
  }
}

/// A notification for a user of Nextcloud's apps.
package struct NextcloudNotification: Sendable, Hashable {
  /// Its number, by which apps fetch it and which deletions name.
  var nid: Int64
  /// The Nextcloud app it is from: at most 64 letters, digits, `_`, `-` and `.`.
  var app: String
  /// Title for people; cut in a push if it does not fit.
  var subject: String
  /// Further text for people; never in a push.
  var message = ""
  /// Type and id of the object it is about.
  var type: String
  var id: String
}
