import Foundation
import SQL
import Sealing

extension AccountStore {
  /// Maximum number of app passwords of a user.
  package static let maximumAppPasswords = 100

  /// Letters and digits in an app password, the same as in Nextcloud.
  package static let appPasswordLength = 72

  static let appPasswordPurpose = StorageKey.Purpose("app_passwords.password")

  /// The reason why no app password can be created.
  package enum AppPasswordError: Error, Hashable {
    /// The user has ``maximumAppPasswords``.
    case tooMany
    /// The user no longer exists.
    case unknownUser
  }

  /// Creates an app password. Only its hash is stored, so it cannot be shown again.
  ///
  /// - Parameter user: row id of the user.
  /// - Throws: ``AppPasswordError``, or the database's own error.
  package func addAppPassword(name: String, user: Int64) async throws -> (id: Int64, password: String) {
    let new = newAppPassword()
    let id = try await database.write { try $0.insert(new, name: name, user: user) }
    return (id, new.password)
  }

  /// Generates an app password without storing it.
  func newAppPassword() -> NewAppPassword {
    let password = RandomText.alphanumeric(Self.appPasswordLength)
    return NewAppPassword(
      password: password, hash: storageKey.hash(password, for: Self.appPasswordPurpose), createdAt: now())
  }

  /// An app password that is not stored yet.
  struct NewAppPassword: Sendable {
    let password: String
    let hash: [UInt8]
    let createdAt: Date
  }

  /// Removes an app password of a user. Returns false if the user has none with this id.
  package func removeAppPassword(_ id: Int64, user: Int64) async throws -> Bool {
    try await database.run(
      "DELETE FROM app_passwords WHERE id = $1 AND user_id = $2", .integer(id), .integer(user)) > 0
  }

  /// The login of a caller with an app password, or with the account's API key; nil if that is not right.
  ///
  /// - Parameter account: the user's username or email, ignoring case; nil allows only an app password.
  package func login(_ account: String?, secret: String) async throws -> NextcloudLogin? {
    if let account, Self.isAPIKey(secret) {
      return try await authenticate(login: account, apiKey: secret).map {
        NextcloudLogin(user: $0, appPassword: nil)
      }
    }
    // Found by the password, which is unique: one user's username may be spelled like another's email.
    let found = try await database.lookUp(
      "\(Self.select), p.id AS app_password_id \(Self.from) JOIN app_passwords p ON p.user_id = u.id WHERE p.password_hash = $1",
      .bytes(storageKey.hash(secret, for: Self.appPasswordPurpose))
    ).first.map { NextcloudLogin(user: try User(row: $0), appPassword: try $0.int64("app_password_id")) }
    return found.flatMap { account.map($0.user.answers) ?? true ? $0 : nil }
  }
}

/// The caller of an OCS endpoint.
package struct NextcloudLogin: Sendable {
  package let user: User
  /// Id of the app password used; nil for the account's API key, which stands for no phone.
  package let appPassword: Int64?
}

extension User {
  /// Whether `login` is this user's username or email, ignoring case.
  fileprivate func answers(to login: String) -> Bool {
    let login = login.lowercased()
    return [username, email].contains { $0.lowercased() == login }
  }
}

extension Connection {
  /// Stores an app password for a user and returns its id.
  ///
  /// - Throws: ``AccountStore/AppPasswordError``, or the database's own error.
  func insert(_ new: AccountStore.NewAppPassword, name: String, user: Int64) throws -> Int64 {
    try checkRoomForAppPassword(of: user)
    return try query(
      """
      INSERT INTO app_passwords (user_id, name, password_hash, created_at) VALUES ($1, $2, $3, $4)
      RETURNING id
      """, .integer(user), .text(name), .bytes(new.hash), .integer(new.createdAt.milliseconds)
    ).returned.int64("id")
  }

  /// Locks a user, so that other changes of what belongs to it wait until this transaction ends; false if
  /// there is no such user.
  package func lock(user: Int64) throws -> Bool {
    try run("UPDATE users SET last_event = last_event WHERE id = $1", .integer(user)) > 0
  }

  /// Throws ``AccountStore/AppPasswordError`` if a user may have no more app passwords.
  func checkRoomForAppPassword(of user: Int64) throws {
    // Concurrent calls are counted one after the other.
    guard try lock(user: user) else { throw AccountStore.AppPasswordError.unknownUser }
    let count = Statement("SELECT COUNT(*) AS count FROM app_passwords WHERE user_id = $1", .integer(user))
    guard try query(count).returned.int64("count") < AccountStore.maximumAppPasswords else {
      throw AccountStore.AppPasswordError.tooMany
    }
  }
}
