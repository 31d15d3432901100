import Foundation
import NextcloudProxy
import Registrations
import SQL

/// The phones that get pushes of the Nextcloud side's users, one per app password. A registration is deleted
/// with its app password and its user.
package struct NextcloudRegistrations: Sendable {
  /// Thrown if the app password is gone.
  struct UnknownAppPassword: Error, Hashable {}

  private let database: any Database
  private let now: @Sendable () -> Date

  init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
  }

  /// Registers a phone or renews its registration. Another registration of the user with the same push token
  /// is an older one of the same phone, and is removed.
  ///
  /// If the phone's key, token or proxy changes, the queued pushes can no longer reach it and are removed.
  ///
  /// - Returns: whether anything has changed.
  /// - Throws: ``UnknownAppPassword``, or the database's own error.
  func put(_ registration: NextcloudRegistration.Description) async throws -> Bool {
    let now = now()
    return try await database.write { connection in
      let isThere = try connection.query(
        "SELECT 1 FROM app_passwords WHERE id = $1 AND user_id = $2", .integer(registration.appPassword),
        .integer(registration.user))
      guard !isThere.isEmpty else { throw UnknownAppPassword() }
      try connection.run(
        """
        DELETE FROM nextcloud_registrations
        WHERE user_id = $1 AND push_token_hash = $2 AND app_password_id <> $3
        """,
        .integer(registration.user), .text(registration.pushTokenHash), .integer(registration.appPassword))
      let before = try connection.query(
        "\(select) WHERE app_password_id = $1", .integer(registration.appPassword)
      ).first.map(NextcloudRegistration.init)
      try connection.run(
        """
        INSERT INTO nextcloud_registrations
          (user_id, app_password_id, device_identifier, device_key, push_token_hash, proxy_server, proxy_url,
           app_kind, created_at, registered_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
        ON CONFLICT (app_password_id) DO UPDATE SET
          device_identifier = excluded.device_identifier, device_key = excluded.device_key,
          push_token_hash = excluded.push_token_hash, proxy_server = excluded.proxy_server,
          proxy_url = excluded.proxy_url, app_kind = excluded.app_kind, registered_at = excluded.registered_at
        """,
        .integer(registration.user), .integer(registration.appPassword), .text(registration.deviceIdentifier),
        .text(registration.deviceKey), .text(registration.pushTokenHash), .text(registration.proxyServer),
        .text(registration.proxyURL), .integer(registration.appKind.rawValue), .integer(now.milliseconds))
      guard let before else { return true }
      if registration.cannotRead(pushesFor: before.description) {
        try connection.run("DELETE FROM nextcloud_pushes WHERE registration_id = $1", .integer(before.id))
      }
      return before.description != registration
    }
  }

  /// All phones of a user, the oldest registration first.
  func all(of user: Int64) async throws -> [NextcloudRegistration] {
    try await database.query("\(select) WHERE user_id = $1 ORDER BY id", .integer(user))
      .map(NextcloudRegistration.init)
  }

  /// Number of phones of all users.
  package func count() async throws -> Int64 {
    try await database.query("SELECT COUNT(*) AS count FROM nextcloud_registrations").first?.int64("count")
      ?? 0
  }

  /// The phone registered with an app password.
  func find(appPassword: Int64) async throws -> NextcloudRegistration? {
    try await database.query("\(select) WHERE app_password_id = $1", .integer(appPassword))
      .first.map(NextcloudRegistration.init)
  }

  /// Removes the phone registered with an app password. Returns false if there is none.
  func remove(appPassword: Int64) async throws -> Bool {
    try await database.run(
      "DELETE FROM nextcloud_registrations WHERE app_password_id = $1", .integer(appPassword)) > 0
  }

  /// Removes registrations that a push was made for, unless they were renewed since.
  ///
  /// - Returns: how many were removed.
  func forget(_ registrations: [(id: Int64, registeredAt: Date)]) async throws -> Int {
    guard !registrations.isEmpty else { return 0 }
    let statements = registrations.map { id, registeredAt in
      Statement(
        "DELETE FROM nextcloud_registrations WHERE id = $1 AND registered_at = $2", .integer(id),
        .integer(registeredAt.milliseconds))
    }
    return try await database.write { connection in
      try statements.reduce(0) { try $0 + connection.run($1) }
    }
  }
}

private let select = """
  SELECT id, user_id, app_password_id, device_identifier, device_key, push_token_hash, proxy_server, app_kind,
    registered_at
  FROM nextcloud_registrations
  """

extension NextcloudRegistration.Description {
  fileprivate func cannotRead(pushesFor before: Self) -> Bool {
    (deviceIdentifier, deviceKey, pushTokenHash, proxyURL)
      != (before.deviceIdentifier, before.deviceKey, before.pushTokenHash, before.proxyURL)
  }
}

extension NextcloudRegistration {
  fileprivate init(row: Row) throws {
    self.init(
      id: try row.int64("id"),
      description: Description(
        user: try row.int64("user_id"), appPassword: try row.int64("app_password_id"),
        deviceIdentifier: try row.text("device_identifier"),
        deviceKey: try row.text("device_key"), pushTokenHash: try row.text("push_token_hash"),
        proxyServer: try row.text("proxy_server"),
        appKind: NextcloudApp.Kind(rawValue: try row.int64("app_kind")) ?? .other),
      registeredAt: try row.date("registered_at"))
  }
}
