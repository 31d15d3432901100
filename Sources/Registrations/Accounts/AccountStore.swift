package import Foundation
package import SQL
package import Sealing

/// The realms and users of the built-in chat-server side. Keys and passwords are kept as keyed hashes
/// only (`Documentation/Decisions` 0015).
package struct AccountStore: Sendable {
  /// Letters and digits in an API key.
  package static let apiKeyLength = 32

  static let apiKeyPurpose = StorageKey.Purpose("users.api_key")

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date

  /// The accounts in `database`, whose keys are hashed under `storageKey`.
  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// What a pair of email and API key is worth.
  package enum Authentication: Sendable {
    /// No user has this email, or another key.
    case invalid
    /// The user's own key.
    case authenticated(User)
  }

  /// Checks a user's API key, by email without regard to case.
  package func authenticate(email: String, apiKey: String) async throws -> Authentication {
    // No email has U+0000, and a database would not even compare it.
    guard !email.utf8.contains(0) else { return .invalid }
    let statement = Statement(
      "\(Self.select), u.api_key_hash \(Self.from) WHERE u.email_key = $1", .text(email.lowercased()))
    let row = try await database.lookUp(statement).first
    // Whether there is such a user does not show in the time.
    let expected = try row?.bytes(Self.columnCount) ?? [UInt8](repeating: 0, count: 32)
    guard storageKey.matches(apiKey, hash: expected, for: Self.apiKeyPurpose), let row else {
      return .invalid
    }
    return .authenticated(try User(row: row))
  }

  /// The user whose API key this is, by username or email without regard to case.
  package func authenticate(login: String, apiKey: String) async throws -> User? {
    guard !login.utf8.contains(0) else { return nil }
    // One user's username may be spelled like another's email: the key decides.
    let statement = Statement(
      "\(Self.select), u.api_key_hash \(Self.from) WHERE u.email_key = $1 OR u.username_key = $1",
      .text(login.lowercased()))
    let rows = try await database.lookUp(statement)
    return try rows.first { row in
      storageKey.matches(apiKey, hash: try row.bytes(Self.columnCount), for: Self.apiKeyPurpose)
    }.map(User.init)
  }

  /// The user with this username, without regard to case.
  package func find(username: String) async throws -> User? {
    guard !username.utf8.contains(0) else { return nil }
    let statement = Statement(
      "\(Self.select) \(Self.from) WHERE u.username_key = $1", .text(username.lowercased()))
    return try await database.lookUp(statement).first.map(User.init)
  }

  /// The user of a realm with this number.
  package func find(realm: UUID, userID: Int64) async throws -> User? {
    let statement = Statement(
      "\(Self.select) \(Self.from) WHERE r.uuid = $1 AND u.user_id = $2", .text(realm.canonical),
      .integer(userID))
    return try await database.lookUp(statement).first.map(User.init)
  }

  /// The user whose row this is.
  package func find(_ id: Int64) async throws -> User? {
    let statement = Statement("\(Self.select) \(Self.from) WHERE u.id = $1", .integer(id))
    return try await database.lookUp(statement).first.map(User.init)
  }

  /// The user with this email, without regard to case.
  package func find(email: String) async throws -> User? {
    let statement = Statement(
      "\(Self.select) \(Self.from) WHERE u.email_key = $1", .text(email.lowercased()))
    return try await database.lookUp(statement).first.map(User.init)
  }

  /// Every user, by realm and email.
  package func all() async throws -> [User] {
    let statement = Statement("\(Self.select) \(Self.from) ORDER BY r.name, r.id, u.email_key")
    return try await database.query(statement).map(User.init)
  }

  static let select = """
    SELECT u.id, u.user_id, u.uuid, u.email, u.username, r.id, r.uuid, r.name, r.url, r.require_e2ee, r.created_at
    """
  static let from = "FROM users u JOIN realms r ON r.id = u.realm_id"
  static let columnCount = 11
}

extension User {
  /// From the columns of ``AccountStore/select``.
  init(row: Row) throws {
    self.init(
      id: try row.int64(0), realm: try ChatRealm(row: row, from: 5), userID: try row.int64(1),
      uuid: try row.uuid(2), email: try row.text(3), username: try row.text(4))
  }
}

extension ChatRealm {
  static let columns = "id, uuid, name, url, require_e2ee, created_at"

  init(row: Row, from first: Int = 0) throws {
    self.init(
      id: try row.int64(first), uuid: try row.uuid(first + 1), name: try row.text(first + 2),
      url: try row.text(first + 3), requiresE2EE: try row.flag(first + 4),
      createdAt: try row.date(first + 5))
  }
}
