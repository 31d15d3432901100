import Foundation
package import Providers
package import SQL
package import Sealing

/// The apps and Firebase projects of living registrations, to compare them with the credentials. Reads every
/// registration, so use it only for people.
package struct RegistrationTargets: Sendable {
  /// Number of registrations that name a bundle id or project.
  package struct Count: Sendable, Hashable {
    package let provider: Route.Provider
    package let target: String
    /// Whether their tokens are for calls only (PushKit), which have a topic of their own.
    package let isPushKit: Bool
    /// Whether they were registered at the push proxy, where anybody can register a device.
    package let isUntrusted: Bool
    /// The environment of APNs that has accepted the tokens; nil if it is not known.
    package let environment: APNsCredential.Environment?
    package let count: Int
  }

  /// Number of Android registrations whose tokens are opened to tell FCM from Web Push.
  static let sample = 1000

  private let database: any Database

  package init(database: any Database) { self.database = database }

  /// The targets that registrations name, the most frequent first.
  package func counts() async throws -> [Count] {
    try await database.query(
      """
      SELECT kind, target, CASE WHEN wire IN (\(Wire.open)) THEN 1 ELSE 0 END AS is_untrusted, COUNT(*) AS count, environment
      FROM registrations
      WHERE ended_at IS NULL AND elsewhere IS NULL AND target IS NOT NULL AND kind <= \(TokenKind.pushKit.sql) AND wire <> \(Wire.nextcloudWebPush.sql)
      GROUP BY 1, 2, 3, 5 ORDER BY 4 DESC, 2, 5
      """
    ).map { row in
      let kind = TokenKind(rawValue: try row.int64("kind")) ?? .apns
      return Count(
        provider: kind.provider, target: try row.text("target"), isPushKit: kind == .pushKit,
        isUntrusted: try row.flag("is_untrusted"),
        environment: .init(storage: try row.optionalInt64("environment")), count: Int(try row.int64("count")))
    }
  }

  /// Counts the registrations for the default Firebase project. The database does not say which Android registrations
  /// are Web Push subscriptions, so the tokens of the latest 1,000 are opened.
  ///
  /// - Parameter isUntrusted: whether to count those of the push proxy, or those of chat servers.
  /// - Returns: their number, and whether there may be more.
  package func ofDefaultProject(
    isUntrusted: Bool, _ storageKey: StorageKey
  ) async throws -> (count: Int, isCut: Bool) {
    let rows = try await database.query(
      """
      SELECT token, realm_id, token_id, server_id, user_id, user_uuid, device_identifier, user_key, wire
      FROM registrations
      WHERE kind = \(TokenKind.fcm.sql) AND target IS NULL AND ended_at IS NULL AND elsewhere IS NULL AND token IS NOT NULL
        AND \(isUntrusted ? "wire IN (\(Wire.open))" : "wire IN (\(Wire.zulip))") ORDER BY id DESC LIMIT \(Self.sample)
      """)
    let count = try rows.count { row in
      let isE2EE = try row.int64("wire") == Wire.e2ee.rawValue
      let place = SealedPlace.token(
        realm: isE2EE ? try row.value("realm_id") : .null, tokenID: try row.value("token_id"),
        server: try row.value("server_id"), user: try row.value("user_id"), uuid: try row.value("user_uuid"),
        identifier: try row.value("device_identifier"), userKey: try row.value("user_key"))
      guard let token = storageKey.openText(try row.bytes("token"), at: place) else { return false }
      return (try? PushToken(token, kind: .fcm))?.provider == .fcm
    }
    return (count, rows.count == Self.sample)
  }
}
