package import Foundation
package import Providers
import Registrations
package import SQL
package import Sealing

/// The Web Push subscriptions of the Nextcloud side's users. A subscription is deleted with its app password
/// and its user; one made with the account's API key is invalid under another key.
package struct NextcloudSubscriptions: Sendable {
  /// Thrown if the app password or the user is gone.
  package struct UnknownHolder: Error, Hashable {}

  /// The result of a registration.
  package enum Registered: Sendable {
    /// It is unchanged, except perhaps for its app types.
    case renewed
    /// It is new, and its app must return this token to activate it.
    case new(NextcloudSubscription, activationToken: String)
  }

  /// The result of a returned token.
  enum Activation {
    /// The holder has no subscription.
    case nothing
    /// It was active before.
    case wasActive
    /// It is active from now on.
    case isActive
    /// The token is not the one that was sent.
    case wrongToken
  }

  private static let activationPurpose = StorageKey.Purpose("registrations.activation_hash")

  private let database: any Database
  private let storageKey: StorageKey
  private let now: @Sendable () -> Date

  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// Registers a subscription. If the holder's active one has the same endpoint and keys, it stays and gets
  /// the new app types. Otherwise the new one replaces the holder's subscription and the user's others with
  /// that endpoint, which are older ones of the same app.
  ///
  /// - Throws: ``UnknownHolder``, or the database's own error.
  package func put(
    _ target: WebPushSubscription, _ appTypes: AppTypes, of holder: NextcloudSubscription.Holder
  ) async throws -> Registered {
    let now = now()
    let token = UUID().canonical
    let text = target.token
    let hash = storageKey.hash(endpoint: target.endpoint.url)
    let place = SealedPlace.token(account: .integer(holder.user), endpoint: .bytes(hash))
    let insertion = Statement(
      """
      INSERT INTO registrations
        (wire, kind, account_id, app_password_id, api_key_hash, endpoint_hash, token, app_types, activation_hash,
         registered_at, token_hash)
      VALUES (\(Wire.nextcloudWebPush.sql), \(TokenKind.fcm.sql), $1, $2, \(holder.apiKeyHash), $3, $4, $5, $6, $7, $8)
      RETURNING id, registered_at
      """, .integer(holder.user), .integer(holder.appPassword), .bytes(hash),
      .bytes(storageKey.seal(text, at: place)), .text(appTypes.text),
      .bytes(storageKey.hash(token, for: Self.activationPurpose)), .integer(now.milliseconds),
      .integer(hash.prefix(8).reduce(0) { $0 << 8 | Int64($1) }))
    do {
      return try await database.write { [storageKey] connection in
        guard try connection.lock(holder) else { throw UnknownHolder() }
        let active = try connection.query(
          """
          SELECT id, token FROM registrations
          WHERE \(isHolders) AND endpoint_hash = $3 AND activated_at IS NOT NULL
            AND (app_password_id IS NOT NULL OR api_key_hash = \(holder.apiKeyHash))
          """, .integer(holder.user), .integer(holder.appPassword), .bytes(hash)
        ).first
        if let active, storageKey.openText(try active.bytes("token"), at: place) == text {
          try connection.run(
            """
            UPDATE registrations SET app_types = $2, registered_at = $3,
              \(RegistrationReference.clearFailureAndHold)
            WHERE id = $1
            """, .integer(try active.int64("id")), .text(appTypes.text), .integer(now.milliseconds))
          return .renewed
        }
        try connection.run(
          "DELETE FROM registrations WHERE \(isHolders) OR account_id = $1 AND endpoint_hash = $3",
          .integer(holder.user), .integer(holder.appPassword), .bytes(hash))
        let new = NextcloudSubscription(
          reference: try .init(.nextcloudWebPush, connection.query(insertion).returned), holder: holder,
          target: target, appTypes: appTypes, wantsShort: false)
        return .new(new, activationToken: token)
      }
    } catch let error as DatabaseError where error.code == .foreignKeyViolation {
      // The user or app password was removed meanwhile.
      throw UnknownHolder()
    }
  }

  /// Activates a holder's subscription if this is the token that was sent to it.
  func activate(
    _ token: String, of holder: NextcloudSubscription.Holder
  ) async throws -> Activation {
    let now = now()
    return try await database.write { [storageKey] connection in
      let found = try connection.query(
        "SELECT id, activation_hash FROM registrations WHERE \(isHolders)", .integer(holder.user),
        .integer(holder.appPassword)
      ).first
      guard let found else { return .nothing }
      guard let expected = try found.optionalBytes("activation_hash") else { return .wasActive }
      guard storageKey.matches(token, hash: expected, for: Self.activationPurpose) else { return .wrongToken }
      try connection.run(
        "UPDATE registrations SET activation_hash = NULL, activated_at = $2 WHERE id = $1",
        .integer(try found.int64("id")), .integer(now.milliseconds))
      return .isActive
    }
  }

  /// Removes a holder's subscription. Returns false if there was none.
  package func remove(_ holder: NextcloudSubscription.Holder) async throws -> Bool {
    try await database.run(
      "DELETE FROM registrations WHERE \(isHolders)", .integer(holder.user), .integer(holder.appPassword)) > 0
  }

  /// A user's active subscriptions that open, the oldest first.
  package func active(of user: Int64) async throws -> [NextcloudSubscription] {
    try await database.query(
      """
      SELECT w.id, w.registered_at, w.app_password_id, w.endpoint_hash, w.token, w.app_types, w.failure
      FROM registrations w JOIN users u ON u.id = w.account_id
      WHERE w.account_id = $1 AND w.activated_at IS NOT NULL
        AND (w.app_password_id IS NOT NULL OR w.api_key_hash = u.api_key_hash)
      ORDER BY w.id
      """, .integer(user)
    ).compactMap { row in
      let place = SealedPlace.token(account: .integer(user), endpoint: .bytes(try row.bytes("endpoint_hash")))
      guard let text = storageKey.openText(try row.bytes("token"), at: place),
        let target = try? WebPushSubscription(token: text)
      else { return nil }
      return NextcloudSubscription(
        reference: try .init(.nextcloudWebPush, row),
        holder: .init(user: user, appPassword: try row.optionalInt64("app_password_id")), target: target,
        appTypes: AppTypes(try row.text("app_types")),
        wantsShort: try row.optionalText("failure") == Reason.payloadTooLarge.description)
    }
  }

  /// Number of subscriptions of all users, and of the active ones among them.
  package func count() async throws -> (all: Int64, active: Int64) {
    let statement = Statement(
      "SELECT COUNT(*) AS number, COUNT(activated_at) AS active FROM registrations WHERE account_id IS NOT NULL"
    )
    guard let row = try await database.query(statement).first else { return (0, 0) }
    return (try row.int64("number"), try row.int64("active"))
  }
}

/// Condition for a holder's row; the holder's parts are the arguments `$1` and `$2`.
private let isHolders = "account_id = $1 AND app_password_id IS NOT DISTINCT FROM $2"

extension NextcloudSubscription.Holder {
  /// The value of `api_key_hash` for the user in the argument `$1`.
  fileprivate var apiKeyHash: String {
    appPassword == nil ? "(SELECT api_key_hash FROM users WHERE id = $1)" : "NULL"
  }
}

extension Connection {
  /// Locks the user until this transaction ends; returns whether the holder still exists.
  fileprivate func lock(_ holder: NextcloudSubscription.Holder) throws -> Bool {
    guard try lock(user: holder.user) else { return false }
    guard let appPassword = holder.appPassword else { return true }
    return try !query(
      "SELECT 1 FROM app_passwords WHERE id = $1 AND user_id = $2", .integer(appPassword),
      .integer(holder.user)
    ).isEmpty
  }
}
