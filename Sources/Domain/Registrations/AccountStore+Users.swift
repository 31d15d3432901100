package import Foundation
package import SQL
import Sealing

extension AccountStore {
  /// The properties of a user to be created or updated.
  package struct UserDescription: Sendable {
    package let email: String
    /// The UUID; nil keeps the present one, or creates one.
    package let uuid: UUID?
    /// 32 letters and digits; nil keeps the present one, or creates one.
    package let apiKey: String?
    /// The username; nil keeps the present one. For a new user nil means the email's local part, or the whole email if
    /// another user has that.
    package let username: String?

    package init(email: String, uuid: UUID? = nil, apiKey: String? = nil, username: String? = nil) {
      self.email = email
      self.uuid = uuid
      self.apiKey = apiKey
      self.username = username
    }
  }

  /// The reason why a user cannot be created or updated.
  package enum UserError: Error, Hashable {
    case unknownRealm
    case emailTaken
    case usernameTaken
    /// The realm has a user with this number already (``AccountStore/add(_:userID:realm:)``).
    case userIDTaken
    /// The realm has no free number for a user without a given one.
    case noUserIDLeft
  }

  /// Creates a user, or updates an existing one.
  ///
  /// - Parameter newKey: called in the same transaction, with the id of the user's row, if an existing user gets another
  ///   API key. It may be called more than once.
  /// - Returns: the user; the API key if it was given or created now; and whether the user is new.
  /// - Throws: ``UserError``, or the database's own error.
  package func put(
    _ description: UserDescription, userID: Int64, realm: UUID,
    newKey: @escaping @Sendable (_ user: Int64, any Connection) throws -> Void = { _, _ in }
  ) async throws -> (user: User, apiKey: String?, isNew: Bool) {
    let key = description.apiKey ?? RandomText.alphanumeric(Self.apiKeyLength)
    return try await write(description) { [self] connection in
      let realmID = try connection.realm(realm)
      let before = try connection.user(userID, realm: realmID).first.map(User.init)
      if let before {
        if try update(before, to: description, on: connection) { try newKey(before.id, connection) }
      } else {
        try insert(description, apiKey: key, userID: userID, realm: realmID, on: connection)
      }
      let isKeyNew = before == nil || description.apiKey != nil
      let user = try User(row: connection.user(userID, realm: realmID).returned)
      return (user, isKeyNew ? key : nil, before == nil)
    }
  }

  /// Creates a user; never changes an existing one.
  ///
  /// - Parameter userID: the user's number in the realm; nil chooses a free one.
  /// - Returns: the user and the API key.
  /// - Throws: ``UserError``, or the database's own error.
  package func add(_ description: UserDescription, userID: Int64?, realm: UUID) async throws -> (
    user: User, apiKey: String
  ) {
    let key = description.apiKey ?? RandomText.alphanumeric(Self.apiKeyLength)
    return try await write(description) { [self] connection in
      let realmID = try connection.realm(realm)
      let number = try userID ?? connection.freeUserID(realm: realmID)
      guard Self.isUserID(number) else { throw UserError.noUserIDLeft }
      try insert(description, apiKey: key, userID: number, realm: realmID, on: connection)
      return (try User(row: connection.user(number, realm: realmID).returned), key)
    }
  }

  /// Retries when another node has taken the same name or number meanwhile, which the database's constraint
  /// detects: a user without a given name then gets the next free one.
  private func write<Result: Sendable>(
    _ description: UserDescription, _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    for _ in 0..<3 {
      do {
        return try await database.write(body)
      } catch let error as DatabaseError where error.code == .uniqueViolation {
        let constraint = error.constraint ?? ""
        if constraint.contains("username") {
          if description.username == nil { continue }
          throw UserError.usernameTaken
        }
        if constraint.contains("email") { throw UserError.emailTaken }
        if constraint.contains("user_id") { throw UserError.userIDTaken }
        throw error
      }
    }
    throw UserError.usernameTaken
  }

  private func insert(
    _ description: UserDescription, apiKey: String, userID: Int64, realm: Int64, on connection: any Connection
  ) throws {
    let uuid = description.uuid ?? UUID()
    let username =
      try description.username
      ?? Self.usernames(for: description.email, uuid).first { try !connection.hasUser("username_key", $0) }
    guard let username else { throw UserError.usernameTaken }
    try connection.check(description.email, username, byOtherThan: nil)
    try connection.run(
      """
      INSERT INTO users
        (email, email_key, username, username_key, uuid, api_key_hash, realm_id, user_id, last_event, created_at)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9)
      """,
      .text(description.email), .text(description.email.lowercased()), .text(username),
      .text(username.lowercased()), .text(uuid.canonical),
      .bytes(storageKey.hash(apiKey, for: Self.apiKeyPurpose)), .integer(realm), .integer(userID),
      .integer(now().milliseconds))
  }

  /// - Returns: whether the API key has changed.
  private func update(
    _ user: User, to description: UserDescription, on connection: any Connection
  ) throws -> Bool {
    let username = description.username ?? user.username
    try connection.check(description.email, username, byOtherThan: user.id)
    let keyHash = description.apiKey.map { storageKey.hash($0, for: Self.apiKeyPurpose) }
    let oldHash = try connection.query("SELECT api_key_hash FROM users WHERE id = $1", .integer(user.id))
      .first?.bytes("api_key_hash")
    try connection.run(
      """
      UPDATE users SET email = $1, email_key = $2, username = $3, username_key = $4, uuid = $5,
        api_key_hash = COALESCE($6, api_key_hash)
      WHERE id = $7
      """,
      .text(description.email), .text(description.email.lowercased()), .text(username),
      .text(username.lowercased()), .text((description.uuid ?? user.uuid).canonical), .bytes(keyHash),
      .integer(user.id))
    return keyHash != nil && keyHash != oldHash
  }
}

extension Connection {
  fileprivate func realm(_ uuid: UUID) throws -> Int64 {
    let statement = Statement("SELECT id FROM realms WHERE uuid = $1", .text(uuid.canonical))
    guard let id = try query(statement).first?.int64("id") else { throw AccountStore.UserError.unknownRealm }
    return id
  }

  fileprivate func user(_ userID: Int64, realm: Int64) throws -> [Row] {
    try query(
      "\(AccountStore.select) \(AccountStore.from) WHERE u.realm_id = $1 AND u.user_id = $2", .integer(realm),
      .integer(userID)
    )
  }

  fileprivate func freeUserID(realm: Int64) throws -> Int64 {
    try query(
      "SELECT COALESCE(MAX(user_id), 9) + 1 AS user_id FROM users WHERE realm_id = $1", .integer(realm)
    ).returned.int64("user_id")
  }

  fileprivate func check(_ email: String, _ username: String, byOtherThan id: Int64?) throws {
    if try hasUser("email_key", email, otherThan: id) { throw AccountStore.UserError.emailTaken }
    if try hasUser("username_key", username, otherThan: id) { throw AccountStore.UserError.usernameTaken }
  }

  /// Whether a user other than `id` has this email or username, ignoring case.
  fileprivate func hasUser(_ column: String, _ text: String, otherThan id: Int64? = nil) throws -> Bool {
    try query("SELECT id FROM users WHERE \(column) = $1", .text(text.lowercased()))
      .contains { try $0.int64("id") != id }
  }
}
